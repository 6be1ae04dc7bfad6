#include "apps/replicated-kv/service/pubsub.hpp"

#include "apps/replicated-kv/commands/arguments.hpp"

namespace rdmc::kv {

bool PubSub::subscribe(std::uint64_t client, Kind kind, std::string_view name) {
  const auto index = static_cast<std::size_t>(kind);
  Subscriptions& own = clients_[client];
  if (!own.names[index].emplace(name).second) return false;
  own.bytes += bytes_of_name(name);
  names_[index][std::string(name)].insert(client);
  return true;
}

bool PubSub::unsubscribe(std::uint64_t client, Kind kind, std::string_view name) {
  const auto index = static_cast<std::size_t>(kind);
  const auto known = clients_.find(client);
  if (known == clients_.end()) return false;
  auto& names = known->second.names;
  const auto own = names[index].find(name);
  if (own == names[index].end()) return false;
  const auto subscribers = names_[index].find(name);
  subscribers->second.erase(client);
  if (subscribers->second.empty()) names_[index].erase(subscribers);
  names[index].erase(own);
  known->second.bytes -= bytes_of_name(name);
  if (names[0].empty() && names[1].empty()) clients_.erase(known);
  return true;
}

void PubSub::forget(std::uint64_t client) {
  for (const Kind kind : {Kind::channel, Kind::pattern})
    for (const std::string& name : names_of(client, kind)) unsubscribe(client, kind, name);
}

std::vector<std::string> PubSub::names_of(std::uint64_t client, Kind kind) const {
  const auto known = clients_.find(client);
  if (known == clients_.end()) return {};
  const auto& names = known->second.names[static_cast<std::size_t>(kind)];
  return {names.begin(), names.end()};
}

std::size_t PubSub::count(std::uint64_t client, Kind kind) const {
  const auto known = clients_.find(client);
  return known == clients_.end() ? 0 : known->second.names[static_cast<std::size_t>(kind)].size();
}

bool PubSub::has_subscribed(std::uint64_t client, Kind kind, std::string_view name) const {
  const auto known = clients_.find(client);
  return known != clients_.end() && known->second.names[static_cast<std::size_t>(kind)].contains(name);
}

std::size_t PubSub::bytes_of(std::uint64_t client) const {
  const auto known = clients_.find(client);
  return known == clients_.end() ? 0 : known->second.bytes;
}

std::size_t PubSub::publish(std::string_view channel, std::string_view message) {
  if (clients_.empty()) return 0;
  Publication publication{std::string(channel), std::string(message), {}};
  const Subscribers& channels = names_[static_cast<std::size_t>(Kind::channel)];
  if (const auto known = channels.find(channel); known != channels.end())
    for (const std::uint64_t client : known->second) publication.receivers.emplace_back(client, nullptr);
  for (const auto& [pattern, subscribers] : names_[static_cast<std::size_t>(Kind::pattern)])
    if (matches(pattern, channel))
      for (const std::uint64_t client : subscribers) publication.receivers.emplace_back(client, &pattern);
  const std::size_t receivers = publication.receivers.size();
  if (receivers > 0) publications_.push_back(std::move(publication));
  return receivers;
}

std::vector<std::string> PubSub::channels(std::string_view pattern) const {
  std::vector<std::string> found;
  for (const auto& [name, subscribers] : names_[static_cast<std::size_t>(Kind::channel)])
    if (pattern == "*" || matches(pattern, name)) found.push_back(name);
  return found;
}

std::size_t PubSub::subscribers(std::string_view channel) const {
  const Subscribers& channels = names_[static_cast<std::size_t>(Kind::channel)];
  const auto known = channels.find(channel);
  return known == channels.end() ? 0 : known->second.size();
}

}  // namespace rdmc::kv
