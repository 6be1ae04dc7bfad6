// This file has the part of Service that executes the events of all servers in their order, and that gives
// its state to another server.
#include <algorithm>

#include "apps/replicated-kv/commands/arguments.hpp"
#include "apps/replicated-kv/service/limits.hpp"
#include "apps/replicated-kv/service/service.hpp"

namespace rdmc::kv {

// -- The order --

void Service::begin(Order& order, std::uint64_t server) {
  order_ = &order;
  server_ = server;
}

void Service::end(Moment now) {
  now_ = now;
  order_ = nullptr;
  give_up(true);
  status_ = {};
  unavailable_since_ = now.steady;
  forget_state();
  for (const auto& [number, client] : clients_)
    if (std::exchange(client->watches, false)) client->has_lost_watches = true;
}

/// A server that takes part again has no state, as the order expects. If it kept its data, and if all servers
/// began again, then it would have other data than the rest of them.
void Service::forget_state() {
  applied_ = stable_ = 0;
  agreed_ = 0;
  is_evicting_ = has_proposed_limit_ = false;
  parts_.clear();
  loader_.reset();
  databases_ = std::make_unique<Databases>(options_.seed);
  apply_settings();
}

void Service::on_status(const ReplicaStatus& status, Moment now) {
  now_ = now;
  if (!status.is_main) is_evicting_ = has_proposed_limit_ = false;
  status_ = status;
  if (is_available())
    unavailable_since_ = std::nullopt;
  else if (!unavailable_since_)
    unavailable_since_ = now.steady;
}

void Service::on_servers(const std::vector<std::uint64_t>& servers) {
  servers_ = servers;
}

void Service::on_stable(std::uint64_t position) {
  stable_ = std::max(stable_, position);
  flush_stable();
}

void Service::on_event(const OrderedEvent& event) {
  agreed_ = std::max(agreed_, event.time / 1'000'000);
  random_ = event.random;
  databases_->shared().usage.set_time(std::max(agreed_, now_.wall) / 1000);
  applied_ = event.position + 1;
  databases_->expire(agreed_, kMostExpired);
  serve_waiters();
  std::uint64_t batch = 0;
  if (event.own_number != 0) {
    while (!in_flight_.empty() && in_flight_.front().event < event.own_number) in_flight_.pop_front();
    if (!in_flight_.empty() && in_flight_.front().event == event.own_number) {
      batch = in_flight_.front().batch;
      in_flight_.pop_front();
    }
  }
  VarintReader head(event.bytes);
  const auto server = head.number();
  const bool has_more = head.number(1) != 0;
  if (!head.is_good()) return;
  const auto rest = head.rest();
  const auto known = parts_.find(server);
  if (has_more) {
    Bytes& parts = parts_[server];
    parts.insert(parts.end(), rest.begin(), rest.end());
    return;
  }
  if (known == parts_.end()) return execute_batch(server, batch, rest, event);
  known->second.insert(known->second.end(), rest.begin(), rest.end());
  const Bytes whole = std::move(known->second);
  parts_.erase(known);
  execute_batch(server, batch, whole, event);
}

/// `batch` is the number of the batch if this server has submitted it, and otherwise 0.
void Service::execute_batch(std::uint64_t server, std::uint64_t batch, std::span<const std::byte> bytes,
                            const OrderedEvent&) {
  VarintReader in(bytes);
  while (in.is_good() && !in.is_done()) execute_entry(in, server, batch);
}

Answer* Service::answer_of(Client* client, std::uint64_t batch) {
  if (client == nullptr || batch == 0) return nullptr;
  const auto found = std::ranges::find_if(
      client->answers, [&](const Answer& answer) { return answer.batch == batch && !answer.is_ready; });
  return found == client->answers.end() ? nullptr : &*found;
}

void Service::finish(Client& client, Answer& answer) {
  answer.is_ready = true;
  answer.is_waiting = false;
  answer.position = is_alone() ? 0 : applied_;
  client.answer_bytes += answer.bytes.size();
  if (const std::uint32_t reads = answer.requests - answer.writes; reads > 0) {
    client.reads_in_flight -= reads;
    client.reply_bytes = std::max(answer.bytes.size() / answer.requests, client.reply_bytes / 2);
  }
  if (!is_alone()) unstable_.push_back({applied_, client.number, now_.steady});
  flush(client);
  account(client);
}

void Service::execute_entry(VarintReader& in, std::uint64_t server, std::uint64_t batch) {
  const auto kind = in.number<EntryKind>(static_cast<std::uint64_t>(EntryKind::limit));
  const auto number = in.number();
  if (!in.is_good()) return;
  if (kind == EntryKind::server_gone) {
    databases_->watches().forget_server(number);
    databases_->waiters().forget_server(number);
    parts_.erase(number);
    return;
  }
  if (kind == EntryKind::evict) return execute_eviction(in, server);
  Client* const client = server == server_ ? find(number) : nullptr;
  Answer* const answer = answer_of(client, batch);
  const ClientId id{server, number};
  if (kind == EntryKind::unwatch) {
    databases_->watches().unwatch(id);
    databases_->waiters().forget(id);
    return;
  }
  if (kind == EntryKind::stop_waiting) return execute_stop(id, in.number(1) != 0);
  std::string none;
  ReplyWriter reply;
  switch (kind) {
    case EntryKind::command: {
      take_command(in, decoded_);
      if (!in.is_good()) return;
      // Servers that leave a command out must draw its number too. Otherwise later numbers would differ.
      const std::uint64_t random = next_random();
      if (answer != nullptr) reply = writer_for(answer->bytes, decoded_.is_resp3);
      const Command* command =
          decoded_.is_local && answer == nullptr ? nullptr : find_command(decoded_.words[0]);
      if (command != nullptr && !fits(*command, decoded_.words.size())) command = nullptr;
      if (decoded_.is_local && command == nullptr) note_use(decoded_);
      const Executing executing(executing_, answer == nullptr ? nullptr : client);
      if (command != nullptr && refuses(*command, reply)) {
        if (answer != nullptr && command->has(flag::kWaits)) resume(*client);
      } else if (command != nullptr && command->has(flag::kWaits)) {
        if (execute_waiting_command(id, *command, decoded_, random, answer, reply)) return;
      } else if (command != nullptr && command->run != nullptr) {
        run(*command, {decoded_.database, random}, decoded_.words, reply);
      }
      break;
    }
    case EntryKind::transaction: {
      const bool is_resp3 = in.number(1) != 0;
      if (answer != nullptr) reply = writer_for(answer->bytes, is_resp3);
      execute_transaction(in, id, answer == nullptr ? nullptr : client, reply);
      break;
    }
    case EntryKind::watch:
      if (answer != nullptr) reply = ReplyWriter(answer->bytes, false);
      execute_watch(in, id);
      reply.ok();
      break;
    case EntryKind::limit:
      if (answer != nullptr) reply = writer_for(answer->bytes, false);
      execute_limit(in);
      reply.ok();
      break;
    default: break;
  }
  if (reply.is_cut()) lose(*client);
  if (answer != nullptr && --answer->missing == 0) finish(*client, *answer);
  serve_waiters();
}

// -- The state of another server --

void Service::save(const std::function<void(std::vector<std::byte>)>& write, bool with_usage) const {
  Bytes head;
  put_varint(head, agreed_);
  put_varint(head, parts_.size());
  for (const auto& [server, part] : parts_) {
    put_varint(head, server);
    put_bytes(head, {reinterpret_cast<const char*>(part.data()), part.size()});
  }
  databases_->save(std::move(head), write, with_usage);
}

bool Service::on_load(const LoadState& load) {
  switch (load.step) {
    case LoadState::Step::begin:
      forget_state();
      loader_ = std::make_unique<Loader>(*databases_);
      return true;
    case LoadState::Step::bytes: return loader_ && loader_->add(load.bytes);
    case LoadState::Step::end: break;
  }
  if (!loader_ || !loader_->is_complete()) return false;
  VarintReader head(loader_->head());
  agreed_ = head.number<Milliseconds>();
  parts_.clear();
  for (auto count = head.count(); count > 0 && head.is_good(); --count) {
    const auto server = head.number();
    const auto bytes = head.bytes();
    parts_[server] = {bytes.begin(), bytes.end()};
  }
  applied_ = load.position;
  settings_.show(databases_->limit());
  is_evicting_ = false;
  const bool is_good = head.is_done();
  loader_.reset();
  return is_good;
}

}  // namespace rdmc::kv
