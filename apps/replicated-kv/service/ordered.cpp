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

void Service::end(Milliseconds now) {
  now_ = now;
  order_ = nullptr;
  give_up(true);
  status_ = {};
  unavailable_since_ = now;
  applied_ = stable_ = 0;
  parts_.clear();
  for (const auto& [number, client] : clients_)
    if (std::exchange(client->watches, false)) client->has_lost_watches = true;
}

void Service::on_status(const ReplicaStatus& status, Milliseconds now) {
  now_ = now;
  status_ = status;
  if (is_available())
    unavailable_since_ = std::nullopt;
  else if (!unavailable_since_)
    unavailable_since_ = now;
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
  if (!is_alone()) unstable_.push_back({applied_, client.number, now_});
  flush(client);
}

void Service::execute_entry(VarintReader& in, std::uint64_t server, std::uint64_t batch) {
  const auto kind = in.number<EntryKind>(static_cast<std::uint64_t>(EntryKind::first_users));
  const auto number = in.number();
  if (!in.is_good()) return;
  if (kind == EntryKind::server_gone) {
    databases_->watches().forget_server(number);
    databases_->waiters().forget_server(number);
    parts_.erase(number);
    return;
  }
  if (kind == EntryKind::first_users) {
    const std::string_view users = take_text(in);
    if (in.is_good()) execute_first_users(users);
    return;
  }
  Client* const client = server == server_ ? find(number) : nullptr;
  Answer* const answer = answer_of(client, batch);
  const ClientId id{server, number};
  if (kind == EntryKind::unwatch) {
    databases_->watches().unwatch(id);
    databases_->waiters().forget(id);
    return;
  }
  if (kind == EntryKind::stop_waiting) return execute_stop(id, in.number(1) != 0);
  const Origin origin{id, in.number()};
  Client* const answered = answer == nullptr ? nullptr : client;
  ReplyWriter reply;
  switch (kind) {
    case EntryKind::command:
      if (execute_command(in, origin, answered, answer)) return;
      break;
    case EntryKind::transaction: {
      const bool is_resp3 = in.number(1) != 0;
      if (answer != nullptr) reply = ReplyWriter(answer->bytes, is_resp3);
      execute_transaction(in, origin, answered, reply);
      break;
    }
    case EntryKind::watch:
      if (answer != nullptr) reply = ReplyWriter(answer->bytes, false);
      execute_watch(in, origin, answered, reply);
      break;
    default: break;
  }
  if (answer != nullptr && --answer->missing == 0) finish(*client, *answer);
  serve_waiters();
}

/// Returns true if there is no reply yet. `client` and `answer` are null if nobody waits for it here.
bool Service::execute_command(VarintReader& in, Origin origin, Client* client, Answer* answer) {
  take_command(in, decoded_);
  if (!in.is_good()) return true;
  // Servers that leave a command out must draw its number too. Otherwise later numbers would differ.
  const std::uint64_t random = next_random();
  if (decoded_.is_local && answer == nullptr) return false;
  const Arguments words = decoded_.words;
  const Command* const command = find_command(words[0]);
  if (command == nullptr || !fits(*command, words.size())) return false;
  ReplyWriter reply;
  if (answer != nullptr) reply = ReplyWriter(answer->bytes, decoded_.is_resp3);
  if (const auto denied =
          command->has(flag::kBeforeAuth) ? std::nullopt : denial(origin.user, words, client, Moment::now)) {
    reply.error(*denied);
  } else {
    if (client != nullptr) use_default_user(*client);
    if (command->has(flag::kWaits))
      return execute_waiting_command(origin, *command, decoded_, random, answer, reply);
    if (command->has(flag::kClient))
      execute_client_command(*command, words, origin, client, reply);
    else
      run(*command, {decoded_.database, random, origin.user}, words, reply);
  }
  if (client != nullptr && client->may_be_waiting) resume(*client);
  return false;
}

// -- The state of another server --

void Service::save(const std::function<void(std::vector<std::byte>)>& write) const {
  Bytes head;
  put_varint(head, agreed_);
  put_varint(head, parts_.size());
  for (const auto& [server, part] : parts_) {
    put_varint(head, server);
    put_bytes(head, {reinterpret_cast<const char*>(part.data()), part.size()});
  }
  // Before the servers have agreed on users, each has its own.
  put_varint(head, users_.are_agreed());
  if (users_.are_agreed()) users_.save(head);
  databases_->save(std::move(head), write);
}

void Service::clear_state() {
  drop_data();
  parts_.clear();
  agreed_ = 0;
  applied_ = 0;
  Users users;
  VarintReader in(own_users_);
  if (users.load(in)) users_ = std::move(users);
  users_have_changed(nullptr);
}

void Service::drop_data() {
  databases_ = std::make_unique<Databases>(options_.seed);
  databases_->shared().limits = settings_.encoding_limits();
  loader_.reset();
}

bool Service::on_load(const LoadState& load) {
  switch (load.step) {
    case LoadState::Step::begin:
      drop_data();
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
  if (head.number(1) != 0) {
    Users users;
    if (!users.load(head)) return false;
    load_users(std::move(users));
  }
  applied_ = load.position;
  const bool is_good = head.is_done();
  loader_.reset();
  return is_good;
}

}  // namespace rdmc::kv
