// Requests and communicators. messenger_sending.cpp has the way of a message out, and messenger_receiving.cpp
// its way in.
#include "lib/replica/messenger.hpp"

#include <cassert>
#include <utility>

namespace rdmc::replica {

Messenger::Messenger(Carrier& carrier, ProcessId own, std::uint32_t processes)
    : carrier_(carrier), own_(own), peers_(processes) {}

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

Result<Delivery> Messenger::take(RequestId request) {
  const auto index = index_of(request);
  if (!index) return fail(Errc::invalid_argument, "there is no such request");
  assert(requests_[*index].is_complete);
  Result<Delivery> result = requests_[*index].delivery;
  if (auto& error = requests_[*index].error) result = std::unexpected(std::move(*error));
  requests_.remove(*index);
  return result;
}

Messenger::Context* Messenger::context_of(ContextId id) {
  if (cached_ && cached_id_ == id) return cached_;
  const auto found = contexts_.find(id);
  if (found == contexts_.end()) return nullptr;
  cached_id_ = id;
  return cached_ = &found->second;
}

void Messenger::add_context(ContextId context, std::vector<ProcessId> members, std::uint32_t rank) {
  assert(static_cast<std::uint32_t>(context) >= made_end_ && rank < members.size());
  const auto all = static_cast<std::uint32_t>(peers_.size());
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
    Arrival& arrival = arrivals_[index];
    if (!arrival.transfer)
      note_consumed(arrival.from, arrival.stored.size());
    else if (arrival.from == own_)
      finish_transfer(*arrival.transfer);
    else
      refuse(arrival);
    arrivals_.remove(index);
  }
  for (std::uint32_t i = 0; i < requests_.end(); ++i) {
    const Request* const request = requests_.find(i);
    if (!request || request->kind != Kind::receive || request->context != context) continue;
    if (removed->queue.cancel(i, request->from))
      fail_request(i, {Errc::cancelled, "the communicator has ended"});
  }
  cached_ = nullptr;
  contexts_.erase(context);
}

RequestId Messenger::send(ContextId context, std::span<const std::byte> bytes, std::uint32_t to,
                          std::int32_t tag) {
  const Context& own = *context_of(context);
  const ProcessId process = own.members[to];
  const Envelope envelope{.context = context, .source = own.rank, .tag = tag};
  const std::uint32_t request =
      new_request({.kind = Kind::send,
                   .context = context,
                   .tag = tag,
                   .delivery = {.source = own.rank, .tag = tag, .bytes = bytes.size()}});
  if (process == own_) {
    send_to_self(request, envelope, bytes);
    return id_of(request);
  }
  Peer& receiver = peer(process);
  if (receiver.failure) {
    fail_request(request, *receiver.failure);
    return id_of(request);
  }
  ++counters_.messages;
  counters_.bytes_sent += bytes.size();
  if (receiver.unsent.empty() && send_now(receiver, process, envelope, bytes)) {
    requests_[request].is_complete = true;
    return id_of(request);
  }
  receiver.unsent.push_back(
      transfers_.add({.to = process, .envelope = envelope, .bytes = bytes, .request = request}));
  pump(process);
  return id_of(request);
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
  for (std::uint32_t i = 0; i < arrivals_.end(); ++i)
    if (const Arrival* const arrival = arrivals_.find(i); arrival && arrival->request == *index)
      return arrival->from;
  for (std::uint32_t i = 0; i < transfers_.end(); ++i) {
    const Transfer* const transfer = transfers_.find(i);
    if (!transfer || transfer->request != *index) continue;
    if (transfer->to != own_) return transfer->to;
    keep_for_self(i);
    requests_.remove(*index);
    return std::nullopt;
  }
  return std::nullopt;
}

// A receive may still match the message, but the program's memory must not be used any more.
void Messenger::keep_for_self(std::uint32_t transfer) {
  for (std::uint32_t i = 0; i < arrivals_.end(); ++i) {
    Arrival* const arrival = arrivals_.find(i);
    if (!arrival || arrival->from != own_ || arrival->transfer != transfer) continue;
    const auto bytes = transfers_[transfer].bytes;
    arrival->stored.assign(bytes.begin(), bytes.end());
    arrival->transfer.reset();
  }
  transfers_.remove(transfer);
}

std::optional<Delivery> Messenger::probe(ContextId context, std::int32_t from, std::int32_t tag) const {
  const auto found = contexts_.find(context);
  if (found == contexts_.end()) return std::nullopt;
  const auto index = found->second.queue.find(from, tag);
  if (!index) return std::nullopt;
  const Arrival& arrival = arrivals_[*index];
  return Delivery{.source = arrival.envelope.source, .tag = arrival.envelope.tag, .bytes = arrival.bytes};
}

std::optional<Error> Messenger::failure_of(ContextId context, std::int32_t from) const {
  const auto found = contexts_.find(context);
  if (found == contexts_.end()) return std::nullopt;
  const auto failure = [&](ProcessId process) { return peers_[static_cast<std::uint32_t>(process)].failure; };
  const auto& members = found->second.members;
  if (from != kAny) return failure(members[static_cast<std::uint32_t>(from)]);
  std::optional<Error> last;
  for (const ProcessId member : members) {
    if (member == own_) continue;
    if (last = failure(member); !last) return std::nullopt;
  }
  return last;
}

void Messenger::on_failed(ProcessId process, const Error& cause) {
  Peer& failed = peer(process);
  if (failed.failure) return;
  failed = Peer{.failure = cause};
  for (std::uint32_t i = 0; i < transfers_.end(); ++i) {
    if (!transfers_.find(i) || transfers_[i].to != process) continue;
    fail_request(transfers_[i].request, cause);
    transfers_.remove(i);
  }
  // An announced message that no receive has matched yet stays in its queue. Its receive will fail.
  for (std::uint32_t i = 0; i < arrivals_.end(); ++i) {
    if (!arrivals_.find(i) || arrivals_[i].from != process || !arrivals_[i].request) continue;
    if (arrivals_[i].exposed) carrier_.withdraw(*arrivals_[i].exposed);
    fail_request(*arrivals_[i].request, cause);
    arrivals_.remove(i);
  }
  for (std::uint32_t i = 0; i < requests_.end(); ++i) {
    const Request* const request = requests_.find(i);
    if (!request || request->is_complete || request->kind != Kind::receive) continue;
    Context* const context = context_of(request->context);
    if (!context || !failure_of(request->context, request->from)) continue;
    if (context->queue.cancel(i, request->from)) fail_request(i, cause);
  }
}

bool Messenger::is_quiet(ProcessId to) const {
  const Peer& receiver = peers_[static_cast<std::uint32_t>(to)];
  return receiver.unsent.empty() && receiver.writing.empty() && receiver.grants.empty();
}

}  // namespace rdmc::replica
