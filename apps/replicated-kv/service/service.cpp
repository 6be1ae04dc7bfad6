#include "apps/replicated-kv/service/service.hpp"

#include <algorithm>
#include <cassert>

#include "apps/replicated-kv/commands/arguments.hpp"

namespace rdmc::kv {

namespace {

/// Keys that expire in one step. So a step takes at most about a millisecond.
constexpr std::size_t kMostExpired = 1000;
/// While this many bytes of batches wait, requests wait.
constexpr std::size_t kMostWaitingBytes = 8 << 20;
/// While a client has this many bytes that it does not read, or requests that wait, nothing more is read from
/// it.
constexpr std::size_t kMostOutputBytes = 1 << 20, kMostAnswers = 4096;
/// While a command of a client waits, this many bytes of later requests are read.
constexpr std::size_t kMostRequestBytes = 1 << 20;

/// The interval at which the main looks for servers that have departed.
constexpr Milliseconds kLookForDeparted = 500;

constexpr std::string_view kClusterDown =
    "CLUSTERDOWN The service has no majority of its servers, or no server has its state";

}  // namespace

Service::Service(const ServiceOptions& options)
    : options_(options), databases_(std::make_unique<Databases>(options.seed)), random_(options.seed) {}

Service::~Service() = default;

std::uint64_t Service::next_random() {
  std::uint64_t mixed = random_ += 0x9E3779B97F4A7C15;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB;
  return mixed ^ (mixed >> 31);
}

// -- The clients --

Client& Service::connect(std::string address, Milliseconds now) {
  ++connections_;
  const RequestParser::Limits limits{.bulk_bytes =
                                         static_cast<std::size_t>(settings_.number("proto-max-bulk-len"))};
  auto& client = clients_[++last_client_];
  client = std::make_unique<Client>(last_client_, std::move(address), limits);
  client->connected_at = client->last_request = now;
  return *client;
}

void Service::disconnect(Client& client) {
  pubsub_.forget(client.number);
  unwatch(client);
  waits_.erase({client.waits_until, client.number});
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
  return client.is_held || client.output.size() > kMostOutputBytes || client.answers.size() > kMostAnswers ||
         (client.may_be_waiting && client.parser.waiting_bytes() > kMostRequestBytes);
}

void Service::execute(Client& client, Milliseconds now) {
  now_ = now;
  list(client);
  while (!client.is_closing && !client.may_be_waiting) {
    if (!client.is_held) {
      if (is_full(client)) return;
      const auto status = client.parser.next();
      if (status == RequestParser::Status::incomplete) return;
      if (status == RequestParser::Status::broken) {
        reply_error(client, "ERR Protocol error: " + client.parser.error());
        client.is_closing = true;
        return;
      }
      if (client.parser.words().empty()) continue;
    }
    client.is_held = !handle(client, client.parser.words());
    if (!client.is_held) continue;
    held_.push_back(client.number);
    return;
  }
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
  if (!fits(*command, words.size()))
    return refuse("ERR wrong number of arguments for '" + std::string(command->name) + "' command");
  return command;
}

bool Service::handle(Client& client, Arguments words) {
  const Command* const command = check(client, words);
  if (command == nullptr) return true;
  ++requests_;
  client.last_request = now_;
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
  run_client_command(client, *command, words);
  return true;
}

void Service::reply_error(Client& client, std::string_view error) {
  std::string text;
  ReplyWriter(text, client.is_resp3).error(error);
  answer(client, text);
}

void Service::run_client_command(Client& client, const Command& command, Arguments words) {
  std::string text;
  ReplyWriter reply(text, client.is_resp3);
  (this->*client_table().at(command.name))(client, words, reply);
  answer(client, text);
}

bool Service::is_available() const {
  return is_alone() ||
         (order_ != nullptr && status_.is_complete && status_.complete_replicas >= options_.least_replicas);
}

bool Service::has_waited_too_long() const {
  const auto is_old = [&](Milliseconds since) { return now_ - since >= options_.unavailable_after; };
  return (unavailable_since_ && is_old(*unavailable_since_)) ||
         (!in_flight_.empty() && is_old(in_flight_.front().since));
}

void Service::run(const Command& command, const RunOptions& options, Arguments words, ReplyWriter& reply) {
  Call call{*databases_, options.database, words, agreed_, options.random, reply, pubsub_};
  run(command, call);
}

void Service::run(const Command& command, Call& call) {
  command.run(call);
  deliver_messages();
}

bool Service::run_data_command(Client& client, const Command& command, Arguments words) {
  if (is_alone() && command.has(flag::kWaits)) return run_waiting_command(client, words), true;
  if (is_alone()) {
    agreed_ = std::max(agreed_, now_);
    ReplyWriter reply(client.output, client.is_resp3);
    run(command, {client.database, next_random()}, words, reply);
    serve_waiters();
    return true;
  }
  if (has_waited_too_long()) return reply_error(client, kClusterDown), true;
  if (!is_available() || waiting_bytes_ > kMostWaitingBytes) return false;
  if (command.has(flag::kWaits)) return run_waiting_command(client, words), true;
  const bool is_read = command.has(flag::kRead);
  if (is_read && try_local_read(client, command, words)) return true;
  Bytes& batch = batch_for(client.number, EntryKind::command);
  put_command(batch, client.database, client.is_resp3, is_read, words);
  answer_in_batch(client, !is_read);
  return true;
}

/// A read that the main may answer now. A read whose answer depends on the time takes the other way: the time
/// of the newest event can be long ago.
bool Service::try_local_read(Client& client, const Command& command, Arguments words) {
  if (!status_.is_main || !client.answers.empty() || command.has(flag::kUsesTime)) return false;
  if (const auto deadline = databases_->earliest_deadline(); deadline && *deadline <= now_) return false;
  const std::size_t before = client.output.size();
  ReplyWriter reply(client.output, client.is_resp3);
  run(command, {client.database, next_random()}, words, reply);
  if (!order_->may_answer(applied_)) {
    client.output.resize(before);
    return false;
  }
  if (applied_ > stable_) {
    client.answers.push_back(
        {.position = applied_, .is_ready = true, .requests = 1, .bytes = client.output.substr(before)});
    client.output.resize(before);
    unstable_.emplace_back(applied_, client.number);
  }
  return true;
}

// -- Transactions --

void Service::queue_command(Client& client, Arguments words) {
  client.queued.emplace_back(words.begin(), words.end());
  for (const std::string_view word : words) client.queued_bytes += word.size();
  answer(client, "+QUEUED\r\n");
}

void Service::leave_multi(Client& client) {
  client.is_in_multi = client.has_multi_error = false;
  client.queued = {};
  client.queued_bytes = 0;
}

bool Service::run_exec(Client& client) {
  if (!client.is_in_multi) return reply_error(client, "ERR EXEC without MULTI"), true;
  if (client.has_multi_error) {
    leave_multi(client);
    unwatch(client);
    return reply_error(client, "EXECABORT Transaction discarded because of previous errors."), true;
  }
  if (client.has_lost_watches) {
    leave_multi(client);
    unwatch(client);
    std::string text;
    ReplyWriter(text, client.is_resp3).null_array();
    return answer(client, text), true;
  }
  if (!is_alone() && has_waited_too_long()) {
    leave_multi(client);
    unwatch(client);
    return reply_error(client, kClusterDown), true;
  }
  if (!is_available() || waiting_bytes_ > kMostWaitingBytes) return false;
  Bytes& batch = batch_for(client.number, EntryKind::transaction);
  put_varint(batch, client.is_resp3);
  put_varint(batch, client.queued.size());
  bool is_write = client.watches;
  Words words;
  for (const auto& queued : client.queued) {
    words.assign(queued.begin(), queued.end());
    const Command& command = *find_command(words[0]);
    put_command(batch, client.database, client.is_resp3, !command.has(flag::kWrite), words);
    is_write = is_write || command.has(flag::kWrite);
    // The commands after SELECT, also those after the transaction, are for the other database.
    if (command.name == "select")
      if (const auto number = to_integer(words[1]); number && *number >= 0 && *number < Databases::kCount)
        client.database = static_cast<std::uint32_t>(*number);
  }
  client.watches = false;
  leave_multi(client);
  answer_in_batch(client, is_write);
  execute_alone();
  return true;
}

bool Service::run_watch(Client& client, Arguments words) {
  if (client.is_in_multi) return reply_error(client, "ERR WATCH inside MULTI is not allowed"), true;
  if (!is_alone() && has_waited_too_long()) return reply_error(client, kClusterDown), true;
  if (!is_available() || waiting_bytes_ > kMostWaitingBytes) return false;
  Bytes& batch = batch_for(client.number, EntryKind::watch);
  put_varint(batch, client.database);
  put_varint(batch, words.size() - 1);
  for (const std::string_view key : words.subspan(1)) put_bytes(batch, key);
  client.watches = true;
  answer_in_batch(client, true);
  execute_alone();
  return true;
}

/// Nobody waits for the answer. The client also stops to wait for keys.
void Service::unwatch(Client& client) {
  client.has_lost_watches = false;
  if (!std::exchange(client.watches, false) && !client.may_be_waiting) return;
  batch_for(client.number, EntryKind::unwatch);
  execute_alone();
}

// -- Answers --

void Service::answer(Client& client, std::string_view bytes) {
  list(client);
  if (client.answers.empty()) {
    client.output.append(bytes);
    return;
  }
  Answer& last = client.answers.back();
  if (last.is_ready && last.batch == 0 && last.requests == 0)
    last.bytes.append(bytes);
  else
    client.answers.push_back({.is_ready = true, .bytes = std::string(bytes)});
}

Answer& Service::answer_in_batch(Client& client, bool is_write) {
  if (client.answers.empty() || client.answers.back().batch != last_batch_ || client.answers.back().is_ready)
    client.answers.push_back({.batch = last_batch_});
  Answer& answer = client.answers.back();
  ++answer.requests;
  ++answer.missing;
  answer.writes += is_write;
  return answer;
}

void Service::flush(Client& client) {
  const std::size_t before = client.output.size();
  for (; !client.answers.empty() && client.answers.front().is_ready &&
         client.answers.front().position <= stable_;
       client.answers.pop_front())
    client.output.append(client.answers.front().bytes);
  if (client.output.size() != before) list(client);
}

void Service::flush_stable() {
  for (; !unstable_.empty() && unstable_.front().first <= stable_; unstable_.pop_front())
    if (Client* const client = find(unstable_.front().second)) flush(*client);
}

// -- Batches --

/// Returns the batch that the next entry belongs to, with the beginning of the entry.
Bytes& Service::batch_for(std::uint64_t client, EntryKind kind) {
  if (batches_.empty() || batches_.back().submitted != 0) {
    Batch& batch = batches_.emplace_back();
    batch.number = ++last_batch_;
    batch.since = now_;
    put_varint(batch.bytes, server_);
    put_varint(batch.bytes, 0);  // no more parts follow
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
  OrderedEvent event;
  event.time = now_ * 1'000'000;
  event.random = next_random();
  VarintReader in(batch.bytes);
  in.number();
  in.number();
  agreed_ = std::max(agreed_, now_);
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

void Service::end_turn(Milliseconds now) {
  now_ = now;
  stop_late_waits();
  for (const std::uint64_t number : std::exchange(resumed_, {}))
    if (Client* const client = find(number)) execute(*client, now);
  if (is_alone()) {
    agreed_ = std::max(agreed_, now);
    databases_->expire(agreed_, kMostExpired);
    return;
  }
  if (has_waited_too_long()) give_up(false);
  // The time of an event makes keys expire everywhere.
  const auto deadline = databases_->earliest_deadline();
  if (status_.is_main && deadline && *deadline <= now && batches_.empty() && in_flight_.empty()) {
    Batch& tick = batches_.emplace_back();
    tick.number = ++last_batch_;
    tick.since = now;
    put_varint(tick.bytes, server_);
    put_varint(tick.bytes, 0);
  }
  forget_departed();
  submit_batches();
  if (!held_.empty() && (is_available() || has_waited_too_long())) {
    resume_held();
    submit_batches();
  }
}

/// The main makes all servers forget what they keep for the clients of servers that are not in the view any
/// more.
void Service::forget_departed() {
  if (!status_.is_main || servers_.empty() || now_ < next_departed_look_) return;
  next_departed_look_ = now_ + kLookForDeparted;
  std::set<std::uint64_t> known = databases_->watches().servers();
  known.merge(databases_->waiters().servers());
  for (const auto& [server, part] : parts_) known.insert(server);
  for (const std::uint64_t server : known)
    if (std::ranges::find(servers_, server) == servers_.end()) batch_for(server, EntryKind::server_gone);
}

std::optional<Milliseconds> Service::next_deadline() const {
  std::optional<Milliseconds> next;
  const auto consider = [&](Milliseconds time) { next = next ? std::min(*next, time) : time; };
  if (const auto deadline = databases_->earliest_deadline(); deadline && (is_alone() || status_.is_main))
    consider(*deadline);
  if (unavailable_since_ && !held_.empty()) consider(*unavailable_since_ + options_.unavailable_after);
  if (!in_flight_.empty()) consider(in_flight_.front().since + options_.unavailable_after);
  if (!waits_.empty()) consider(waits_.begin()->first);
  if (!resumed_.empty()) consider(now_);
  // The order takes no more at present.
  if (!batches_.empty()) consider(now_ + 1);
  return next;
}

/// Ends the wait of all requests that have no answer yet. Whether their writes take effect is unknown, if
/// they were submitted.
void Service::give_up(bool has_ended) {
  constexpr std::string_view kUncertain =
      "UNCERTAIN The service has no majority of its servers. Nobody knows whether this request takes effect";
  const std::uint64_t first_unsubmitted = batches_.empty()                  ? last_batch_ + 1
                                          : batches_.front().submitted == 0 ? batches_.front().number
                                                                            : batches_.front().number + 1;
  for (const auto& [number, client] : clients_) {
    for (Answer& answer : client->answers) {
      if (answer.is_ready && answer.position <= stable_) continue;
      if (answer.is_waiting && !has_ended) continue;
      const bool was_submitted = answer.batch < first_unsubmitted;
      std::string text;
      ReplyWriter reply(text, client->is_resp3);
      for (std::uint32_t i = 0; i < answer.requests; ++i)
        reply.error(answer.writes > 0 && was_submitted ? kUncertain : kClusterDown);
      answer = {.is_ready = true, .bytes = std::move(text)};
    }
    if (client->may_be_waiting && !waiting_answer({server_, number})) resume(*client);
    flush(*client);
  }
  // A transaction ends the watch of its client also if it is refused.
  std::vector<std::uint64_t> unwatching;
  for (const Batch& batch : batches_)
    if (batch.submitted == 0)
      unwatching.insert(unwatching.end(), batch.unwatching.begin(), batch.unwatching.end());
  std::erase_if(batches_, [](const Batch& batch) { return batch.submitted == 0; });
  for (const std::uint64_t client : unwatching) batch_for(client, EntryKind::unwatch);
  if (has_ended) {
    batches_.clear();
    in_flight_.clear();
    unstable_.clear();
  }
}

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
  if (!is_alone()) unstable_.emplace_back(applied_, client.number);
  flush(client);
}

void Service::execute_entry(VarintReader& in, std::uint64_t server, std::uint64_t batch) {
  const auto kind = in.number<EntryKind>(static_cast<std::uint64_t>(EntryKind::stop_waiting));
  const auto number = in.number();
  if (!in.is_good()) return;
  if (kind == EntryKind::server_gone) {
    databases_->watches().forget_server(number);
    databases_->waiters().forget_server(number);
    parts_.erase(number);
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
  std::string none;
  ReplyWriter reply;
  switch (kind) {
    case EntryKind::command: {
      take_command(in, decoded_);
      if (!in.is_good()) return;
      // Servers that leave a command out must draw its number too. Otherwise later numbers would differ.
      const std::uint64_t random = next_random();
      if (answer != nullptr) reply = ReplyWriter(answer->bytes, decoded_.is_resp3);
      const Command* const command =
          decoded_.is_local && answer == nullptr ? nullptr : find_command(decoded_.words[0]);
      if (command != nullptr && command->has(flag::kWaits)) {
        if (execute_waiting_command(id, *command, decoded_, random, answer, reply)) return;
      } else if (command != nullptr && command->run != nullptr) {
        run(*command, {decoded_.database, random}, decoded_.words, reply);
      }
      break;
    }
    case EntryKind::transaction: {
      const bool is_resp3 = in.number(1) != 0;
      if (answer != nullptr) reply = ReplyWriter(answer->bytes, is_resp3);
      execute_transaction(in, id, answer == nullptr ? nullptr : client, reply);
      break;
    }
    case EntryKind::watch:
      if (answer != nullptr) reply = ReplyWriter(answer->bytes, false);
      execute_watch(in, id);
      reply.ok();
      break;
    default: break;
  }
  if (answer != nullptr && --answer->missing == 0) finish(*client, *answer);
  serve_waiters();
}

void Service::execute_watch(VarintReader& in, const ClientId& id) {
  const auto database = in.number<std::uint32_t>(Databases::kCount - 1);
  for (auto keys = in.count(); keys > 0 && in.is_good(); --keys) {
    const std::string_view key = take_text(in);
    databases_->erase_if_expired(database, key, agreed_);
    databases_->watches().watch(id, database, key);
  }
}

/// `client` is null if the reply is not needed here.
void Service::execute_transaction(VarintReader& in, const ClientId& id, Client* client, ReplyWriter& reply) {
  for (const Watches::Key& key : std::set(databases_->watches().keys_of(id)))
    databases_->erase_if_expired(key.database, key.name, agreed_);
  const bool is_given_up = databases_->watches().has_changed(id);
  databases_->watches().unwatch(id);
  auto commands = in.count();
  is_given_up ? reply.null_array() : reply.array(commands);
  EncodedCommand next;
  for (; commands > 0; --commands) {
    take_command(in, next);
    if (!in.is_good()) return;
    const std::uint64_t random = next_random();
    if (is_given_up || (next.is_local && client == nullptr)) continue;
    const Command* const command = find_command(next.words[0]);
    if (command == nullptr) {
      reply.error("ERR unknown command");
    } else if (command->run != nullptr) {
      run(*command, {next.database, random}, next.words, reply);
    } else if (client != nullptr) {
      // SELECT has had its effect when the transaction was submitted.
      const std::uint32_t database = client->database;
      (this->*client_table().at(command->name))(*client, next.words, reply);
      client->database = database;
    }
  }
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
  databases_->save(std::move(head), write);
}

bool Service::on_load(const LoadState& load) {
  switch (load.step) {
    case LoadState::Step::begin:
      databases_ = std::make_unique<Databases>(options_.seed);
      databases_->shared().limits = settings_.encoding_limits();
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
  const bool is_good = head.is_done();
  loader_.reset();
  return is_good;
}

}  // namespace rdmc::kv
