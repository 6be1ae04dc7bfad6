#include "dataplane/fabric/software_queue_pair.hpp"

#include <algorithm>

#include "dataplane/roce/constants.hpp"

namespace rdmc::fabric {
namespace {

WorkStatus status_of(const roce::WorkCompletion& completion) {
  using roce::FailureCause;
  if (completion.flushed) return WorkStatus::flushed;
  switch (completion.cause) {
    case FailureCause::none: return WorkStatus::success;
    case FailureCause::retry_exceeded: return WorkStatus::retry_exceeded;
    case FailureCause::rnr_retry_exceeded: return WorkStatus::rnr_retry_exceeded;
    case FailureCause::remote_invalid_request: return WorkStatus::remote_invalid_request;
    case FailureCause::remote_access: return WorkStatus::remote_access;
    case FailureCause::remote_operational: return WorkStatus::remote_operational;
    case FailureCause::local_length: return WorkStatus::local_length;
    case FailureCause::bad_response: return WorkStatus::bad_response;
    case FailureCause::local_invalid_request:
    case FailureCause::local_access:
    case FailureCause::closed: return WorkStatus::flushed;
  }
  return WorkStatus::flushed;
}

WorkKind kind_of(roce::CompletionKind kind) {
  switch (kind) {
    case roce::CompletionKind::send: return WorkKind::send;
    case roce::CompletionKind::write: return WorkKind::write;
    case roce::CompletionKind::receive: return WorkKind::receive;
    case roce::CompletionKind::receive_write_immediate: return WorkKind::receive_write_immediate;
    case roce::CompletionKind::read: return WorkKind::read;
    case roce::CompletionKind::atomic: return WorkKind::atomic;
  }
  return WorkKind::send;
}

std::string text_of(roce::FailureCause cause) {
  using roce::FailureCause;
  switch (cause) {
    case FailureCause::none: return "";
    case FailureCause::retry_exceeded: return "the peer stopped acknowledging";
    case FailureCause::rnr_retry_exceeded: return "the peer posted no receive";
    case FailureCause::remote_invalid_request: return "the peer refused a request as invalid";
    case FailureCause::remote_access: return "the peer refused access: key or range revoked or wrong";
    case FailureCause::remote_operational: return "the peer reported an error of its own";
    case FailureCause::local_length: return "a message arrived that is longer than the posted receive";
    case FailureCause::local_invalid_request: return "the peer sent an invalid request";
    case FailureCause::local_access: return "the peer reached outside of what it was granted";
    case FailureCause::bad_response: return "the peer answered a READ or atomic with something else";
    case FailureCause::closed: return "closed";
  }
  return "unknown";
}

/// The minimum timeout between two processes of one network stack. Few packets are lost there: the window
/// keeps the peer's buffer from overflowing, unless many queue pairs share that buffer and send at the same
/// moment. But on a machine with more processes than cores, the scheduler may delay an answer for a long
/// time.
constexpr Duration kSameStackMinimumTimeout = milliseconds(40);

// A READ request uses more PSNs than any other packet.
static_assert(crypto::PacketOpener::kMostOvertaken * roce::kReadRequestPackets <= (Psn::kMask + 1U) / 2);

/// The ciphers of a connection. Both are empty if neither side encrypts.
struct Ciphers {
  std::unique_ptr<crypto::PacketSealer> sealer;
  std::optional<crypto::PacketOpener> opener;
};

Result<Ciphers> ciphers(const ConnectionInfo& ours, const ConnectionInfo& theirs) {
  if (ours.key_share.has_value() != theirs.key_share.has_value())
    return fail(Errc::authentication, ours.key_share
                                          ? "this side encrypts its packets, the other does not"
                                          : "the other side encrypts its packets, this one does not");
  if (!ours.key_share) return Ciphers{};
  const auto to_us = crypto::packet_key(*ours.key_share, *theirs.key_share);
  if (!to_us) return std::unexpected(to_us.error());
  const auto to_them = crypto::packet_key(*theirs.key_share, *ours.key_share);
  if (!to_them) return std::unexpected(to_them.error());
  auto opener = crypto::PacketOpener::make(*to_us);
  if (!opener) return std::unexpected(opener.error());
  auto sealer = crypto::PacketSealer::make(*to_them);
  if (!sealer) return std::unexpected(sealer.error());
  return Ciphers{std::make_unique<crypto::PacketSealer>(std::move(*sealer)), std::move(*opener)};
}

}  // namespace

std::string_view name(WorkStatus status) noexcept {
  switch (status) {
    case WorkStatus::success: return "success";
    case WorkStatus::retry_exceeded: return "retry exceeded";
    case WorkStatus::rnr_retry_exceeded: return "RNR retry exceeded";
    case WorkStatus::remote_invalid_request: return "remote invalid request";
    case WorkStatus::remote_access: return "remote access error";
    case WorkStatus::remote_operational: return "remote operational error";
    case WorkStatus::local_length: return "local length error";
    case WorkStatus::bad_response: return "bad response";
    case WorkStatus::flushed: return "flushed";
  }
  return "unknown";
}

QueuePairState SoftwareQueuePair::state() const noexcept {
  if (!connected_) return QueuePairState::reset;
  return connected_->connection.failed() ? QueuePairState::error : QueuePairState::ready;
}

std::string SoftwareQueuePair::error_cause() const {
  if (!connected_) return "";
  const roce::FailureCause cause = connected_->connection.cause();
  const auto& port = fabric_.port_.counters();
  const bool no_link = cause == roce::FailureCause::retry_exceeded && port.link_losses != port.link_returns;
  return text_of(cause) + (no_link ? ": the link of our own port is down" : "");
}

Result<roce::Connection*> SoftwareQueuePair::connection() {
  if (!connected_) return fail(Errc::invalid_argument, "the queue pair is not connected");
  return &connected_->connection;
}

/// Adds the work request to posted_ if it was posted successfully. `bytes` is the memory that its packets
/// refer to.
Result<void> SoftwareQueuePair::note_posted(Result<void> posted, std::span<const std::byte> bytes) {
  if (posted) {
    posted_.push({.bytes = bytes, .post_order = fabric_.scheduler_.next_post_order()});
    fabric_.scheduler_.mark(slot_);
  }
  return posted;
}

Result<void> SoftwareQueuePair::post_send(const SendRequest& request) {
  if (request.immediate && request.invalidate)
    return fail(Errc::invalid_argument, "a SEND carries an immediate or invalidates a key, not both");
  const auto to = connection();
  if (!to) return std::unexpected(to.error());
  return note_posted((*to)->post_send({.work_id = request.work_id,
                                       .opcode = request.immediate    ? roce::SendOpcode::send_immediate
                                                 : request.invalidate ? roce::SendOpcode::send_invalidate
                                                                      : roce::SendOpcode::send,
                                       .bytes = request.bytes,
                                       .remote_key = request.invalidate.value_or(RemoteKey{}),
                                       .immediate = request.immediate.value_or(0)}),
                     request.bytes);
}

Result<void> SoftwareQueuePair::post_write(const WriteRequest& request) {
  const auto to = connection();
  if (!to) return std::unexpected(to.error());
  return note_posted((*to)->post_send({.work_id = request.work_id,
                                       .opcode = request.immediate ? roce::SendOpcode::write_immediate
                                                                   : roce::SendOpcode::write,
                                       .bytes = request.bytes,
                                       .remote_address = request.remote_address,
                                       .remote_key = request.remote_key,
                                       .immediate = request.immediate.value_or(0),
                                       .unordered = request.unordered}),
                     request.bytes);
}

Result<void> SoftwareQueuePair::post_read(const ReadRequest& request) {
  const auto to = connection();
  if (!to) return std::unexpected(to.error());
  return note_posted((*to)->post_read({.work_id = request.work_id,
                                       .bytes = request.bytes,
                                       .remote_address = request.remote_address,
                                       .remote_key = request.remote_key}),
                     {});
}

Result<void> SoftwareQueuePair::post_atomic(const AtomicRequest& request) {
  const auto to = connection();
  if (!to) return std::unexpected(to.error());
  const bool swap = request.kind == AtomicRequest::Kind::compare_swap;
  return note_posted(
      (*to)->post_atomic({.work_id = request.work_id,
                          .opcode = swap ? roce::SendOpcode::compare_swap : roce::SendOpcode::fetch_add,
                          .remote_address = request.remote_address,
                          .remote_key = request.remote_key,
                          .swap_or_add = request.swap_or_add,
                          .compare = request.compare}),
      {});
}

Result<void> SoftwareQueuePair::post_receive(const ReceiveRequest& request) {
  const roce::ReceiveWork work{.work_id = request.work_id, .bytes = request.bytes};
  if (connected_) {
    auto posted = connected_->connection.post_receive(work);
    // If a WRITE has waited for this receive, its answer is due now.
    if (connected_->connection.has_answer()) fabric_.note_deadline(*this);
    return posted;
  }
  if (early_receives_.size() == options_.receive_depth)
    return fail(Errc::would_block, "the receive queue is full");
  early_receives_.push_back(work);
  return {};
}

void SoftwareQueuePair::expect_write(RemoteKey key, std::uint64_t remote_address, std::uint32_t bytes) {
  if (connected_) connected_->connection.expect_write(key, remote_address, bytes);
}

Result<std::unique_ptr<MemoryRegion>> SoftwareQueuePair::register_memory(std::span<std::byte> memory,
                                                                         RemoteAccess access) {
  if (!connected_) return fail(Errc::invalid_argument, "the queue pair is not connected");
  return fabric_.register_for(holder_, memory, MemoryUse::general, access);
}

SoftwareQueuePair::Posted* SoftwareQueuePair::next_to_leave() {
  const auto work = connected_->connection.next_to_leave();
  return work ? &posted_[*work] : nullptr;
}

std::size_t SoftwareQueuePair::packets_before(std::uint64_t post_order, std::size_t most) const {
  const roce::Connection& connection = connected_->connection;
  const auto next = connection.next_to_leave();
  if (!next) return most;  // Responses to the peer's READs are waiting.
  std::size_t packets = 1, bytes = 0;
  for (std::uint64_t work = *next; work != posted_.tail() && packets < most; ++work) {
    if (bytes >= SoftwareFabric::kLeastBytesPerTurn && posted_[work].post_order > post_order) break;
    packets = connection.packets_through(work);
    bytes += posted_[work].bytes.size();
  }
  return std::min(packets, most);
}

void SoftwareQueuePair::note_in_batch(std::uint64_t work) {
  const std::uint64_t filling = fabric_.batch_.filling();
  first_in_batch_ = batch_filling_ == filling ? std::min(first_in_batch_, work) : work;
  batch_filling_ = filling;
}

/// The batch may still contain packets of a retransmission, because the port was full. Such packets must not
/// be sent after the memory of their work request was returned to the caller. Packets of the same memory to
/// other peers stay in the batch.
void SoftwareQueuePair::drop_oldest_from_batch() {
  if (batch_filling_ == fabric_.batch_.filling() && first_in_batch_ <= posted_.head())
    fabric_.batch_.drop_oldest(connected_->transmit, posted_.front().bytes);
}

std::size_t SoftwareQueuePair::poll_completions(std::span<Completion> out) {
  if (!connected_) return 0;
  std::size_t count = 0;
  roce::WorkCompletion completion;
  while (count < out.size() && connected_->connection.poll_completion(completion)) {
    const bool ours = completion.kind != roce::CompletionKind::receive &&
                      completion.kind != roce::CompletionKind::receive_write_immediate;
    if (ours) {
      drop_oldest_from_batch();
      posted_.pop();
    }
    out[count++] = {.work_id = completion.work_id,
                    .kind = kind_of(completion.kind),
                    .status = status_of(completion),
                    .byte_count = completion.byte_count,
                    .immediate = completion.immediate,
                    .invalidated = completion.invalidated,
                    .original = completion.original};
  }
  return count;
}

Result<void> SoftwareQueuePair::connect(std::span<const std::byte> peer_blob) {
  if (connected_) return fail(Errc::invalid_argument, "the queue pair is connected already");
  const auto peer = decode_connection(peer_blob);
  if (!peer) return std::unexpected(peer.error());
  if (peer->shared.ipv6 != local_.shared.ipv6)
    return fail(Errc::unsupported, "one side has IPv4, the other IPv6");
  const auto mtu = agree_path_mtu(local_, *peer);
  if (!mtu) return std::unexpected(mtu.error());

  auto cipher = ciphers(local_, *peer);
  if (!cipher) return std::unexpected(cipher.error());

  const bool same_stack = local_.host_id != 0 && local_.host_id == peer->host_id;
  const roce::ConnectionConfig config{
      .local_qpn = local_.qpn,
      .remote_qpn = peer->qpn,
      .key_holder = holder_,
      .send_psn = peer->psn_for_other ? peer->first_psn : local_.first_psn,
      .receive_psn = peer->psn_for_other ? local_.first_psn : peer->first_psn,
      .path_mtu = *mtu,
      .selective_repeat = local_.selective_repeat && peer->selective_repeat,
      .congestion_control = fabric_.options_.congestion_control && !same_stack,
      .window_bytes = peer->receive_window,
      .send_depth = options_.send_depth,
      .receive_depth = options_.receive_depth,
      .max_rd_atomic = peer->max_rd_atomic == 0 ? options_.max_rd_atomic
                                                : std::min(options_.max_rd_atomic, peer->max_rd_atomic),
      .max_dest_rd_atomic = options_.max_rd_atomic,
      .read_window_bytes = local_.receive_window,
      .end_to_end_credits = !(local_.selective_repeat && peer->selective_repeat),
      .ack_timeout = options_.ack_timeout,
      .minimum_timeout = same_stack ? kSameStackMinimumTimeout : Duration{},
      .retry_limit = options_.retry_limit,
      .rnr_retry_limit = options_.rnr_retry_limit,
      .rnr_patience = options_.rnr_patience,
  };
  const auto at_port = [](Address address, std::uint16_t port) {
    address.port = port;
    return address;
  };
  const Address our_bulk = at_port(local_.shared, local_.bulk_port);
  const Address peer_bulk = at_port(peer->shared, peer->bulk_port);
  connected_.emplace(Connected{
      .peer = *peer,
      .path_mtu = *mtu,
      .packets_per_train = peer->single_datagrams ? 1 : fabric_.packets_per_train(*mtu),
      .connection = roce::Connection(config, fabric_.regions_),
      .transmit = {.source = flow_,
                   .bulk = peer_bulk,
                   .shared = peer->shared,
                   .bulk_icrc = roce::Icrc(our_bulk, peer_bulk),
                   .shared_icrc = roce::Icrc(our_bulk, peer->shared),
                   .icrc = !(same_stack && local_.icrc_optional && peer->icrc_optional),
                   .sealer = std::move(cipher->sealer),
                   .trains = !peer->single_datagrams,
                   .ecn_capable = config.congestion_control && !config.selective_repeat},
      .peer_source = peer_bulk,
      .receive_bulk = roce::Icrc(peer_bulk, our_bulk),
      .receive_shared = roce::Icrc(peer_bulk, local_.shared),
      .foreign = peer->foreign ? std::optional<ForeignIcrc>(local_.shared) : std::nullopt,
      .opener = std::move(cipher->opener),
  });
  for (const auto& work : early_receives_) {
    if (auto posted = connected_->connection.post_receive(work); !posted) return posted;
  }
  early_receives_ = {};
  fabric_.note_deadline(*this);
  return {};
}

}  // namespace rdmc::fabric
