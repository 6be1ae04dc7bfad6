// This file has the part of Service for MULTI, EXEC, DISCARD and WATCH.
#include <algorithm>

#include "apps/replicated-kv/commands/arguments.hpp"
#include "apps/replicated-kv/service/limits.hpp"
#include "apps/replicated-kv/service/service.hpp"

namespace rdmc::kv {

void Service::queue_command(Client& client, Arguments words) {
  if (client.queued_bytes > kMostQueuedBytes || client.queued.size() >= kMostQueued) {
    client.has_multi_error = true;
    return reply_error(client, "ERR the transaction is too long");
  }
  if (is_alone()) make_room();
  if (find_command(words[0])->has(flag::kGrows) && databases_->is_out_of_memory()) {
    client.has_multi_error = true;
    return reply_error(client, kOutOfMemory);
  }
  client.queued.emplace_back(words.begin(), words.end());
  client.queued_bytes += sizeof(client.queued.back());
  for (const std::string_view word : words) client.queued_bytes += sizeof(std::string) + word.size();
  answer(client, "+QUEUED\r\n");
}

void Service::leave_multi(Client& client) {
  client.is_in_multi = client.has_multi_error = false;
  client.queued = decltype(client.queued)();  // An assignment of {} would keep the memory.
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
  if (!is_alone() && has_waited_too_long(client)) {
    leave_multi(client);
    unwatch(client);
    return refuse(client), true;
  }
  if (!is_available() || waiting_bytes_ > kMostWaitingBytes) return false;
  if (!may_take_space(client) && is_reply_of_transaction_long(client)) return wait_for_space(client);
  const auto must_wait = [&](const auto& queued) {
    return must_wait_for_evictions(*find_command(queued[0]));
  };
  if (!is_alone() && std::ranges::any_of(client.queued, must_wait)) return false;
  Bytes& batch = batch_for(client.number, EntryKind::transaction);
  put_varint(batch, client.user);
  put_varint(batch, client.is_resp3);
  put_varint(batch, client.queued.size());
  bool is_write = client.watches;
  std::uint32_t database = client.database;
  Words words;
  for (const auto& queued : client.queued) {
    words.assign(queued.begin(), queued.end());
    const Command& command = *find_command(words[0]);
    const Place place = place_of(command, words);
    // All servers must know who gives the later commands.
    const bool is_for_all = place == Place::order_all || place == Place::order_login;
    put_command(batch, database, client.is_resp3, !is_for_all, words);
    is_write = is_write || place == Place::order_all;
    client.may_be_waiting = client.may_be_waiting || (is_for_all && command.has(flag::kClient));
    if (command.name != "select") continue;
    // The later commands are for the other database. Those after the transaction must wait, because nobody
    // knows yet whether it takes place.
    if (const auto number = to_integer(words[1]); number && *number >= 0 && *number < Databases::kCount)
      database = static_cast<std::uint32_t>(*number);
    client.may_be_waiting = true;
  }
  client.watches = false;
  leave_multi(client);
  answer_in_batch(client, is_write);
  execute_alone();
  return true;
}

bool Service::run_watch(Client& client, Arguments words) {
  if (client.is_in_multi) return reply_error(client, "ERR WATCH inside MULTI is not allowed"), true;
  if (!is_alone() && has_waited_too_long(client)) return refuse(client), true;
  if (!is_available() || waiting_bytes_ > kMostWaitingBytes) return false;
  Bytes& batch = batch_for(client.number, EntryKind::watch);
  put_varint(batch, client.user);
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

void Service::execute_watch(VarintReader& in, const Origin& origin, Client* client, ReplyWriter& reply) {
  const auto database = in.number<std::uint32_t>(Databases::kCount - 1);
  Words words{"watch"};
  for (auto keys = in.count(); keys > 0 && in.is_good(); --keys) words.push_back(take_text(in));
  if (!in.is_good()) return;
  if (const auto denied = denial(origin.user, words, client, Occasion::now))
    return reject(*find_command(words[0]), *denied, reply);
  // Every server keeps these keys, so all of them must take or refuse them at this point.
  std::size_t bytes = databases_->watches().bytes_of(origin.client);
  const auto& known = databases_->watches().keys_of(origin.client);
  for (const std::string_view key : Arguments(words).subspan(1))
    if (!known.contains({database, std::string(key)})) bytes += Watches::bytes_of_key(key);
  if (bytes > Watches::kMostClientBytes)
    return reject(*find_command(words[0]), "ERR the client watches too many keys", reply);
  for (const std::string_view key : Arguments(words).subspan(1)) {
    databases_->erase_if_expired(database, key, agreed_);
    databases_->watches().watch(origin.client, database, key);
  }
  reply.ok();
}

/// `client` is null if the reply is not needed here.
void Service::execute_transaction(VarintReader& in, Origin origin, Client* client, ReplyWriter& reply) {
  const ClientId& id = origin.client;
  for (const Watches::Key& key : std::set(databases_->watches().keys_of(id)))
    databases_->erase_if_expired(key.database, key.name, agreed_);
  const bool is_given_up = databases_->watches().has_changed(id);
  databases_->watches().unwatch(id);
  auto commands = in.count();
  EncodedCommand next;
  bool is_refused = false;
  if (!is_given_up && databases_->is_out_of_memory()) {
    VarintReader ahead = in;
    for (auto left = commands; left > 0 && ahead.is_good(); --left) {
      take_command(ahead, next);
      const Command* const command = ahead.is_good() ? find_command(next.words[0]) : nullptr;
      is_refused = is_refused || (command != nullptr && command->has(flag::kGrows));
    }
  }
  if (is_given_up)
    reply.null_array();
  else if (is_refused)
    reply.error("EXECABORT Transaction discarded because of: " + std::string(kOutOfMemory));
  else
    reply.array(commands);
  const Executing executing(executing_, client);
  for (; commands > 0; --commands) {
    take_command(in, next);
    if (!in.is_good()) return;
    const std::uint64_t random = next_random();
    if (is_given_up || is_refused) continue;
    if (next.is_local && client == nullptr) {
      note_use(next);
      continue;
    }
    const Command* const command = find_command(next.words[0]);
    if (command == nullptr || !fits(*command, next.words.size())) {
      reply.error("ERR unknown command");
      continue;
    }
    if (const auto denied = command->has(flag::kBeforeAuth)
                                ? std::nullopt
                                : denial(origin.user, next.words, client, Occasion::at_exec)) {
      reject(*command, *denied, reply);
      continue;
    }
    if (client != nullptr) use_default_user(*client);
    if (command->run != nullptr)
      run(*command, {next.database, random, origin.user}, next.words, reply);
    else
      execute_client_command(*command, next.words, origin, client, reply);
  }
  if (client != nullptr && client->may_be_waiting) resume(*client);
}

}  // namespace rdmc::kv
