// Servers for tests of one server: one that is alone, and one of two, whose events are executed when the test
// says so.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "apps/replicated-kv/service/service.hpp"

namespace rdmc::kv::testing {

/// The same content everywhere, also the positions of keys.
inline Bytes content(Service& service) {
  Bytes bytes;
  service.save([&](std::vector<std::byte> piece) { bytes.insert(bytes.end(), piece.begin(), piece.end()); });
  return bytes;
}

/// One server that is alone.
class Alone {
 public:
  explicit Alone(Milliseconds now = 1'700'000'000'000)
      : now_(now), service({.seed = 7}), client_(&service.connect("test", now)) {}

  /// Sends requests, one on each line, and returns the replies.
  std::string operator()(std::string_view lines) { return (*this)(*client_, lines); }
  std::string operator()(Client& client, std::string_view lines) {
    const auto space = client.parser.space(lines.size() + 2);
    std::ranges::copy(lines, space.data());
    std::memcpy(space.data() + lines.size(), "\r\n", 2);
    client.parser.received(lines.size() + 2);
    service.execute(client, now_);
    service.end_turn(now_);
    return std::exchange(client.output, {});
  }
  Client& client() { return *client_; }
  Client& connect() { return service.connect("test", now_); }
  void pass(Milliseconds time) { now_ += time; }

 private:
  Milliseconds now_;

 public:
  Service service;

 private:
  Client* client_;
};

/// One server of two, whose events are executed when the test says so.
class Ordered final : public Order {
 public:
  Ordered() { take_part(1); }
  void take_part(std::uint64_t member) {
    service.begin(*this, member);
    service.on_status({.is_complete = true, .complete_replicas = 2, .stored_replicas = 2}, now);
  }
  Result<std::uint64_t> submit(std::span<const std::byte> event) override {
    if (is_full) return fail(Errc::would_block, "full");
    events.emplace_back(event.begin(), event.end());
    return events.size();
  }
  bool may_answer(std::uint64_t) const override { return false; }

  /// Executes all events that were submitted and not executed.
  void execute() {
    for (; executed < events.size(); ++executed)
      service.on_event({.position = executed,
                        .own_number = executed + 1,
                        .time = now * 1'000'000,
                        .bytes = events[executed]});
  }
  /// Sends requests, executes them, and returns the replies.
  std::string done(Client& client, std::string_view lines) {
    std::string replies = send(client, lines);
    execute();
    service.on_stable(executed);
    return replies + std::exchange(client.output, {});
  }
  std::string send(Client& client, std::string_view lines) {
    const auto space = client.parser.space(lines.size());
    std::ranges::copy(lines, space.data());
    client.parser.received(lines.size());
    service.execute(client, now);
    service.end_turn(now);
    return std::exchange(client.output, {});
  }

  Milliseconds now = 1'700'000'000'000;
  Service service{{.is_alone = false, .least_replicas = 2}};
  std::vector<Bytes> events;
  std::size_t executed = 0;
  bool is_full = false;
};

}  // namespace rdmc::kv::testing
