// This file has the part of Service for replies that must wait, and for the request batches that this server
// submits.
#include <algorithm>

#include "apps/replicated-kv/commands/arguments.hpp"
#include "apps/replicated-kv/service/limits.hpp"
#include "apps/replicated-kv/service/service.hpp"

namespace rdmc::kv {

// -- Answers --

void Service::answer(Client& client, std::string_view bytes) {
  list(client);
  if (client.answers.empty()) {
    client.output.append(bytes);
    return;
  }
  Answer& last = client.answers.back();
  if (last.is_ready && last.batch == 0 && last.requests == 0 && last.position == 0) {
    last.bytes.append(bytes);
    client.answer_bytes += bytes.size();
  } else {
    put_ready(client, client.answers.end(), {.is_ready = true, .bytes = std::string(bytes)});
  }
}

Answer& Service::answer_in_batch(Client& client, bool is_write) {
  if (client.answers.empty() || client.answers.back().batch != last_batch_ || client.answers.back().is_ready)
    client.answers.push_back({.batch = last_batch_});
  Answer& answer = client.answers.back();
  ++answer.requests;
  ++answer.missing;
  answer.writes += is_write;
  client.reads_in_flight += !is_write;
  return answer;
}

void Service::flush(Client& client) {
  const std::size_t before = client.output.size();
  for (; !client.answers.empty() && client.answers.front().is_ready &&
         client.answers.front().position <= stable_;
       client.answers.pop_front()) {
    client.answer_bytes -= client.answers.front().bytes.size();
    if (client.output.empty())
      client.output = std::move(client.answers.front().bytes);
    else
      client.output.append(client.answers.front().bytes);
  }
  if (client.output.size() != before) list(client);
}

void Service::flush_stable() {
  for (; !unstable_.empty() && unstable_.front().position <= stable_; unstable_.pop_front())
    if (Client* const client = find(unstable_.front().client)) flush(*client);
}

// -- Batches --

/// Returns the batch that the next entry belongs to, with the beginning of the entry.
Bytes& Service::batch_for(std::uint64_t client, EntryKind kind) {
  if (batches_.empty() || batches_.back().submitted != 0) {
    Batch& batch = batches_.emplace_back();
    batch.number = ++last_batch_;
    batch.since = now_.steady;
    put_varint(batch.bytes, server_);
    put_varint(batch.bytes, 0);  // no more parts follow
    if (!are_users_agreed()) put_first_users(batch.bytes);
    waiting_bytes_ += batch.bytes.size();
  }
  Bytes& bytes = batches_.back().bytes;
  put_varint(bytes, static_cast<std::uint8_t>(kind));
  put_varint(bytes, client);
  if (kind == EntryKind::unwatch || kind == EntryKind::transaction)
    batches_.back().unwatching.push_back(client);
  return bytes;
}

/// Without other servers, the batch is executed at once.
void Service::execute_alone() {
  if (!is_alone()) return;
  const Batch batch = std::move(batches_.front());
  batches_.pop_front();
  waiting_bytes_ = 0;
  OrderedEvent event;
  event.time = now_.wall * 1'000'000;
  event.random = next_random();
  VarintReader in(batch.bytes);
  in.number();
  in.number();
  pass_time();
  make_room();
  while (!in.is_done() && in.is_good()) execute_entry(in, server_, batch.number);
}

void Service::submit_batches() {
  constexpr std::size_t kMostInFlight = 4;
  while (!batches_.empty() && order_ != nullptr && status_.is_complete && in_flight_.size() < kMostInFlight) {
    Batch& batch = batches_.front();
    Result<std::uint64_t> number;
    if (batch.submitted == 0 && batch.bytes.size() <= ReplicatedState::kMostEventBytes) {
      number = order_->submit(batch.bytes);
      if (number) batch.submitted = batch.bytes.size();
    } else {
      // A part has the same head as a whole batch. The head of the batch itself is left out.
      Bytes part;
      put_varint(part, server_);
      const std::size_t head = part.size() + 1;
      if (batch.submitted == 0) batch.submitted = head;
      const std::size_t size =
          std::min(batch.bytes.size() - batch.submitted, ReplicatedState::kMostEventBytes - head);
      put_varint(part, batch.submitted + size < batch.bytes.size());
      const auto begin = batch.bytes.begin() + static_cast<std::ptrdiff_t>(batch.submitted);
      part.insert(part.end(), begin, begin + static_cast<std::ptrdiff_t>(size));
      number = order_->submit(part);
      if (number) batch.submitted += size;
    }
    if (!number)
      return;  // It is tried again at the end of the next turn. If the order has ended, end() follows.
    if (batch.submitted < batch.bytes.size()) continue;
    in_flight_.push_back({*number, batch.number, batch.since});
    batches_.pop_front();
  }
  waiting_bytes_ = 0;
  for (const Batch& batch : batches_) waiting_bytes_ += batch.bytes.size() - batch.submitted;
}

/// The time of a server that needs no agreement.
void Service::pass_time() {
  agreed_ = std::max(agreed_, clock_.read(now_.wall, now_.steady));
  clock_.observe(agreed_, now_.steady);
}

void Service::end_turn(Moment now) {
  now_ = now;
  // The clocks were read before this turn, which may have been long. An event that came in this turn can be
  // later than that. So its time is compared with the clocks of the next turn.
  clock_.observe(std::exchange(seen_, agreed_), now.steady);
  look_at_stable();
  look_at_availability();
  look_at_own_limit();
  look_at_own_users();
  look_at_clocks();
  check_limits();
  end_idle_clients();
  serve_waiting_for_space();
  look_at_rates();
  stop_late_waits();
  for (const std::uint64_t number : std::exchange(resumed_, {}))
    if (Client* const client = find(number)) execute(*client, now);
  if (is_alone()) {
    pass_time();
    databases_->expire(agreed_, kMostExpired);
    serve_waiters();
    make_room();
    return;
  }
  if (has_waited_too_long()) give_up(false);
  // The time of an event makes keys expire everywhere.
  const auto deadline = databases_->earliest_deadline();
  if (deadline && *deadline <= clock_.read(now.wall, now.steady) && may_tick()) put_tick();
  probe();
  forget_departed();
  propose_users();
  propose_limit();
  order_evictions();
  submit_batches();
  const auto is_overdue = [this](std::uint64_t number) {
    const Client* const client = find(number);
    return client != nullptr && has_waited_too_long(*client);
  };
  if (!held_.empty() && (is_available() || std::ranges::any_of(held_, is_overdue))) {
    resume_held();
    submit_batches();
  }
}

/// An event that changes nothing but the time.
void Service::put_tick() {
  Batch& tick = batches_.emplace_back();
  tick.number = ++last_batch_;
  tick.since = now_.steady;
  put_varint(tick.bytes, server_);
  put_varint(tick.bytes, 0);
}

/// Without requests, nothing else shows whether the other servers still get the events, and whether the disks
/// still take them.
void Service::probe() {
  const bool is_alone_with_it = !can_views_change_;
  const Milliseconds interval = is_alone_with_it ? kProbeAloneEvery : kProbeEvery;
  if (!is_available() || (!is_alone_with_it && !status_.is_main) || now_.steady < last_event_at_ + interval ||
      !batches_.empty() || !in_flight_.empty() || applied_ > stable_)
    return;
  last_event_at_ = now_.steady;
  put_tick();
}

/// Every server looks whether the events that it has executed become stable. They may be those of others.
void Service::look_at_stable() {
  if (awaited_ > stable_) return;
  awaited_ = applied_;
  awaited_since_ = now_.steady;
}

void Service::look_at_clocks() {
  constexpr Milliseconds kBehind = 1000;
  const Milliseconds behind = clock_.read(now_.wall, now_.steady) - now_.wall;
  const bool is_behind = behind > kBehind && (is_alone() || may_submit_as_main());
  if (!std::exchange(is_behind_, is_behind) && is_behind)
    warnings_.push_back("the clock of this host is " + std::to_string(behind) +
                        " ms behind the time of the service, which never goes back: deadlines that are times "
                        "of day come too early until it has caught up");
}

/// The main makes all servers forget what they keep for the clients of servers that are not in the view any
/// more.
void Service::forget_departed() {
  if (!status_.is_main || servers_.empty() || now_.steady < next_departed_look_) return;
  next_departed_look_ = now_.steady + kLookForDeparted;
  std::set<std::uint64_t> known = databases_->watches().servers();
  known.merge(databases_->waiters().servers());
  for (const auto& [server, part] : parts_) known.insert(server);
  for (const std::uint64_t server : known)
    if (std::ranges::find(servers_, server) == servers_.end()) batch_for(server, EntryKind::server_gone);
}

bool Service::may_submit_as_main() const {
  return status_.is_main && status_.is_complete && order_ != nullptr;
}

/// The main can submit an event that makes keys expire. An event that is on its way does the same.
bool Service::may_tick() const {
  return may_submit_as_main() && batches_.empty() && in_flight_.empty();
}

std::optional<Milliseconds> Service::next_deadline() const {
  std::optional<Milliseconds> next;
  const auto consider = [&](Milliseconds time) { next = next ? std::min(*next, time) : time; };
  // The last end_turn() has done what was due. If something due is left, only an event can change that, and
  // looking again at once would keep the processor busy for nothing.
  const auto consider_later = [&](Milliseconds time) {
    if (time > now_.steady) consider(time);
  };
  if (const auto deadline = databases_->earliest_deadline(); deadline && (is_alone() || may_tick()))
    consider(now_.steady + std::max<Milliseconds>(*deadline - clock_.read(now_.wall, now_.steady), 0));
  if (is_alone() && databases_->is_over_limit() && databases_->evictable() > 0) consider(now_.steady);
  if (unavailable_since_ && !held_.empty()) consider_later(*unavailable_since_ + options_.unavailable_after);
  for (const std::uint64_t number : held_)
    if (const auto client = clients_.find(number); client != clients_.end())
      consider_later(client->second->held_since + options_.unavailable_after);
  if (!in_flight_.empty()) consider_later(in_flight_.front().since + options_.unavailable_after);
  if (!unstable_.empty()) consider_later(unstable_.front().since + options_.unavailable_after);
  if (awaited_ > stable_) consider_later(awaited_since_ + options_.unavailable_after);
  if (!waits_.empty()) consider(waits_.begin()->first);
  if (!memory_.large().empty()) consider(memory_.has_changed() ? now_.steady : next_limit_look_);
  if (const auto time = next_space_at()) consider(*time);
  if (idle_after_ != 0 && !clients_.empty()) consider(next_idle_look_);
  if (!resumed_.empty()) consider(now_.steady);
  // The order takes no more at present. An event comes first if a batch is on its way.
  if (!batches_.empty() && order_ != nullptr && status_.is_complete && in_flight_.empty())
    consider(now_.steady + 1);
  return next;
}

/// Ends the wait of all requests that have no answer yet. Whether their writes take effect is unknown, if
/// they were submitted.
void Service::give_up(bool has_ended) {
  constexpr std::string_view kUncertain =
      "UNCERTAIN This server does not reach the majority of the servers. Nobody knows whether this request "
      "takes effect";
  const std::uint64_t first_unsubmitted = batches_.empty()                  ? last_batch_ + 1
                                          : batches_.front().submitted == 0 ? batches_.front().number
                                                                            : batches_.front().number + 1;
  for (const auto& [number, client] : clients_) {
    for (Answer& answer : client->answers) {
      if (answer.is_ready && answer.position <= stable_) continue;
      if (answer.is_waiting && !has_ended) continue;
      if (answer.requests == 0 && !has_ended) continue;  // It has messages, which wait for their event.
      const bool was_submitted = answer.batch < first_unsubmitted;
      std::string text;
      ReplyWriter reply(text, client->is_resp3);
      refused_requests_ += answer.requests;
      for (std::uint32_t i = 0; i < answer.requests; ++i)
        reply.error(answer.writes > 0 && was_submitted ? kUncertain : unavailable_error());
      if (answer.is_ready)
        client->answer_bytes -= answer.bytes.size();
      else
        client->reads_in_flight -= answer.requests - answer.writes;
      if (client->reads_in_flight == 0) client->long_reply_bytes = 0;
      client->answer_bytes += text.size();
      answer = {.is_ready = true, .bytes = std::move(text)};
    }
    if (client->may_be_waiting && !waiting_answer({server_, number})) resume(*client);
    flush(*client);
  }
  // A transaction ends the watch of its client also if it is refused.
  std::vector<std::uint64_t> unwatching;
  std::vector<std::pair<std::uint64_t, bool>> stopping;
  for (const Batch& batch : batches_) {
    if (batch.submitted != 0) continue;
    unwatching.insert(unwatching.end(), batch.unwatching.begin(), batch.unwatching.end());
    stopping.insert(stopping.end(), batch.stopping.begin(), batch.stopping.end());
  }
  std::erase_if(batches_, [](const Batch& batch) { return batch.submitted == 0; });
  for (const std::uint64_t client : unwatching) batch_for(client, EntryKind::unwatch);
  for (const auto& [client, is_error] : stopping) stop_waiting(client, is_error);
  is_evicting_ = has_proposed_limit_ = false;
  if (has_ended) {
    batches_.clear();
    in_flight_.clear();
    unstable_.clear();
  }
}

}  // namespace rdmc::kv
