#include "apps/replicated-kv/data/waiters.hpp"

#include <algorithm>

#include "apps/replicated-kv/data/saved.hpp"

namespace rdmc::kv {

std::size_t Waiter::bytes_of(std::span<const std::string_view> words,
                             std::span<const std::string_view> keys) {
  constexpr std::size_t kWordBytes = 40, kKeyBytes = 250;
  std::size_t bytes = sizeof(Waiter) + words.size() * kWordBytes + keys.size() * kKeyBytes;
  for (const std::string_view word : words) bytes += word.size();
  for (const std::string_view key : keys) bytes += 2 * key.size();
  return bytes;
}

void Waiters::add(Waiter waiter) {
  forget(waiter.client);
  const std::uint64_t number = next_++;
  for (const std::string& key : waiter.keys) keys_[{waiter.database, key}].insert(number);
  clients_.emplace(waiter.client, number);
  waiters_.emplace(number, std::move(waiter));
}

bool Waiters::forget(const ClientId& client) {
  const auto known = clients_.find(client);
  if (known == clients_.end()) return false;
  const auto waiter = waiters_.find(known->second);
  for (const std::string& key : waiter->second.keys) {
    const auto numbers = keys_.find({waiter->second.database, key});
    if (numbers == keys_.end()) continue;  // The command has named the key twice.
    numbers->second.erase(waiter->first);
    if (numbers->second.empty()) keys_.erase(numbers);
  }
  waiters_.erase(waiter);
  clients_.erase(known);
  return true;
}

void Waiters::forget_server(std::uint64_t server) {
  for (;;) {
    const auto next = clients_.lower_bound({server, 0});
    if (next == clients_.end() || next->first.server != server) return;
    forget(ClientId(next->first));
  }
}

std::set<std::uint64_t> Waiters::servers() const {
  std::set<std::uint64_t> servers;
  for (const auto& [client, number] : clients_) servers.insert(client.server);
  return servers;
}

void Waiters::changed(std::uint32_t database, std::string_view key) {
  Key changed{database, std::string(key)};
  if (keys_.contains(changed) && std::ranges::find(ready_, changed) == ready_.end())
    ready_.push_back(std::move(changed));
}

void Waiters::all_changed(std::uint32_t database) {
  for (auto at = keys_.lower_bound({database, {}}); at != keys_.end() && at->first.database == database; ++at)
    changed(database, at->first.name);
}

std::optional<Waiters::Key> Waiters::take_ready() {
  if (ready_.empty()) return std::nullopt;
  Key key = std::move(ready_.front());
  ready_.pop_front();
  return key;
}

std::vector<std::uint64_t> Waiters::waiting_for(const Key& key) const {
  const auto known = keys_.find(key);
  if (known == keys_.end()) return {};
  return {known->second.begin(), known->second.end()};
}

const Waiter* Waiters::find(std::uint64_t number) const {
  const auto known = waiters_.find(number);
  return known == waiters_.end() ? nullptr : &known->second;
}

void Waiters::save(std::vector<std::byte>& out) const {
  put_varint(out, waiters_.size());
  for (const auto& [number, waiter] : waiters_) {
    put_varint(out, waiter.client.server);
    put_varint(out, waiter.client.number);
    put_varint(out, waiter.user);
    put_varint(out, waiter.database);
    put_varint(out, waiter.is_resp3);
    for (const auto* const texts : {&waiter.words, &waiter.keys}) {
      put_varint(out, texts->size());
      for (const std::string& text : *texts) put_bytes(out, text);
    }
  }
}

void Waiters::load(VarintReader& in) {
  for (auto count = in.count(); count > 0 && in.is_good(); --count) {
    Waiter waiter;
    waiter.client.server = in.number();
    waiter.client.number = in.number();
    waiter.user = in.number();
    waiter.database = in.number<std::uint32_t>(Watches::kMostDatabase);
    waiter.is_resp3 = in.number(1) != 0;
    for (auto* const texts : {&waiter.words, &waiter.keys})
      for (auto size = in.count(); size > 0 && in.is_good(); --size) texts->emplace_back(take_text(in));
    if (clients_.contains(waiter.client) || waiter.words.empty()) in.fail();
    if (in.is_good()) add(std::move(waiter));
  }
}

}  // namespace rdmc::kv
