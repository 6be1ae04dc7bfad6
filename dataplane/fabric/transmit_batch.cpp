#include "dataplane/fabric/transmit_batch.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace rdmc::fabric {
namespace {

std::size_t datagram_bytes(const roce::TxPacket& packet) {
  return packet.header_bytes + packet.payload.size() + packet.pad_bytes + roce::kIcrcBytes;
}

std::uint32_t icrc_of(const roce::TxPacket& packet, std::uint16_t identification, const roce::Icrc& icrc,
                      std::size_t bytes, const ArrivedChecksums& arrived) {
  const std::span header(packet.header.data(), packet.header_bytes);
  const auto known =
      packet.extended_write && packet.pad_bytes == 0 ? arrived.find(packet.payload) : std::nullopt;
  return known ? icrc.compute_with(identification, bytes, header, *known, packet.payload.size())
               : icrc.compute(identification, bytes, header, packet.payload, packet.pad_bytes);
}

bool refers(const port::TxTrain& train, std::span<const std::byte> memory) {
  return std::ranges::any_of(train.pieces, [memory](const iovec& piece) {
    const auto* const begin = static_cast<const std::byte*>(piece.iov_base);
    return begin < memory.data() + memory.size() && memory.data() < begin + piece.iov_len;
  });
}

}  // namespace

void TransmitBatch::append(roce::TxPacket& packet, std::size_t index_in_train, const roce::Icrc* icrc,
                           std::size_t bytes, const ArrivedChecksums& arrived) {
  const auto identification = static_cast<std::uint16_t>(index_in_train);
  if (packet.extended_write) roce::set_identification(packet.header.data(), identification);
  auto& trailer = trailers_[static_cast<std::size_t>(&packet - packets_.data())];
  trailer.fill(std::byte{0});
  const std::uint32_t crc = icrc == nullptr ? 0 : icrc_of(packet, identification, *icrc, bytes, arrived);
  roce::store_icrc(&trailer[packet.pad_bytes], crc);
  pieces_[pieces_used_++] = {packet.header.data(), packet.header_bytes};
  if (!packet.payload.empty()) {
    pieces_[pieces_used_++] = {const_cast<std::byte*>(packet.payload.data()), packet.payload.size()};
  }
  pieces_[pieces_used_++] = {trailer.data(), packet.pad_bytes + roce::kIcrcBytes};
}

void TransmitBatch::seal(std::size_t count, const TransmitPath& path, const port::PortInfo& port,
                         const ArrivedChecksums& arrived) {
  const std::span batch(packets_.data() + packets_used_, count);
  packets_used_ += count;
  const roce::Icrc* const bulk_icrc = path.icrc ? &path.bulk_icrc : nullptr;
  const roce::Icrc* const shared_icrc = path.icrc ? &path.shared_icrc : nullptr;
  for (std::size_t first = 0; first < count;) {
    const std::size_t segment = datagram_bytes(batch[first]);
    const bool bulk = batch[first].bulk;
    port::TxTrain& train = trains_[trains_used_++];
    const std::size_t first_piece = pieces_used_;
    std::size_t total = 0, in_train = 0;
    // Only X_WRITEs travel in trains of several: they tell the receiver the identification that their ICRC
    // covers.
    const std::size_t most = batch[first].extended_write && path.trains ? port.train_segments : 1;
    bool shorter = false;
    while (first < count && in_train < most && !shorter) {
      roce::TxPacket& packet = batch[first];
      const std::size_t bytes = datagram_bytes(packet);
      if (in_train > 0 && (bytes > segment || packet.bulk != bulk || !packet.extended_write ||
                           total + bytes > port.train_bytes)) {
        break;
      }
      shorter = bytes < segment;  // only the last datagram of a train may be
      append(packet, port.identification_counts_up ? in_train : 0, bulk ? bulk_icrc : shared_icrc, bytes,
             arrived);
      total += bytes;
      ++in_train;
      ++first;
    }
    train = {.destination = bulk ? path.bulk : path.shared,
             .source = path.source,
             .pieces = std::span(pieces_.data() + first_piece, pieces_used_ - first_piece),
             .segment_bytes = static_cast<std::uint32_t>(segment),
             .total_bytes = static_cast<std::uint32_t>(total),
             .ecn_capable = bulk && path.ecn_capable};
  }
}

template <typename Predicate>
void TransmitBatch::drop_if(Predicate predicate) {
  const auto unsent = std::span(trains_).first(trains_used_).subspan(next_train_);
  trains_used_ -= std::ranges::remove_if(unsent, predicate).size();
  if (empty()) clear();
}

void TransmitBatch::drop(port::FlowId flow) {
  drop_if([flow](const port::TxTrain& train) { return train.source == flow; });
}

void TransmitBatch::drop(std::span<const std::byte> memory) {
  drop_if([memory](const port::TxTrain& train) { return refers(train, memory); });
}

void TransmitBatch::drop(port::FlowId flow, std::span<const std::byte> memory) {
  drop_if([&](const port::TxTrain& train) { return train.source == flow && refers(train, memory); });
}

bool TransmitBatch::send(port::Port& port) {
  const auto unsent = std::span(trains_).first(trains_used_).subspan(next_train_);
  next_train_ += port.send_burst(unsent);
  assert(next_train_ <= trains_used_);
  const bool all = empty();
  if (all) clear();
  return all;
}

}  // namespace rdmc::fabric
