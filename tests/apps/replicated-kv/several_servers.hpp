// Servers of a service for tests that decide which event comes next in the order. Their clock stands still.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/replicated-kv/service/service.hpp"

namespace rdmc::kv::testing {

inline constexpr Milliseconds kNow = 1'700'000'000'000;

/// Gives the requests of one line each to a client. Returns what it gets at once.
inline std::string send(Service& service, Client& client, std::string_view lines) {
  const auto space = client.parser.space(lines.size() + 2);
  std::ranges::copy(lines, space.data());
  std::memcpy(space.data() + lines.size(), "\r\n", 2);
  client.parser.received(lines.size() + 2);
  service.execute(client, kNow);
  service.end_turn(kNow);
  return std::exchange(client.output, {});
}

/// Ends the connections that the service wants to end, as the sockets do.
inline void end_lost(Service& service) {
  for (const std::uint64_t number : service.take_changed())
    if (Client* const client = service.find(number);
        client != nullptr && client->is_closing && (client->is_lost || client->answers.empty()))
      service.disconnect(*client);
}

class OneOfSeveral final : public Order {
 public:
  explicit OneOfSeveral(std::uint64_t id) {
    service.begin(*this, id);
    service.on_status({.is_complete = true, .complete_replicas = 3, .stored_replicas = 3}, kNow);
  }
  Result<std::uint64_t> submit(std::span<const std::byte> event) override {
    unordered.emplace_back(event.begin(), event.end());
    return ++submitted;
  }
  bool may_answer(std::uint64_t) const override { return false; }

  Service service{{.is_alone = false, .least_replicas = 2}};
  std::deque<Bytes> unordered;
  std::uint64_t submitted = 0, ordered = 0;
};

/// Servers with an order that a test decides.
class Several {
 public:
  explicit Several(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) all.push_back(std::make_unique<OneOfSeveral>(i + 1));
  }
  Service& at(std::size_t server) { return all[server]->service; }
  /// Takes the oldest event of a server into the order. Returns false if there is none.
  bool order_one(std::size_t server) {
    OneOfSeveral& from = *all[server];
    if (from.unordered.empty()) return false;
    const Bytes bytes = std::move(from.unordered.front());
    from.unordered.pop_front();
    ++from.ordered;
    for (const auto& one : all)
      one->service.on_event({.position = position,
                             .own_number = one.get() == &from ? from.ordered : 0,
                             .time = kNow * 1'000'000,
                             .random = position,
                             .bytes = bytes});
    ++position;
    for (const auto& one : all) {
      one->service.on_stable(position);
      one->service.end_turn(kNow);
      end_lost(one->service);
    }
    return true;
  }
  void order_all() {
    for (bool is_done = false; !is_done;) {
      is_done = true;
      for (std::size_t i = 0; i < all.size(); ++i) is_done = !order_one(i) && is_done;
    }
  }
  /// Sends, orders everything, and returns the replies.
  std::string done(std::size_t server, Client& client, std::string_view lines) {
    std::string replies = send(at(server), client, lines);
    order_all();
    return replies + std::exchange(client.output, {});
  }

  std::vector<std::unique_ptr<OneOfSeveral>> all;
  std::uint64_t position = 0;
};

inline Bytes content_of(Service& service) {
  Bytes bytes;
  service.save([&](std::vector<std::byte> piece) { bytes.insert(bytes.end(), piece.begin(), piece.end()); });
  return bytes;
}

}  // namespace rdmc::kv::testing
