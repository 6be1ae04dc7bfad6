// This file has the part of Service that bounds the memory of clients: of each by the limits for its output,
// and of all together by ClientMemory.
#include <algorithm>

#include "apps/replicated-kv/service/limits.hpp"
#include "apps/replicated-kv/service/service.hpp"

namespace rdmc::kv {

void Service::apply_settings() {
  databases_->shared().limits = settings_.encoding_limits();
  UsageClock& usage = databases_->shared().usage;
  usage.log_factor = static_cast<std::uint32_t>(settings_.number("lfu-log-factor"));
  usage.decay_minutes = static_cast<std::uint32_t>(settings_.number("lfu-decay-time"));
  slow_after_ = settings_.number("slowlog-log-slower-than");
  most_slow_ = static_cast<std::size_t>(settings_.number("slowlog-max-len"));
  slow_log_.cut(most_slow_);
  if (is_alone()) databases_->set_limit(settings_.memory_limit());
  parser_limits_ = {.bulk_bytes = static_cast<std::size_t>(settings_.number("proto-max-bulk-len")),
                    .request_bytes = static_cast<std::size_t>(settings_.number("client-query-buffer-limit"))};
  idle_after_ = settings_.number("timeout") * 1000;
  memory_.set_limit(static_cast<std::size_t>(settings_.number("maxmemory-clients")));
}

/// A reply is cut at the hard limit.
ReplyWriter Service::writer_for(std::string& out, bool is_resp3) const {
  const std::size_t hard = settings_.output_limits().normal.hard;
  return {out, is_resp3, hard == 0 ? SIZE_MAX : hard};
}

/// Adds an answer that has all its bytes.
void Service::put_ready(Client& client, std::deque<Answer>::iterator before, Answer answer) {
  client.answer_bytes += answer.bytes.size();
  client.answers.insert(before, std::move(answer));
}

/// About how many bytes the replies will have that the client waits for.
std::size_t Service::expected_bytes(const Client& client) {
  return client.reads_in_flight * std::max(client.reply_bytes, kLeastReplyBytes) + client.long_reply_bytes;
}

/// Must be called when the client needs more or less memory.
void Service::account(Client& client) {
  const std::size_t output = client.output.size() + client.answer_bytes;
  const std::size_t subscriptions = pubsub_.bytes_of(client.number);
  const std::size_t watched = client.watches ? databases_->watches().bytes_of({server_, client.number}) : 0;
  const bool waits_for_us = client.is_held || (!client.answers.empty() && !client.may_be_waiting);
  memory_.update(
      client.number,
      {.bytes = client.parser.memory() + client.queued_bytes + output + expected_bytes(client) +
                client.answers.size() * sizeof(Answer) + subscriptions + watched + client.waiter_bytes,
       .unread = client.output.size(),
       .is_sending = client.parser.waiting_bytes() > 0 || client.is_in_multi,
       .waits_for_us = waits_for_us},
      now_.steady);
  const OutputLimits& limits = settings_.output_limits();
  const OutputLimits::Class& limit = subscriptions > 0 ? limits.pubsub : limits.normal;
  if (limit.soft == 0 || output <= limit.soft)
    client.over_soft_limit_since = 0;
  else if (client.over_soft_limit_since == 0)
    client.over_soft_limit_since = now_.steady;
  const bool is_late = client.over_soft_limit_since != 0 && now_.steady - client.over_soft_limit_since >=
                                                                std::max<Milliseconds>(limit.patience, 1);
  if ((limit.hard != 0 && output > limit.hard) || is_late) lose(client);
}

/// The client does not read what it asks for, or has asked for too much.
void Service::lose(Client& client) {
  if (std::exchange(client.is_lost, true)) return;
  client.is_closing = true;
  ++output_limit_disconnections_;
  list(client);
}

void Service::received(Client& client, std::size_t bytes) {
  input_bytes_ += bytes;
  progress(client, bytes);
}

void Service::sent(Client& client, std::size_t bytes) {
  output_bytes_ += bytes;
  progress(client, bytes);
}

void Service::progress(Client& client, std::size_t bytes) {
  client.active_at = now_.steady;
  memory_.progress(client.number, bytes, now_.steady);
  account(client);
}

/// Called at the end of a turn.
void Service::check_limits() {
  memory_.look(now_.steady);
  if (now_.steady >= next_limit_look_) {
    next_limit_look_ = now_.steady + kLookForVictims;
    std::vector<Client*> large;
    for (const auto& [number, one] : memory_.large())
      if (Client* const client = find(number)) large.push_back(client);
    for (Client* const client : large) account(*client);
    while (const auto victim = memory_.victim(now_.steady)) evict(*victim);
  }
  if (!memory_.take_change()) return;
  for (const auto& [number, large] : memory_.large())
    if (Client* const client = find(number)) list(*client);
}

/// The parameter "timeout". Clients that have subscribed or that wait for something may do nothing.
void Service::end_idle_clients() {
  if (idle_after_ == 0 || now_.steady < next_idle_look_) return;
  next_idle_look_ = now_.steady + kLookForIdle;
  for (const auto& [number, client] : clients_) {
    const bool waits = client->is_held || client->may_be_waiting || !client->answers.empty();
    if (waits || pubsub_.count(number) > 0 || now_.steady - client->active_at <= idle_after_) continue;
    client->is_closing = client->is_lost = true;
    list(*client);
  }
}

/// The client needs much, and does nothing, while all clients together need too much.
void Service::evict(std::uint64_t number) {
  memory_.forget(number, now_.steady);
  Client* const client = find(number);
  if (client == nullptr || std::exchange(client->is_lost, true)) return;
  client->is_closing = true;
  ++evicted_clients_;
  list(*client);
}

}  // namespace rdmc::kv
