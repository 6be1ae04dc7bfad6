// Commands that wait until a key has elements. Such a command is an ordered event. It succeeds at once, or it
// is a waiter in the databases of all servers (data/waiters.hpp). After each command or transaction, the
// waiters for the keys that have changed are served, in the order in which they came. The server of a waiting
// client writes the reply. It also ends the wait when the time is over or the client is gone: it submits an
// entry that says so.
#include <algorithm>

#include "apps/replicated-kv/commands/blocking.hpp"
#include "apps/replicated-kv/service/service.hpp"

namespace rdmc::kv {

/// The client gives no further request before the answer.
void Service::run_waiting_command(Client& client, Arguments words) {
  Bytes& batch = batch_for(client.number, EntryKind::command);
  put_varint(batch, client.user);
  put_command(batch, client.database, client.is_resp3, false, words);
  // Earlier answers of the batch need not wait for this one.
  client.answers.push_back({.batch = last_batch_, .writes = 1, .requests = 1, .missing = 1});
  client.may_be_waiting = client.has_blocking_request = true;
  const auto wait = longest_wait(words);
  client.waits_until = wait && *wait > 0 ? now_.steady + *wait : 0;
  if (client.waits_until != 0) waits_.emplace(client.waits_until, client.number);
  execute_alone();
}

/// Returns true if the command waits now.
bool Service::execute_waiting_command(const Origin& origin, const Command& command,
                                      const EncodedCommand& encoded, std::uint64_t random, Answer* answer,
                                      ReplyWriter& reply) {
  const ClientId& id = origin.client;
  Call call{*databases_, encoded.database, encoded.words, agreed_, random, reply, pubsub_};
  call.may_wait = true;
  run(command, call);
  Client* const client = id.server == server_ ? find(id.number) : nullptr;
  if (call.waits_for.empty()) {
    if (client != nullptr && answer != nullptr) resume(*client);
    return false;
  }
  // Every server keeps the waiting command, so all of them must take or refuse it at this point.
  const std::size_t bytes = Waiter::bytes_of(encoded.words, call.waits_for);
  if (bytes > Waiter::kMostBytes) {
    reject(command, "ERR the command waits for too many keys", reply);
    if (client != nullptr && answer != nullptr) resume(*client);
    return false;
  }
  databases_->waiters().add({.client = id,
                             .user = origin.user,
                             .database = encoded.database,
                             .is_resp3 = encoded.is_resp3,
                             .words = {encoded.words.begin(), encoded.words.end()},
                             .keys = {call.waits_for.begin(), call.waits_for.end()}});
  if (answer != nullptr) {
    answer->is_waiting = true;
    client->waiter_bytes = bytes;
    account(*client);
  } else if (id.server == server_) {
    stop_waiting(id.number, false);  // Nobody waits for the answer any more.
  }
  return true;
}

void Service::resume(Client& client) {
  client.may_be_waiting = client.has_blocking_request = client.is_being_unblocked = false;
  client.waiter_bytes = 0;
  client.login.clear();
  waits_.erase({client.waits_until, client.number});
  resumed_.push_back(client.number);
}

Answer* Service::waiting_answer(const ClientId& id) {
  Client* const client = id.server == server_ ? find(id.number) : nullptr;
  if (client == nullptr) return nullptr;
  const auto found = std::ranges::find_if(client->answers, &Answer::is_waiting);
  return found == client->answers.end() ? nullptr : &*found;
}

void Service::serve_waiters() {
  Waiters& waiters = databases_->waiters();
  if (waiters.is_empty()) return;
  Words words;
  while (const auto key = waiters.take_ready())
    for (const std::uint64_t number : waiters.waiting_for(*key)) {
      const Waiter* const waiter = waiters.find(number);
      if (waiter == nullptr) continue;
      const ClientId id = waiter->client;
      Answer* const answer = waiting_answer(id);
      ReplyWriter reply;
      if (answer != nullptr) reply = writer_for(answer->bytes, waiter->is_resp3);
      words.assign(waiter->words.begin(), waiter->words.end());
      const Command& command = *find_command(words[0]);
      // The user may have lost the permission since.
      if (const auto denied =
              denial(waiter->user, words, answer == nullptr ? nullptr : find(id.number), Occasion::now)) {
        waiters.forget(id);  // Its words end here.
        if (answer == nullptr) continue;
        reject(command, *denied, reply);
        resume(*find(id.number));
        finish(*find(id.number), *answer);
        continue;
      }
      Call call{*databases_, waiter->database, words, agreed_, next_random(), reply, pubsub_};
      const Executing executing(executing_, answer == nullptr ? nullptr : find(id.number));
      call.may_wait = true;
      call.ready_key = key->name;
      run(command, call);
      if (!call.waits_for.empty()) continue;
      waiters.forget(id);
      if (answer == nullptr) continue;
      Client& client = *find(id.number);
      resume(client);
      if (reply.is_cut()) lose(client);
      finish(client, *answer);
    }
}

void Service::execute_stop(const ClientId& id, bool is_error) {
  Answer* const answer = waiting_answer(id);
  if (!databases_->waiters().forget(id) || answer == nullptr) return;
  Client& client = *find(id.number);
  ReplyWriter reply(answer->bytes, client.is_resp3);
  is_error ? reply.error("UNBLOCKED client unblocked via CLIENT UNBLOCK") : reply.null_array();
  resume(client);
  finish(client, *answer);
}

void Service::stop_waiting(std::uint64_t client, bool is_error) {
  put_varint(batch_for(client, EntryKind::stop_waiting), is_error);
  batches_.back().stopping.emplace_back(client, is_error);
  execute_alone();
}

void Service::stop_late_waits() {
  while (!waits_.empty() && waits_.begin()->first <= now_.steady) {
    const std::uint64_t client = waits_.begin()->second;
    waits_.erase(waits_.begin());
    stop_waiting(client, false);
  }
}

}  // namespace rdmc::kv
