// Requests and communicators. messenger_sending.cpp has the way of a message out, messenger_receiving.cpp has
// its way in, and messenger_replicas.cpp has what replicas need in addition.
#include "lib/replica/messenger.hpp"

#include <cassert>
#include <limits>
#include <utility>

namespace rdmc::replica {

Messenger::Messenger(Carrier& carrier, std::unique_ptr<ReplicationProtocol> protocol, Options options)
    : carrier_(&carrier),
      protocol_(std::move(protocol)),
      options_(std::move(options)),
      own_(protocol_->layout().process(protocol_->self())),
      own_rank_(protocol_->self().rank),
      is_replicated_(protocol_->layout().degree(own_rank_) > 1),
      peers_(protocol_->layout().processes()),
      rank_failures_(protocol_->layout().ranks()),
      kept_bytes_(protocol_->layout().ranks()),
      chases_(protocol_->layout().processes()),
      comparison_(protocol_->layout(), protocol_->self()) {}

RequestId Messenger::id_of(std::uint32_t index) const {
  return RequestId{std::uint64_t{requests_[index].generation} << 32 | index};
}

std::optional<std::uint32_t> Messenger::index_of(RequestId id) const {
  const auto index = static_cast<std::uint32_t>(id);
  const Request* const request = requests_.find(index);
  if (!request || request->generation != static_cast<std::uint64_t>(id) >> 32) return std::nullopt;
  return index;
}

std::uint32_t Messenger::new_request(Request request) {
  if (++generation_ == 0) ++generation_;  // No request has the number 0.
  request.generation = generation_;
  return requests_.add(std::move(request));
}

void Messenger::complete(std::uint32_t request, const Delivery& delivery) {
  requests_[request].delivery = delivery;
  requests_[request].is_complete = true;
}

void Messenger::fail_request(std::uint32_t request, Error error) {
  requests_[request].error = std::move(error);
  requests_[request].is_complete = true;
}

bool Messenger::is_complete(RequestId request) const {
  const auto index = index_of(request);
  return !index || requests_[*index].is_complete;
}

std::optional<std::size_t> Messenger::choose(std::span<const RequestId> requests) const {
  std::optional<std::size_t> first;
  std::uint64_t order = 0, earliest_incomplete = std::numeric_limits<std::uint64_t>::max();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const auto index = index_of(requests[i]);
    if (!index) return i;
    const Request& request = requests_[*index];
    if (!request.is_complete) {
      if (request.order != 0) earliest_incomplete = std::min(earliest_incomplete, request.order);
    } else if (!is_replicated_) {
      return i;
    } else if (!first || request.order < order) {
      first = i;
      order = request.order;
    }
  }
  return first && order < earliest_incomplete ? first : std::nullopt;
}

Result<Delivery> Messenger::take(RequestId request, bool is_choice) {
  const auto index = index_of(request);
  if (!index) return fail(Errc::invalid_argument, "there is no such request");
  assert(requests_[*index].is_complete);
  Result<Delivery> result = requests_[*index].delivery;
  if (auto& error = requests_[*index].error) result = std::unexpected(std::move(*error));
  const bool is_any = requests_[*index].from == kAny;
  const auto sight = is_any || is_choice ? requests_[*index].sight : std::nullopt;
  requests_.remove(*index);
  if (sight) hold_until_seen(*sight);
  return result;
}

Messenger::Context* Messenger::context_of(ContextId id) {
  if (cached_ && cached_id_ == id) return cached_;
  const auto found = contexts_.find(id);
  if (found == contexts_.end()) return nullptr;
  cached_id_ = id;
  return cached_ = &found->second;
}

void Messenger::add_context(ContextId context, std::vector<Rank> members, std::uint32_t rank) {
  assert(static_cast<std::uint32_t>(context) >= made_end_ && rank < members.size());
  const auto all = static_cast<std::uint32_t>(rank_failures_.size());
  const auto [made, is_new] =
      contexts_.try_emplace(context, Context{.members = {}, .rank = 0, .queue = MatchQueue(all)});
  if (!is_new) --early_contexts_;
  made->second.members = std::move(members);
  made->second.rank = rank;
  made_end_ = static_cast<std::uint32_t>(context) + 1;
}

void Messenger::remove_context(ContextId context) {
  Context* const removed = context_of(context);
  assert(removed);
  while (removed->queue.messages() != 0) {  // Their senders must not wait for ever.
    const std::uint32_t index = *removed->queue.post(0, kAny, kAny);
    const Arrival& arrival = arrivals_[index];
    const ProcessId from = arrival.from;
    const auto transfer = arrival.transfer;
    if (from == own_ && transfer)
      finish_transfer(*transfer);
    else if (transfer)
      refuse(from, *transfer);
    else if (!arrival.lacks_sender && arrival.owes_credit)
      note_consumed(from, arrival.stored.size());
    remove_arrival(index);
  }
  for (std::uint32_t i = 0; i < requests_.end(); ++i) {
    const Request* const request = requests_.find(i);
    if (!request || request->kind != Kind::receive || request->context != context) continue;
    if (removed->queue.cancel(i, request->from))
      fail_request(i, {Errc::cancelled, "the communicator has ended"});
  }
  cached_ = nullptr;
  contexts_.erase(context);
  close_channels(context);
  if (comparison_.is_active()) comparison_.close(context);
}

RequestId Messenger::send(ContextId context, std::span<const std::byte> bytes, std::uint32_t to,
                          std::int32_t tag) {
  const Context& own = *context_of(context);
  const Rank rank = own.members[to];
  Envelope envelope{.context = context, .source = own.rank, .tag = tag};
  const std::uint32_t request =
      new_request({.kind = Kind::send,
                   .context = context,
                   .tag = tag,
                   .delivery = {.source = own.rank, .tag = tag, .bytes = bytes.size()}});
  const RequestId id = id_of(request);
  if (rank == own_rank_) {
    send_to_self(request, envelope, bytes);
    return id;
  }
  if (const auto& failure = failure_of_rank(rank)) {
    fail_request(request, *failure);
    return id;
  }
  const ReplicaSet awaited = has_numbers(rank) ? number_message(envelope, rank) : 0;
  if (comparison_.is_active()) note_sent(rank, envelope, bytes);
  ReplicaSet unsent = 0;
  for_each_replica(protocol_->toward(rank).receivers, [&](std::uint32_t replica) {
    const ProcessId process = protocol_->process(rank, replica);
    Peer& receiver = peer(process);
    ++counters_.messages;
    counters_.bytes_sent += bytes.size();
    if (!holds_.empty() || is_frozen() || !receiver.unsent.empty() ||
        !send_now(receiver, process, envelope, bytes))
      unsent |= set_of(replica);
  });
  if (unsent == 0 && awaited == 0) {
    requests_[request].is_complete = true;
    return id;
  }
  const std::uint32_t index = outgoing_.add({.to = rank,
                                             .envelope = envelope,
                                             .bytes = bytes,
                                             .request = request,
                                             .awaited = awaited,
                                             .number = ++sends_});
  if (awaited != 0) keep(index);
  for_each_replica(unsent,
                   [&](std::uint32_t replica) { add_transfer(index, protocol_->process(rank, replica)); });
  for_each_replica(unsent, [&](std::uint32_t replica) { pump(protocol_->process(rank, replica)); });
  return id;
}

RequestId Messenger::receive(ContextId context, std::span<std::byte> bytes, std::int32_t from,
                             std::int32_t tag) {
  const std::uint32_t request =
      new_request({.kind = Kind::receive, .context = context, .from = from, .tag = tag, .into = bytes});
  Context& own = *context_of(context);
  if (const auto arrival = own.queue.post(request, from, tag)) {
    deliver(*arrival, request);
  } else if (auto failure = failure_of(context, from)) {
    own.queue.cancel(request, from);
    fail_request(request, std::move(*failure));
  }
  return id_of(request);
}

std::optional<ProcessId> Messenger::cancel(RequestId request) {
  const auto index = index_of(request);
  if (!index) return std::nullopt;
  const Request cancelled = requests_[*index];
  if (cancelled.is_complete) {
    requests_.remove(*index);
    return std::nullopt;
  }
  // A receive that has matched a message may outlive its communicator.
  Context* const context = cancelled.kind == Kind::receive ? context_of(cancelled.context) : nullptr;
  if (context && context->queue.cancel(*index, cancelled.from)) {
    requests_.remove(*index);
    return std::nullopt;
  }
  for (std::uint32_t i = 0; i < arrivals_.end(); ++i) {
    const Arrival* const arrival = arrivals_.find(i);
    if (!arrival || arrival->request != *index) continue;
    if (!arrival->lacks_sender) return arrival->from;
    remove_arrival(i);
    requests_.remove(*index);
    return std::nullopt;
  }
  for (std::uint32_t i = 0; i < transfers_.end(); ++i) {
    const Transfer* const transfer = transfers_.find(i);
    if (!transfer || outgoing_[transfer->outgoing].request != *index) continue;
    if (transfer->to != own_) return transfer->to;
    keep_for_self(i);
    requests_.remove(*index);
    return std::nullopt;
  }
  // The message was sent, and only waits for acknowledgements. From now on, a copy waits.
  for (std::uint32_t i = 0; i < outgoing_.end(); ++i) {
    Outgoing* const message = outgoing_.find(i);
    if (!message || message->request != *index) continue;
    copy(*message);
    message->request.reset();
  }
  requests_.remove(*index);
  return std::nullopt;
}

// A receive may still match the message, but the program's memory must not be used any more.
void Messenger::keep_for_self(std::uint32_t transfer) {
  for (std::uint32_t i = 0; i < arrivals_.end(); ++i) {
    Arrival* const arrival = arrivals_.find(i);
    if (!arrival || arrival->from != own_ || arrival->transfer != transfer) continue;
    const auto bytes = outgoing_[transfers_[transfer].outgoing].bytes;
    arrival->stored.assign(bytes.begin(), bytes.end());
    arrival->transfer.reset();
  }
  outgoing_.remove(transfers_[transfer].outgoing);
  transfers_.remove(transfer);
}

std::optional<Delivery> Messenger::probe(ContextId context, std::int32_t from, std::int32_t tag) {
  const auto found = contexts_.find(context);
  if (found == contexts_.end()) return std::nullopt;
  const auto index = found->second.queue.find(from, tag);
  if (!index) return std::nullopt;
  const Arrival& arrival = arrivals_[*index];
  const Delivery found_now{
      .source = arrival.envelope.source, .tag = arrival.envelope.tag, .bytes = arrival.bytes};
  if (const auto sight = sight_of(arrival.envelope, arrival.from)) hold_until_seen(*sight);
  return found_now;
}

std::optional<Error> Messenger::failure_of(ContextId context, std::int32_t from) const {
  const auto found = contexts_.find(context);
  if (found == contexts_.end()) return std::nullopt;
  const auto& members = found->second.members;
  if (from != kAny) return failure_of_rank(members[static_cast<std::uint32_t>(from)]);
  std::optional<Error> last;
  for (const Rank member : members) {
    if (member == own_rank_) continue;
    if (last = failure_of_rank(member); !last) return std::nullopt;
  }
  return last;
}

void Messenger::on_failed(ProcessId process, const Error& cause) {
  Peer& failed = peer(process);
  if (failed.failure) return;
  failed = Peer{.failure = cause};
  std::erase(acknowledging_, process);
  const ReplicaId dead = protocol_->replica(process);
  note_failure_in_recoveries(process);
  protocol_->on_died(dead);
  const bool is_last = protocol_->living(dead.rank) == 0;
  if (is_last) rank_failures_[value_of(dead.rank)] = cause;
  for (std::uint32_t i = 0; i < transfers_.end(); ++i) {
    if (!transfers_.find(i) || transfers_[i].to != process) continue;
    --outgoing_[transfers_[i].outgoing].transfers;
    transfers_.remove(i);
  }
  end_holds();
  fail_outgoing(dead, is_last ? std::optional(cause) : std::nullopt);
  drop_arrivals(process, is_last, cause);
  if (dead.rank == own_rank_) {
    comparison_.on_died(dead.replica);
    take_over();
  }
  end_recovery(process);
  if (!is_last) return;
  for (std::uint32_t i = 0; i < requests_.end(); ++i) {
    const Request* const request = requests_.find(i);
    if (!request || request->is_complete || request->kind != Kind::receive) continue;
    Context* const context = context_of(request->context);
    if (!context || !failure_of(request->context, request->from)) continue;
    if (context->queue.cancel(i, request->from)) fail_request(i, cause);
  }
}

}  // namespace rdmc::replica
