#include "apps/replicated-kv/service/service.hpp"

#include <algorithm>
#include <cassert>

#include "apps/replicated-kv/commands/arguments.hpp"
#include "apps/replicated-kv/service/limits.hpp"

namespace rdmc::kv {

namespace {

/// Removes the end of `text` from `at` on, and returns it.
std::string take_from(std::string& text, std::size_t at) {
  if (at == 0) return std::exchange(text, std::string());
  std::string end = text.substr(at);
  text.resize(at);
  return end;
}

}  // namespace

Service::Service(const ServiceOptions& options)
    : options_(options),
      databases_(std::make_unique<Databases>(options.seed)),
      victims_(options.seed),
      random_(options.seed) {
  waits_for_others_since_ = options.started_at;
  now_.steady = last_event_at_ = options.started_at;  // The events of a log can come before the first turn.
  apply_settings();
  settings_.fix("aclfile", options_.acl_file == nullptr ? "" : options_.acl_file->name());
  set_first_users({});
}

Service::~Service() = default;

std::uint64_t Service::next_random() {
  std::uint64_t mixed = random_ += 0x9E3779B97F4A7C15;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB;
  return mixed ^ (mixed >> 31);
}

// -- The clients --

Client& Service::connect(std::string address, Moment now) {
  ++connections_;
  auto& client = clients_[++last_client_];
  client = std::make_unique<Client>(last_client_, std::move(address), parser_limits_);
  client->connected_at = client->last_request = client->active_at = now.steady;
  if (is_alone()) use_default_user(*client);
  return *client;
}

void Service::disconnect(Client& client) {
  pubsub_.forget(client.number);
  unwatch(client);
  waits_.erase({client.waits_until, client.number});
  memory_.forget(client.number, now_.steady);
  clients_.erase(client.number);
}

Client* Service::find(std::uint64_t number) {
  const auto known = clients_.find(number);
  return known == clients_.end() ? nullptr : known->second.get();
}

void Service::list(Client& client) {
  if (!std::exchange(client.is_listed, true)) changed_.push_back(client.number);
}

std::vector<std::uint64_t> Service::take_changed() {
  for (const std::uint64_t number : changed_)
    if (Client* const client = find(number)) client->is_listed = false;
  return std::exchange(changed_, {});
}

bool Service::is_full(const Client& client) const {
  return is_busy(client) || !memory_.may_send(client.number);
}

/// What the client itself has sent or not read is enough for now.
bool Service::is_busy(const Client& client) const {
  return client.is_held || client.output.size() + client.answer_bytes > kMostOutputBytes ||
         client.answers.size() > kMostAnswers || expected_bytes(client) > kMostReadBytes ||
         (client.reads_in_flight > 0 && memory_.is_exceeded()) ||
         (client.may_be_waiting && client.parser.waiting_bytes() > kMostRequestBytes);
}

bool Service::may_receive(const Client& client) const {
  return !is_ending_ && !is_busy(client) &&
         (memory_.may_send(client.number) || !memory_.waits_for_turn(client.number));
}

void Service::execute(Client& client, Moment now) {
  now_ = now;
  databases_->shared().usage.set_time(std::max(agreed_, now_.wall) / 1000);
  list(client);
  // Without this, somebody without a password could make the server keep much.
  if (client.output.size() > kMostUnreadUnauthenticated && !may_keep_much(client)) {
    client.is_closing = client.is_lost = true;
    return;
  }
  execute_requests(client);
  account(client);
}

void Service::execute_requests(Client& client) {
  if (client.waits_for_space) return;
  client.is_stopped = false;
  while (!client.is_closing && !client.may_be_waiting) {
    if (!client.is_held) {
      if (is_full(client)) {
        client.is_stopped = true;
        return client.parser.shrink();
      }
      limit_parser(client);
      const auto status = client.parser.next();
      if (status == RequestParser::Status::incomplete) return client.parser.shrink();
      if (status == RequestParser::Status::broken) {
        query_limit_disconnections_ += client.parser.is_too_long();
        reply_error(client, "ERR Protocol error: " + client.parser.error());
        client.is_closing = true;
        return;
      }
      if (client.parser.words().empty()) continue;
    }
    if (!client.is_held) client.held_since = now_.steady;
    client.is_held = !handle(client, client.parser.words());
    if (!client.is_held) continue;
    if (client.waits_for_space) return;
    if (std::ranges::find(held_, client.number) == held_.end()) held_.push_back(client.number);
    return;
  }
  // It may wait for long.
  client.parser.shrink();
}

bool Service::has_answered_all() const {
  return batches_.empty() && in_flight_.empty() && std::ranges::all_of(clients_, [](const auto& one) {
           const Client& client = *one.second;
           return !client.is_held && client.output.empty() &&
                  (client.answers.empty() || client.has_blocking_request);
         });
}

void Service::resume_held() {
  for (const std::uint64_t number : std::exchange(held_, {}))
    if (Client* const client = find(number); client != nullptr && client->is_held) execute(*client, now_);
}

// -- Requests --

const Command* Service::check(Client& client, Arguments words) {
  const Command* const command = find_command(words[0]);
  const auto refuse = [&](const std::string& error) {
    if (client.is_in_multi) client.has_multi_error = true;
    reply_error(client, error);
    return nullptr;
  };
  if (command == nullptr) {
    constexpr std::size_t kMostShown = 128;
    std::string shown;
    for (const std::string_view word : words.subspan(1)) {
      if (shown.size() >= kMostShown) break;
      shown += "'" + std::string(word.substr(0, kMostShown - shown.size())) + "' ";
    }
    return refuse("ERR unknown command '" + std::string(words[0].substr(0, kMostShown)) +
                  "', with args beginning with: " + shown);
  }
  if (!fits(*command, words.size())) {
    statistics_.rejected(command->name);
    return refuse("ERR wrong number of arguments for '" + std::string(command->name) + "' command");
  }
  if (command->has(flag::kClient) && words.size() >= 2)
    if (const AclCommand* const called = acl_command_of(words);
        called != nullptr && called->is_subcommand() && !fits(called->arity, words.size()))
      return refuse("ERR wrong number of arguments for '" + std::string(called->name) + "' command");
  return command;
}

/// Returns true if the request has got an error because the log cannot take writes at present.
bool Service::refuses_writes(Client& client, const Command& command) {
  if (log_.failure.empty() || !command.has(flag::kWrite)) return false;
  if (client.is_in_multi) client.has_multi_error = true;
  statistics_.rejected(command.name);
  reply_error(client, "MISCONF Errors writing to the AOF file: " + log_.failure);
  return true;
}

bool Service::handle(Client& client, Arguments words) {
  const Command* const command = check(client, words);
  if (command == nullptr || deny(client, *command, words) || refuses_writes(client, *command)) return true;
  std::optional<std::vector<std::string>> changed;
  Words changed_words;
  if (command->has(flag::kClient)) {
    auto without = without_secrets(*command, words);
    if (!without) return reply_error(client, without.error()), true;
    changed = std::move(*without);
    if (changed) {
      changed_words.assign(changed->begin(), changed->end());
      words = changed_words;
    }
  }
  ++requests_;
  client.last_request = client.active_at = now_.steady;
  client.last_command = command->name;
  if (!client.is_resp3 && !command->has(flag::kWhileSubscribed) && pubsub_.count(client.number) > 0) {
    reply_error(
        client,
        "ERR Can't execute '" + std::string(command->name) +
            "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context");
    return true;
  }
  if (client.is_in_multi && !command->has(flag::kInMulti)) {
    if (command->has(flag::kNotInMulti)) {
      client.has_multi_error = true;
      reply_error(client, "ERR Command not allowed inside a transaction");
      return true;
    }
    queue_command(client, words);
    return true;
  }
  const std::string_view name = command->name;
  if (!command->has(flag::kClient)) return run_data_command(client, *command, words);
  if (name == "multi") {
    if (client.is_in_multi) return reply_error(client, "ERR MULTI calls can not be nested"), true;
    client.is_in_multi = true;
    return answer(client, "+OK\r\n"), true;
  }
  if (name == "discard") {
    if (!client.is_in_multi) return reply_error(client, "ERR DISCARD without MULTI"), true;
    leave_multi(client);
    unwatch(client);
    return answer(client, "+OK\r\n"), true;
  }
  if (name == "exec") return run_exec(client);
  if (name == "watch") return run_watch(client, words);
  if (name == "unwatch") {
    unwatch(client);
    return answer(client, "+OK\r\n"), true;
  }
  if (place_of(*command, words) != Place::here) return run_in_order(client, *command, words);
  run_client_command(client, *command, words);
  return true;
}

void Service::reply_error(Client& client, std::string_view error) {
  std::string text;
  ReplyWriter reply(text, client.is_resp3);
  reply.error(error);
  statistics_.error(reply.error_code());
  answer(client, text);
}

void Service::refuse(Client& client) {
  ++refused_requests_;
  reply_error(client, unavailable_error());
}

void Service::run_client_command(Client& client, const Command& command, Arguments words) {
  std::string text;
  ReplyWriter reply(text, client.is_resp3);
  run_for_client(client, command, words, reply);
  answer(client, text);
}

bool Service::is_available() const {
  return is_alone() || (order_ != nullptr && status_.is_complete &&
                        status_.stored_replicas >= options_.least_replicas && !status_.awaits_earlier_leases);
}

bool Service::is_too_old(Milliseconds since) const {
  return now_.steady - since >= options_.unavailable_after;
}

bool Service::has_waited_too_long() const {
  return (unavailable_since_ && is_too_old(*unavailable_since_)) ||
         (!in_flight_.empty() && is_too_old(in_flight_.front().since)) ||
         (!unstable_.empty() && is_too_old(unstable_.front().since)) ||
         (awaited_ > stable_ && is_too_old(awaited_since_));
}

/// An outage may end and begin again, for example while the servers agree on a main. A request then waits for
/// no longer than in one outage.
bool Service::has_waited_too_long(const Client& client) const {
  return has_waited_too_long() ||
         (client.is_held && !client.waits_for_space && !is_available() && is_too_old(client.held_since));
}

/// The service has not begun since this server was started, and it may still begin soon.
bool Service::starts() const {
  return !is_alone() && !has_been_available_ && now_.steady - waits_for_others_since_ < kStartsWithin;
}

std::string_view Service::unavailable_error() const {
  if (is_reading_disk_) return kReadsDisk;
  if (loader_) return kGetsData;
  return starts() ? kStarts : kClusterDown;
}

void Service::run(const Command& command, const RunOptions& options, Arguments words, ReplyWriter& reply) {
  Call call{*databases_, options.database, words, agreed_, options.random, reply, pubsub_};
  call.may_read_all_keys = may_read_all_keys(command, options.user, words);
  run(command, call);
}

/// Commands that other servers have submitted are not counted here.
void Service::run(const Command& command, Call& call) {
  if (call.reply.is_muted()) {
    command.run(call);
    return deliver_messages();
  }
  call.counts_hits = command.has(flag::kRead);
  const std::uint64_t begun = microseconds();
  const std::size_t errors = call.reply.errors();
  command.run(call);
  // A command that waits is counted when it has found something.
  if (call.waits_for.empty())
    note_executed(command, call.words, microseconds() - begun, call.reply.errors() != errors, call.reply);
  deliver_messages();
}

bool Service::run_data_command(Client& client, const Command& command, Arguments words) {
  if (command.has(flag::kRead) && !may_take_space(client) && is_reply_long(client, command, words))
    return wait_for_space(client);
  if (is_alone() && command.has(flag::kWaits)) return run_waiting_command(client, words), true;
  const Executing executing(executing_, &client);
  if (is_alone()) {
    if (const auto denied = denial(client.user, words, &client, Occasion::now)) {
      ReplyWriter reply(client.output, client.is_resp3);
      reject(command, *denied, reply);
      return true;
    }
    pass_time();
    make_room();
    ReplyWriter reply = writer_for(client.output, client.is_resp3);
    if (!refuses(command, reply)) run(command, {client.database, next_random(), client.user}, words, reply);
    if (reply.is_cut()) lose(client);
    serve_waiters();
    return true;
  }
  if (has_waited_too_long(client)) return refuse(client), true;
  if (!is_available() || waiting_bytes_ > kMostWaitingBytes || must_wait_for_evictions(command)) return false;
  if (command.has(flag::kWaits)) return run_waiting_command(client, words), true;
  const bool is_read = command.has(flag::kRead);
  if (is_read && try_local_read(client, command, words)) return true;
  if (is_read) expect_reply(client, command, words);
  Bytes& batch = batch_for(client.number, EntryKind::command);
  put_varint(batch, client.user);
  put_command(batch, client.database, client.is_resp3, is_read, words);
  answer_in_batch(client, !is_read);
  return true;
}

/// A read that the main may answer now. A read whose answer depends on the time takes the other way: the time
/// of the newest event can be long ago.
bool Service::try_local_read(Client& client, const Command& command, Arguments words) {
  if (!status_.is_main || !client.answers.empty() || command.has(flag::kUsesTime)) return false;
  if (!are_users_agreed()) return false;
  if (const auto deadline = databases_->earliest_deadline(); deadline && *deadline <= now_.wall) return false;
  const std::size_t before = client.output.size();
  ReplyWriter reply = writer_for(client.output, client.is_resp3);
  const auto denied = denial(client.user, words, nullptr, Occasion::now);
  if (denied)
    reply.error(*denied);
  else
    run(command, {client.database, next_random(), client.user}, words, reply);
  if (reply.is_cut()) return lose(client), true;
  if (!order_->may_answer(applied_)) {
    client.output.resize(before);
    return false;
  }
  if (denied) {
    static_cast<void>(denial(client.user, words, &client, Occasion::now));  // for the log
    note_rejected(command, reply);
  } else {
    use_default_user(client);
    ++local_reads_;
  }
  if (applied_ > stable_) {
    put_ready(
        client, client.answers.end(),
        {.position = applied_, .is_ready = true, .requests = 1, .bytes = take_from(client.output, before)});
    unstable_.push_back({applied_, client.number, now_.steady});
  }
  return true;
}

}  // namespace rdmc::kv
