// Receiving. `plan` predicts where the next packets belong and makes a scatter list: the headers go into
// scratch memory, and each payload goes into the memory that its X_WRITE will probably name. If every header
// of a received train confirms the prediction, the payload is in place and nothing is copied. Otherwise the
// whole train is gathered into one buffer before any payload is placed, because the target of one payload may
// still contain another payload of the same train.
#include <algorithm>
#include <cstring>
#include <optional>

#include "dataplane/fabric/management_queue_pair.hpp"
#include "dataplane/fabric/software_fabric.hpp"
#include "dataplane/fabric/software_queue_pair.hpp"

namespace rdmc::fabric {
namespace {

constexpr std::size_t kMostPredicted = 64;

bool is_extended_write(roce::Opcode opcode) {
  return opcode == roce::Opcode::x_write || opcode == roce::Opcode::x_write_last ||
         opcode == roce::Opcode::x_write_last_immediate;
}

std::byte* base(const iovec& piece) {
  return static_cast<std::byte*>(piece.iov_base);
}

/// Returns the number of datagrams of a train. Returns 0 for a train without bytes. No port should deliver
/// such a train, but a driver that does must cause no harm.
std::size_t datagrams_in(const port::RxTrain& train) {
  const std::size_t segment = train.segment_bytes;
  return segment == 0 ? 0 : (train.total_bytes + segment - 1) / segment;
}

/// Returns true if `source` is the address of `peer`. With `any_port`, the UDP port numbers may differ,
/// because a foreign endpoint may choose a new source port number for each packet.
bool comes_from(const Address& peer, const Address& source, bool any_port) {
  return source == peer || (any_port && source.ipv6 == peer.ipv6 && source.bytes == peer.bytes);
}

}  // namespace

// Plans a scatter list of this form: [header][payload][trailer, next header][payload] … [trailer].
std::size_t SoftwareFabric::plan(port::FlowId flow, std::uint32_t, std::span<iovec> pieces) {
  SoftwareQueuePair* const queue_pair = newest_on(flow);
  if (queue_pair == nullptr || !queue_pair->connected_ || pieces.size() < 3) return 0;
  auto& connected = *queue_pair->connected_;
  const std::size_t between = between_payloads();
  const std::size_t per_packet = connected.path_mtu + between;
  const std::size_t most = std::min({std::size_t{port_.info().receive_train_segments}, kMostPredicted,
                                     port_.info().train_bytes / per_packet, (pieces.size() - 1) / 2,
                                     std::size_t{queue_pair->train_length_.expected()}});
  if (scatter_scratch_used_ + most * between > scatter_scratch_.size()) return 0;
  std::array<std::span<std::byte>, kMostPredicted> payloads;
  const std::size_t count = connected.connection.predict(
      std::span(payloads).first(most), queue_pair->planned_packets_, flows_[value_of(flow)].was_shared);
  if (count == 0) return 0;
  if (queue_pair->planned_packets_ == 0) planned_.push_back(queue_pair);
  queue_pair->planned_packets_ += static_cast<std::uint32_t>(count);
  std::byte* scratch = scatter_scratch_.data() + scatter_scratch_used_;
  scatter_scratch_used_ += count * between;

  std::size_t used = 0;
  std::size_t gap = roce::kXWriteHeaderBytes;
  for (std::size_t i = 0; i < count; ++i) {
    pieces[used++] = {scratch, gap};
    scratch += gap;
    pieces[used++] = {payloads[i].data(), payloads[i].size()};
    gap = between;
  }
  pieces[used++] = {scratch, trailer_bytes_};
  return used;
}

std::size_t SoftwareFabric::receive(Time now) {
  scatter_scratch_used_ = 0;
  const std::size_t count = port_.receive_burst(*this, trains_);
  const auto received = std::span(trains_).first(count);
  // All trains that are not in place are gathered before any payload is placed, because the target of one
  // train may contain the bytes of another train.
  std::size_t scattered = 0;
  for (const port::RxTrain& train : received) scattered += train.pieces.size() > 1 ? train.total_bytes : 0;
  if (scattered > linear_.size()) linear_.resize(scattered);
  std::size_t used = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (datagrams_in(received[i]) == 0) continue;
    const bool in_place = received[i].planned && is_in_place(received[i]);
    gathered_[i] = in_place ? std::span<const std::byte>{} : gather(received[i], used);
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (datagrams_in(received[i]) == 0) continue;
    gathered_[i].empty() ? receive_in_place(received[i], now)
                         : receive_gathered(received[i], gathered_[i], now);
    note_length(received[i]);
  }
  for (SoftwareQueuePair* queue_pair : touched_) {
    queue_pair->touched_ = false;
    queue_pair->connected_->connection.end_of_burst(now);
    scheduler_.mark(queue_pair->slot_);
    note_deadline(*queue_pair);
  }
  touched_.clear();
  for (SoftwareQueuePair* queue_pair : planned_) queue_pair->planned_packets_ = 0;
  planned_.clear();
  return count;
}

void SoftwareFabric::note_length(const port::RxTrain& train) {
  SoftwareQueuePair* const queue_pair = newest_on(train.flow);
  if (queue_pair != nullptr) queue_pair->train_length_.saw(static_cast<std::uint32_t>(datagrams_in(train)));
}

// Returns the `index`-th datagram of a train that was received into a scatter list. Its headers have not been
// parsed yet; only its length is certain.
SoftwareFabric::Landed SoftwareFabric::landed(const port::RxTrain& train, std::size_t index) const {
  const std::size_t segment = train.segment_bytes;
  return {.header = base(train.pieces[2 * index]) + (index == 0 ? 0 : trailer_bytes_),
          .payload = {base(train.pieces[2 * index + 1]), train.pieces[2 * index + 1].iov_len},
          .bytes = std::min(segment, train.total_bytes - index * segment)};
}

bool SoftwareFabric::is_in_place(const port::RxTrain& train) const {
  const std::size_t count = datagrams_in(train);
  if (2 * count >= train.pieces.size()) return false;
  for (std::size_t i = 0; i < count; ++i) {
    const Landed at = landed(train, i);
    if (at.payload.size() + between_payloads() != at.bytes) return false;
    const auto packet = parse(at);
    if (!packet || !is_extended_write(packet->bth.opcode) || packet->bth.pad_bytes != 0 ||
        regions_.locate(packet->x_write.key, packet->x_write.address, at.payload.size()) !=
            at.payload.data()) {
      return false;
    }
  }
  return true;
}

void SoftwareFabric::receive_in_place(const port::RxTrain& train, Time now) {
  const std::size_t count = datagrams_in(train);
  for (std::size_t i = 0; i < count; ++i) {
    const Landed at = landed(train, i);
    const auto packet = parse(at);
    receive_packet(*packet, at.header, train, at.bytes, base(train.pieces[2 * i + 2]), now);
  }
}

std::span<const std::byte> SoftwareFabric::gather(const port::RxTrain& train, std::size_t& used) {
  if (train.pieces.size() == 1) return {base(train.pieces[0]), train.total_bytes};
  const std::size_t begin = used;
  for (const iovec& piece : train.pieces) {
    const std::size_t part = std::min(piece.iov_len, train.total_bytes - (used - begin));
    std::memcpy(linear_.data() + used, piece.iov_base, part);
    used += part;
  }
  return {linear_.data() + begin, used - begin};
}

void SoftwareFabric::receive_gathered(const port::RxTrain& train, std::span<const std::byte> bytes,
                                      Time now) {
  const std::size_t segment = train.segment_bytes;
  while (!bytes.empty()) {
    const auto datagram = bytes.first(std::min(segment, bytes.size()));
    bytes = bytes.subspan(datagram.size());
    if (management_ != nullptr && roce::is_datagram_send(datagram)) {
      receive_management(datagram, train.source);
      continue;
    }
    const auto packet =
        roce::parse_packet(datagram.first(datagram.size() - std::min(datagram.size(), beyond_icrc())));
    if (!packet) {
      count(packet.error());
      continue;
    }
    receive_packet(*packet, datagram.data(), train, datagram.size(),
                   datagram.data() + datagram.size() - trailer_bytes_, now);
  }
}

void SoftwareFabric::receive_management(std::span<const std::byte> datagram, const Address& source) {
  const auto mad = roce::parse_management(datagram);
  if (!mad) {
    count(mad.error());
    return;
  }
  using Fate = ManagementQueuePair::Fate;
  switch (management_->on_datagram(source, datagram, *mad,
                                   roce::load_icrc(datagram.data() + datagram.size() - 4))) {
    case Fate::kept: ++counters_.management_datagrams; return;
    case Fate::no_room: ++counters_.management_overflow; return;
    case Fate::corrupt: ++counters_.icrc_errors; return;
  }
}

// Returns true if the ICRC of the packet is right, or if the connection uses no ICRCs. Sets `payload_crc` if
// the CRC of the payload was computed separately from the CRC of the header. It can then be used again when
// the payload is sent on.
bool SoftwareFabric::is_intact(SoftwareQueuePair& queue_pair, const roce::Packet& packet,
                               std::span<const std::byte> header, const port::RxTrain& train,
                               std::size_t datagram_bytes, const std::byte* trailer,
                               std::optional<std::uint32_t>& payload_crc) {
  auto& connected = *queue_pair.connected_;
  if (!connected.foreign && !connected.transmit.icrc) return true;
  const std::uint32_t icrc = roce::load_icrc(trailer);
  if (connected.foreign) {
    return connected.foreign->matches(train.source, header, packet.payload, packet.bth.pad_bytes,
                                      datagram_bytes, icrc, train.identification);
  }
  // An X_WRITE contains the identification that its sender's ICRC covers. Every other packet is the only
  // datagram of its train, so its identification is 0, unless the port reports the identification of the IP
  // header.
  const bool extended = is_extended_write(packet.bth.opcode);
  const auto identification =
      extended ? packet.x_write.identification : train.identification.value_or(std::uint16_t{0});
  const roce::Icrc& check =
      train.flow == port::kSharedFlow ? connected.receive_shared : connected.receive_bulk;
  if (extended && ArrivedChecksums::remembers(packet.payload.size()) && packet.bth.pad_bytes == 0 &&
      !arrived_.empty()) {
    payload_crc = roce::payload_crc(packet.payload, 0);
    return check.compute_with(identification, datagram_bytes, header, *payload_crc, packet.payload.size()) ==
           icrc;
  }
  return check.compute(identification, datagram_bytes, header, packet.payload, packet.bth.pad_bytes) == icrc;
}

/// Decrypts the payload in place. The payload is in a buffer that this side may write: a buffer of the port,
/// linear_, or the memory where the payload belongs.
bool SoftwareFabric::unseal(crypto::PacketOpener& opener, const roce::Packet& packet,
                            std::span<const std::byte> header, const std::byte* seal) {
  const std::span payload(const_cast<std::byte*>(packet.payload.data()), packet.payload.size());
  switch (opener.open(header, payload, seal)) {
    case crypto::Authenticity::authentic: return true;
    case crypto::Authenticity::forged: ++counters_.forged; return false;
    case crypto::Authenticity::stale: ++counters_.stale; return false;
  }
  return false;
}

/// Returns the queue pair of the last packet on this flow. Returns null if none is known. Also returns null
/// for the shared flow, where packets of all kinds arrive.
SoftwareQueuePair* SoftwareFabric::newest_on(port::FlowId flow) const {
  return value_of(flow) < flows_.size() ? flows_[value_of(flow)].newest : nullptr;
}

/// Returns the queue pair with this number, or null if there is none. Tries the newest queue pair of the flow
/// first, because an rdmc peer sends nearly all packets to the flow of its queue pair.
SoftwareQueuePair* SoftwareFabric::find(Qpn qpn, port::FlowId flow) const {
  SoftwareQueuePair* const usual = newest_on(flow);
  if (usual != nullptr && usual->local_.qpn == qpn) return usual;
  const auto found = queue_pairs_.find(value_of(qpn));
  return found == queue_pairs_.end() ? nullptr : found->second;
}

void SoftwareFabric::receive_packet(const roce::Packet& packet, const std::byte* header_bytes,
                                    const port::RxTrain& train, std::size_t datagram_bytes,
                                    const std::byte* trailer, Time now) {
  SoftwareQueuePair* const found = find(packet.bth.destination, train.flow);
  if (found == nullptr || !found->connected_) {
    ++counters_.unknown_queue_pair;
    return;
  }
  SoftwareQueuePair& queue_pair = *found;
  auto& connected = *queue_pair.connected_;
  if (!comes_from(connected.peer_source, train.source, connected.foreign.has_value())) {
    ++counters_.wrong_source;
    return;
  }
  const std::span header(header_bytes, packet.header_bytes);
  std::optional<std::uint32_t> payload_crc;
  if (connected.opener) {
    if (!unseal(*connected.opener, packet, header, trailer)) return;
  } else if (!is_intact(queue_pair, packet, header, train, datagram_bytes, trailer, payload_crc)) {
    ++counters_.icrc_errors;
    return;
  }
  if (train.flow == queue_pair.flow_ && train.flow != port::kSharedFlow)
    flows_[value_of(train.flow)].newest = &queue_pair;
  const roce::Arrival arrival = connected.connection.on_packet(packet, now, train.congestion_experienced);
  if (arrival.destination != nullptr && !packet.payload.empty()) {
    if (arrival.destination == packet.payload.data()) {
      ++counters_.packets_in_place;
    } else {
      std::memmove(arrival.destination, packet.payload.data(), packet.payload.size());
      counters_.bytes_copied += packet.payload.size();
      counters_.packets_repaired += is_extended_write(packet.bth.opcode) ? 1 : 0;
    }
    const std::span<const std::byte> placed(arrival.destination, packet.payload.size());
    if (payload_crc)
      arrived_.record(placed, *payload_crc);
    else if (!arrived_.empty())
      arrived_.forget(placed);
  }
  if (!queue_pair.touched_) {
    queue_pair.touched_ = true;
    touched_.push_back(&queue_pair);
  }
}

}  // namespace rdmc::fabric
