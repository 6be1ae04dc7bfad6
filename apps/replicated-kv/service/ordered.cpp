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

void Service::end(Moment now, AtEnd state) {
  now_ = now;
  order_ = nullptr;
  give_up(true);
  take_status({});
  has_proposed_users_ = false;
  // The outage may have begun before.
  if (!unavailable_since_) unavailable_since_ = now.steady;
  if (state == AtEnd::drop_state) {
    forget_state();
    has_former_users_ = users_.are_agreed();
  }
  for (const auto& [number, client] : clients_)
    if (std::exchange(client->watches, false)) client->has_lost_watches = true;
}

/// A server that takes part again without a log has no state, as the order expects. If it kept its data, and
/// if all servers began again, then it would have other data than the rest of them.
void Service::forget_state() {
  applied_ = stable_ = awaited_ = 0;
  agreed_ = 0;
  changes_of_copy_ = copied_changes_ = 0;
  clock_.reset();
  seen_ = 0;
  is_evicting_ = has_proposed_limit_ = has_proposed_users_ = false;
  new_users_.clear();
  parts_.clear();
  loader_.reset();
  databases_ = std::make_unique<Databases>(options_.seed);
  apply_settings();
}

void Service::take_status(const ReplicaStatus& status) {
  if (status.is_main != status_.is_main)
    news_.emplace_back(status.is_main ? "this server is the main" : "this server is not the main any more");
  status_ = status;
}

/// Says in the log when requests begin or cease to get answers, and when the number of servers with all data
/// changes.
void Service::look_at_availability() {
  const bool answers = is_available() && !has_waited_too_long();
  if (is_alone() || is_ending_) return;
  const auto have_all = [this](std::uint32_t servers) {
    return std::to_string(servers) + " of " + std::to_string(options_.servers) + " servers " +
           (servers == 1 ? "has" : "have") + " all data";
  };
  const std::string needed = ", and " + std::to_string(options_.least_replicas) +
                             (options_.least_replicas == 1 ? " is needed" : " are needed");
  const std::uint32_t complete = status_.complete_replicas;
  const std::uint32_t told = answers ? std::exchange(told_complete_, complete) : complete;
  if (std::exchange(answers_, answers) == answers) {
    if (told < complete) news_.push_back(have_all(complete) + needed);
    if (told > complete) warnings_.push_back(have_all(complete) + needed);
    return;
  }
  if (answers) {
    news_.push_back("requests get answers: " + have_all(status_.complete_replicas) + needed);
    return;
  }
  const bool are_too_few = status_.stored_replicas < options_.least_replicas;
  warnings_.push_back("requests get no answers any more: " +
                      (order_ == nullptr      ? "this server does not take part at present"
                       : !status_.is_complete ? "this server does not have all data"
                       : are_too_few
                           ? have_all(status_.stored_replicas) + needed
                           : "a request has waited for too long for the other servers, or for the disk"));
}

void Service::on_status(const ReplicaStatus& status, Moment now) {
  now_ = now;
  if (!status.is_main) is_evicting_ = has_proposed_limit_ = false;
  take_status(status);
  has_been_available_ = has_been_available_ || is_available();
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
  last_event_at_ = now_.steady;
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
    if (client.reads_in_flight == 0) client.long_reply_bytes = 0;
    client.reply_bytes = std::max(answer.bytes.size() / answer.requests, client.reply_bytes / 2);
  }
  if (!is_alone()) unstable_.push_back({applied_, client.number, now_.steady});
  flush(client);
  account(client);
}

void Service::execute_entry(VarintReader& in, std::uint64_t server, std::uint64_t batch) {
  const auto kind = in.number<EntryKind>(static_cast<std::uint64_t>(EntryKind::first_limit));
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
    if (in.is_good()) execute_first_users(users, number);
    return;
  }
  // No user gives these two.
  if (kind == EntryKind::evict) return execute_eviction(in, server);
  if (kind == EntryKind::first_limit) return execute_first_limit(in);
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
      if (execute_command(in, origin, answered, answer, reply)) return;
      break;
    case EntryKind::transaction: {
      const bool is_resp3 = in.number(1) != 0;
      if (answer != nullptr) reply = writer_for(answer->bytes, is_resp3);
      execute_transaction(in, origin, answered, reply);
      break;
    }
    case EntryKind::watch:
      if (answer != nullptr) reply = ReplyWriter(answer->bytes, false);
      execute_watch(in, origin, answered, reply);
      break;
    default: break;
  }
  if (reply.is_cut()) lose(*client);
  if (answer != nullptr && --answer->missing == 0) finish(*client, *answer);
  serve_waiters();
}

/// Returns true if there is no reply yet. `client` and `answer` are null if nobody waits for it here.
bool Service::execute_command(VarintReader& in, Origin origin, Client* client, Answer* answer,
                              ReplyWriter& reply) {
  take_command(in, decoded_);
  if (!in.is_good()) return true;
  // Servers that leave a command out must draw its number too. Otherwise later numbers would differ.
  const std::uint64_t random = next_random();
  Arguments words = decoded_.words;
  const Command* const command = find_command(words[0]);
  if (command == nullptr || !fits(*command, words.size())) return false;
  // The event of a login does not say who logs in.
  std::vector<std::string> login;
  Words login_words;
  if (client != nullptr && command->has(flag::kBeforeAuth) && decoded_.is_local) {
    login = std::exchange(client->login, {});
    login_words.assign(login.begin(), login.end());
    if (!login.empty()) words = login_words;
  }
  if (decoded_.is_local && answer == nullptr) return note_use(decoded_), false;
  if (answer != nullptr) reply = writer_for(answer->bytes, decoded_.is_resp3);
  const Executing executing(executing_, client);
  if (const auto denied = command->has(flag::kBeforeAuth)
                              ? std::nullopt
                              : denial(origin.user, words, client, Occasion::now)) {
    reject(*command, *denied, reply);
  } else if (!refuses(*command, reply)) {
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

void Service::save(const std::function<void(std::vector<std::byte>)>& write, bool with_usage) const {
  Bytes head;
  put_varint(head, agreed_);
  put_varint(head, parts_.size());
  for (const auto& [server, part] : parts_) {
    put_varint(head, server);
    put_bytes(head, {reinterpret_cast<const char*>(part.data()), part.size()});
  }
  // Before the servers have agreed on users, each has its own.
  put_varint(head, are_users_agreed());
  if (are_users_agreed()) users_.save(head);
  databases_->save(std::move(head), write, with_usage);
}

void Service::clear_state() {
  forget_state();
  Users users;
  VarintReader in(own_users_);
  if (users.load(in)) users_ = std::move(users);
  has_former_users_ = false;
  users_have_changed(nullptr);
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
  clock_.observe(agreed_, now_.steady);
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
    if (order_ != nullptr) looks_at_own_users_at_ = now_.steady + kLooksAtOwnUsersAfter;
  }
  applied_ = load.position;
  if (order_ != nullptr)
    news_.push_back(
        "this server has got all data from another server: " + std::to_string(databases_->keys()) + " keys");
  // Without a limit, this server may still propose that of its command line.
  if (databases_->limit().is_set) settings_.show(databases_->limit());
  is_evicting_ = false;
  const bool is_good = head.is_done();
  loader_.reset();
  return is_good;
}

}  // namespace rdmc::kv
