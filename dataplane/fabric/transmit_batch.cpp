#include "dataplane/fabric/transmit_batch.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

namespace rdmc::fabric {
namespace {

std::uint32_t icrc_of(const roce::TxPacket& packet, std::uint16_t identification, const roce::Icrc& icrc,
                      std::size_t bytes, const ArrivedChecksums& arrived) {
  const std::span header(packet.header.data(), packet.header_bytes);
  const auto known =
      packet.extended_write && packet.pad_bytes == 0 ? arrived.find(packet.payload) : std::nullopt;
  return known ? icrc.compute_with(identification, bytes, header, *known, packet.payload.size())
               : icrc.compute(identification, bytes, header, packet.payload, packet.pad_bytes);
}

bool refers(const iovec& piece, std::span<const std::byte> memory) {
  const auto* const begin = static_cast<const std::byte*>(piece.iov_base);
  return begin < memory.data() + memory.size() && memory.data() < begin + piece.iov_len;
}

bool refers(const port::TxTrain& train, std::span<const std::byte> memory) {
  return std::ranges::any_of(train.pieces, [memory](const iovec& piece) { return refers(piece, memory); });
}

/// Removes the packets up to the last one that refers to `memory`. The pieces of a packet follow each other.
void cut_beginning(port::TxTrain& train, std::span<const std::byte> memory) {
  std::size_t bytes = 0, cut_bytes = 0, cut_pieces = 0;
  bool refers_to_it = false;
  for (std::size_t i = 0; i < train.pieces.size(); ++i) {
    bytes += train.pieces[i].iov_len;
    refers_to_it = refers_to_it || refers(train.pieces[i], memory);
    if (bytes % train.segment_bytes != 0 && bytes != train.total_bytes) continue;
    // The packet ends here.
    if (std::exchange(refers_to_it, false)) {
      cut_bytes = bytes;
      cut_pieces = i + 1;
    }
  }
  train.pieces = train.pieces.subspan(cut_pieces);
  train.total_bytes -= static_cast<std::uint32_t>(cut_bytes);
}

}  // namespace

/// Encrypts the payload of a packet and writes the seal. Returns the bytes to send as payload. The bitmap of
/// an X_ACKNOWLEDGE is sent as payload, but it is sealed like the header: it is authenticated and not
/// encrypted.
std::span<const std::byte> TransmitBatch::encrypt(const roce::TxPacket& packet, crypto::PacketSealer& sealer,
                                                  std::byte* seal) {
  const std::span header(packet.header.data(), packet.header_bytes);
  if (roce::Opcode{std::to_integer<std::uint8_t>(header[0])} == roce::Opcode::x_acknowledge) {
    std::array<std::byte, sizeof packet.header + 4 * roce::kMaxBitmapWords> whole;
    std::ranges::copy(packet.payload, std::ranges::copy(header, whole.begin()).out);
    sealer.seal(std::span(whole).first(header.size() + packet.payload.size()), {}, nullptr, seal);
    return packet.payload;
  }
  const std::span out = std::span(encrypted_).subspan(encrypted_used_, packet.payload.size());
  encrypted_used_ += out.size();
  // If the cipher fails, zeros are sent. The receiver drops this packet like a damaged one, and nothing is
  // disclosed.
  if (!sealer.seal(header, packet.payload, out.data(), seal)) std::ranges::fill(out, std::byte{0});
  return out;
}

void TransmitBatch::append(roce::TxPacket& packet, std::size_t index_in_train, std::size_t bytes,
                           const Seal& seal) {
  const auto identification = static_cast<std::uint16_t>(index_in_train);
  if (packet.extended_write) roce::set_identification(packet.header.data(), identification);
  auto& trailer = trailers_[static_cast<std::size_t>(&packet - packets_.data())];
  trailer.fill(std::byte{0});
  std::byte* const at = &trailer[packet.pad_bytes];
  std::span<const std::byte> payload = packet.payload;
  if (seal.sealer != nullptr)
    payload = encrypt(packet, *seal.sealer, at);
  else if (seal.icrc != nullptr)
    roce::store_icrc(at, icrc_of(packet, identification, *seal.icrc, bytes, seal.arrived));
  pieces_[pieces_used_++] = {packet.header.data(), packet.header_bytes};
  if (!payload.empty()) {
    pieces_[pieces_used_++] = {const_cast<std::byte*>(payload.data()), payload.size()};
  }
  pieces_[pieces_used_++] = {trailer.data(), packet.pad_bytes + seal.trailer_bytes()};
}

void TransmitBatch::seal(std::size_t count, const TransmitPath& path, const port::PortInfo& port,
                         const ArrivedChecksums& arrived) {
  const std::span batch(packets_.data() + packets_used_, count);
  packets_used_ += count;
  const Seal to_bulk{path.sealer.get(), path.icrc ? &path.bulk_icrc : nullptr, arrived};
  const Seal to_shared{path.sealer.get(), path.icrc ? &path.shared_icrc : nullptr, arrived};
  for (std::size_t first = 0; first < count;) {
    const bool bulk = batch[first].bulk;
    const Seal& seal_with = bulk ? to_bulk : to_shared;
    const std::size_t segment = seal_with.datagram_bytes(batch[first]);
    paths_[trains_used_] = &path;
    port::TxTrain& train = trains_[trains_used_++];
    const std::size_t first_piece = pieces_used_;
    std::size_t total = 0, in_train = 0;
    // Only X_WRITE packets are sent in trains of several datagrams, because only they contain the
    // identification that their ICRC covers.
    const std::size_t most = batch[first].extended_write && path.trains ? port.train_segments : 1;
    bool shorter = false;
    while (first < count && in_train < most && !shorter) {
      roce::TxPacket& packet = batch[first];
      const std::size_t bytes = seal_with.datagram_bytes(packet);
      if (in_train > 0 && (bytes > segment || packet.bulk != bulk || !packet.extended_write ||
                           total + bytes > port.train_bytes)) {
        break;
      }
      shorter = bytes < segment;  // Only the last datagram of a train may be shorter.
      append(packet, port.identification_counts_up ? in_train : 0, bytes, seal_with);
      total += bytes;
      ++in_train;
      ++first;
    }
    // The members are assigned one by one. A whole struct would be built on the stack, and the copy from
    // there would have to wait until the stores have completed.
    train.destination = bulk ? path.bulk : path.shared;
    train.source = path.source;
    train.pieces = std::span(pieces_.data() + first_piece, pieces_used_ - first_piece);
    train.segment_bytes = static_cast<std::uint32_t>(segment);
    train.total_bytes = static_cast<std::uint32_t>(total);
    train.ecn_capable = bulk && path.ecn_capable;
  }
}

template <typename Predicate>
void TransmitBatch::drop_if(Predicate predicate) {
  std::size_t kept = next_train_;
  for (std::size_t i = next_train_; i < trains_used_; ++i) {
    if (predicate(trains_[i], *paths_[i])) continue;
    trains_[kept] = trains_[i];
    paths_[kept++] = paths_[i];
  }
  trains_used_ = kept;
  if (empty()) clear();
}

void TransmitBatch::drop(const TransmitPath& path) {
  drop_if([&](const port::TxTrain&, const TransmitPath& of) { return &of == &path; });
}

void TransmitBatch::drop(std::span<const std::byte> memory) {
  drop_if([memory](const port::TxTrain& train, const TransmitPath&) { return refers(train, memory); });
}

void TransmitBatch::drop_oldest(const TransmitPath& path, std::span<const std::byte> memory) {
  drop_if([&](port::TxTrain& train, const TransmitPath& of) {
    if (&of == &path) cut_beginning(train, memory);
    return train.total_bytes == 0;
  });
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
