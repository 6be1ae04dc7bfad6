// The commands of channels, and the messages that clients get.
#include <algorithm>
#include <array>

#include "apps/replicated-kv/commands/arguments.hpp"
#include "apps/replicated-kv/service/client_replies.hpp"
#include "apps/replicated-kv/service/service.hpp"

namespace rdmc::kv {

namespace {

/// The confirmation of a subscription, or of its end.
void confirm(ReplyWriter& reply, std::string_view what, const std::string* name, std::size_t count) {
  reply.push(3);
  reply.bulk(what);
  name == nullptr ? reply.null() : reply.bulk(*name);
  reply.integer(static_cast<std::int64_t>(count));
}

constexpr auto kPubSubHelp = std::to_array<std::string_view>({
    "CHANNELS [<pattern>]",
    "    Return the channels that clients of this server have subscribed to.",
    "NUMPAT",
    "    Return the number of patterns that clients of this server have subscribed to.",
    "NUMSUB [<channel> ...]",
    "    Return the number of subscribers of these channels at this server.",
});

}  // namespace

template <PubSub::Kind kind>
void Service::subscribe(Client& client, Arguments words, ReplyWriter& reply) {
  std::size_t bytes = pubsub_.bytes_of(client.number);
  for (const std::string_view word : words.subspan(1))
    if (!pubsub_.has_subscribed(client.number, kind, word)) bytes += PubSub::bytes_of_name(word);
  if (bytes > PubSub::kMostClientBytes) return reply.error("ERR the client has too many subscriptions");
  for (const std::string_view word : words.subspan(1)) {
    const std::string name(word);
    pubsub_.subscribe(client.number, kind, name);
    confirm(reply, kind == PubSub::Kind::channel ? "subscribe" : "psubscribe", &name,
            pubsub_.count(client.number));
  }
}

/// Without names, all subscriptions of the kind end.
template <PubSub::Kind kind>
void Service::unsubscribe(Client& client, Arguments words, ReplyWriter& reply) {
  const std::string_view what = kind == PubSub::Kind::channel ? "unsubscribe" : "punsubscribe";
  std::vector<std::string> names(words.begin() + 1, words.end());
  if (names.empty()) names = pubsub_.names_of(client.number, kind);
  if (names.empty()) return confirm(reply, what, nullptr, pubsub_.count(client.number));
  for (const std::string& name : names) {
    pubsub_.unsubscribe(client.number, kind, name);
    confirm(reply, what, &name, pubsub_.count(client.number));
  }
}

template void Service::subscribe<PubSub::Kind::channel>(Client&, Arguments, ReplyWriter&);
template void Service::subscribe<PubSub::Kind::pattern>(Client&, Arguments, ReplyWriter&);
template void Service::unsubscribe<PubSub::Kind::channel>(Client&, Arguments, ReplyWriter&);
template void Service::unsubscribe<PubSub::Kind::pattern>(Client&, Arguments, ReplyWriter&);

void Service::pubsub(Client&, Arguments words, ReplyWriter& reply) {
  const std::string what = to_lower(words[1]);
  if (what == "channels" && words.size() <= 3) {
    const auto found = pubsub_.channels(words.size() == 3 ? words[2] : "*");
    reply.array(found.size());
    for (const std::string& name : found) reply.bulk(name);
    return;
  }
  if (what == "numsub") {
    reply.array(2 * (words.size() - 2));
    for (const std::string_view channel : words.subspan(2)) {
      reply.bulk(channel);
      reply.integer(static_cast<std::int64_t>(pubsub_.subscribers(channel)));
    }
    return;
  }
  if (what == "numpat" && words.size() == 2)
    return reply.integer(static_cast<std::int64_t>(pubsub_.patterns()));
  if (what == "help" && words.size() == 2) return help(reply, "PUBSUB", kPubSubHelp);
  unknown_subcommand(reply, "PUBSUB", words[1]);
}

/// Gives the messages of the last command to the clients. They leave when the event of the command is stable.
void Service::deliver_messages() {
  if (!pubsub_.has_publications()) return;
  for (const PubSub::Publication& publication : pubsub_.take_publications())
    for (const auto& [number, pattern] : publication.receivers) {
      Client* const client = find(number);
      if (client == nullptr || client->is_closing) continue;
      std::string text;
      ReplyWriter message(text, client->is_resp3);
      message.push(pattern == nullptr ? 3 : 4);
      message.bulk(pattern == nullptr ? "message" : "pmessage");
      if (pattern != nullptr) message.bulk(*pattern);
      message.bulk(publication.channel);
      message.bulk(publication.message);
      deliver(*client, std::move(text));
      account(*client);
    }
}

/// A message does not wait for the reply of a command that waits for a key. That command is the last request
/// of the client, so its answer is the last one that has requests.
void Service::deliver(Client& client, std::string text) {
  auto before = client.answers.end();
  if (client.has_blocking_request) {
    const auto last = std::ranges::find_if(client.answers.rbegin(), client.answers.rend(),
                                           [](const Answer& answer) { return answer.requests > 0; });
    if (last != client.answers.rend() && !last->is_ready) before = std::prev(last.base());
  }
  const bool is_stable = applied_ <= stable_;
  if (before == client.answers.begin() && is_stable) {
    client.output.append(text);
    return list(client);
  }
  put_ready(client, before,
            {.position = is_stable ? 0 : applied_, .is_ready = true, .bytes = std::move(text)});
  if (!is_stable) unstable_.push_back({applied_, client.number, now_.steady});
}

}  // namespace rdmc::kv
