#include "apps/replicated-kv/data/watches.hpp"

#include "apps/replicated-kv/data/saved.hpp"

namespace rdmc::kv {

void Watches::watch(const ClientId& client, std::uint32_t database, std::string_view key) {
  Key watched{database, std::string(key)};
  watchers_[watched].insert(client);
  Client& known = clients_[client];
  if (known.keys.insert(std::move(watched)).second) known.bytes += bytes_of_key(key);
}

std::size_t Watches::bytes_of(const ClientId& client) const {
  const auto known = clients_.find(client);
  return known == clients_.end() ? 0 : known->second.bytes;
}

void Watches::unwatch(const ClientId& client) {
  const auto known = clients_.find(client);
  if (known == clients_.end()) return;
  for (const Key& key : known->second.keys) {
    const auto watchers = watchers_.find(key);
    watchers->second.erase(client);
    if (watchers->second.empty()) watchers_.erase(watchers);
  }
  clients_.erase(known);
}

void Watches::forget_server(std::uint64_t server) {
  for (;;) {
    const auto next = clients_.lower_bound({server, 0});
    if (next == clients_.end() || next->first.server != server) return;
    unwatch(ClientId(next->first));
  }
}

const std::set<Watches::Key>& Watches::keys_of(const ClientId& client) const {
  static const std::set<Key> kNone;
  const auto known = clients_.find(client);
  return known == clients_.end() ? kNone : known->second.keys;
}

bool Watches::has_changed(const ClientId& client) const {
  const auto known = clients_.find(client);
  return known != clients_.end() && known->second.has_changed;
}

void Watches::changed(std::uint32_t database, std::string_view key) {
  const auto watchers = watchers_.find(Key{database, std::string(key)});
  if (watchers == watchers_.end()) return;
  for (const ClientId& client : watchers->second) clients_[client].has_changed = true;
}

std::vector<std::string> Watches::keys_in(std::uint32_t database) const {
  std::vector<std::string> keys;
  for (auto at = watchers_.lower_bound(Key{database, {}});
       at != watchers_.end() && at->first.database == database; ++at)
    keys.push_back(at->first.name);
  return keys;
}

std::set<std::uint64_t> Watches::servers() const {
  std::set<std::uint64_t> servers;
  for (const auto& [client, watched] : clients_) servers.insert(client.server);
  return servers;
}

void Watches::save(std::vector<std::byte>& out) const {
  put_varint(out, clients_.size());
  for (const auto& [id, client] : clients_) {
    put_varint(out, id.server);
    put_varint(out, id.number);
    put_varint(out, client.has_changed);
    put_varint(out, client.keys.size());
    for (const Key& key : client.keys) {
      put_varint(out, key.database);
      put_bytes(out, key.name);
    }
  }
}

void Watches::load(VarintReader& in) {
  for (auto clients = in.count(); clients > 0 && in.is_good(); --clients) {
    ClientId id;
    id.server = in.number();
    id.number = in.number();
    const bool has_changed = in.number(1) != 0;
    for (auto keys = in.count(); keys > 0 && in.is_good(); --keys) {
      const auto database = in.number<std::uint32_t>(UINT32_MAX);
      watch(id, database, take_text(in));
    }
    if (const auto client = clients_.find(id); client != clients_.end())
      client->second.has_changed = has_changed;
  }
}

}  // namespace rdmc::kv
