// The part of Service that lets requests with long replies wait while all clients together need too much
// memory. A request can be short and its reply long, so without this each client could make the server keep a
// reply of any length. The server finds out how long the reply to a read is: it executes the read, and keeps
// nothing that does not fit. If the reply is long, the request waits until there is space. While there is
// none, such requests are still executed, one at a time: the next one, when the client of the last one has
// read its reply, or does not read.
#include <algorithm>

#include "apps/replicated-kv/service/limits.hpp"
#include "apps/replicated-kv/service/service.hpp"

namespace rdmc::kv {

/// This execution is a use of the keys, and has no other effect. No key expires in it.
void Service::execute_for_size(const Client& client, const Command& command, Arguments words,
                               ReplyWriter& reply) {
  if (!command.has(flag::kRead) || command.has(flag::kUsesTime)) return;
  Call call{*databases_, client.database, words, INT64_MIN, 0, reply, pubsub_};
  command.run(call);
}

bool Service::is_reply_long(const Client& client, const Command& command, Arguments words) {
  std::string text;
  ReplyWriter reply(text, client.is_resp3, ClientMemory::kSmall);
  execute_for_size(client, command, words, reply);
  return reply.is_cut();
}

bool Service::is_reply_of_transaction_long(const Client& client) {
  std::string text;
  ReplyWriter reply(text, client.is_resp3, ClientMemory::kSmall);
  Words words;
  for (const auto& queued : client.queued) {
    words.assign(queued.begin(), queued.end());
    execute_for_size(client, *find_command(words[0]), words, reply);
    if (reply.is_cut()) return true;
  }
  return false;
}

bool Service::may_take_space(const Client& client) const {
  return !memory_.is_exceeded() || client.number == last_with_space_;
}

/// Returns false, because the request must wait.
bool Service::wait_for_space(Client& client) {
  if (!std::exchange(client.waits_for_space, true)) waiting_for_space_.push_back(client.number);
  return false;
}

/// Returns when the next request that waits for space may be executed.
std::optional<Milliseconds> Service::next_space_at() const {
  if (waiting_for_space_.empty()) return std::nullopt;
  const auto last = memory_.large().find(last_with_space_);
  if (!memory_.is_exceeded() || last == memory_.large().end()) return now_.steady;
  return std::max(last_space_at_, last->second.progressed_at) + ClientMemory::kTurn;
}

void Service::serve_waiting_for_space() {
  for (auto time = next_space_at(); time && *time <= now_.steady; time = next_space_at()) {
    Client* const client = find(waiting_for_space_.front());
    waiting_for_space_.pop_front();
    if (client == nullptr || client->is_closing) continue;
    client->waits_for_space = false;
    last_with_space_ = client->number;
    last_space_at_ = now_.steady;
    execute(*client, now_);
  }
}

/// For a read that goes into the order of events. A long reply counts before it exists.
void Service::expect_reply(Client& client, const Command& command, Arguments words) {
  constexpr std::size_t kManyElements = 512;
  const auto most = static_cast<std::ptrdiff_t>(words.size()) - 1;
  const std::ptrdiff_t last =
      command.last < 0 ? most + 1 + command.last : std::min<std::ptrdiff_t>(command.last, most);
  std::size_t bytes = 0;
  for (std::ptrdiff_t i = command.first; command.step > 0 && i <= last; i += command.step) {
    Database::Entry* const entry =
        databases_->at(client.database).find(words[static_cast<std::size_t>(i)], INT64_MIN);
    if (entry == nullptr) continue;
    if (const Text* const text = entry->value.text())
      bytes += text->size();
    else if (entry->value.collection()->size() > kManyElements)
      bytes += kMostReadBytes;
  }
  if (bytes > ClientMemory::kSmall && is_reply_long(client, command, words)) client.long_reply_bytes += bytes;
}

}  // namespace rdmc::kv
