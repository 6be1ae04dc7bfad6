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

/// Gives bytes of a client to a server, for one turn, and returns the replies.
inline std::string send(Service& service, Client& client, std::string_view bytes, Moment now) {
  const auto space = client.parser.space(bytes.size());
  std::ranges::copy(bytes, space.data());
  client.parser.received(bytes.size());
  service.execute(client, now);
  service.end_turn(now);
  return std::exchange(client.output, {});
}

/// Gives the state of another server to a server. Returns true if the server accepts it.
inline bool load(Service& service, const Bytes& state, std::uint64_t position = 1) {
  return service.on_load({.step = LoadState::Step::begin}) &&
         service.on_load({.step = LoadState::Step::bytes, .bytes = state}) &&
         service.on_load({.step = LoadState::Step::end, .position = position, .epoch = 1});
}

/// One server that is alone.
class Alone {
 public:
  explicit Alone(Milliseconds now = 1'700'000'000'000)
      : now_(now), service({.seed = 7}), client_(&service.connect("test", now)) {}

  /// Sends requests, one on each line, and returns the replies.
  std::string operator()(std::string_view lines) { return (*this)(*client_, lines); }
  std::string operator()(Client& client, std::string_view lines) {
    return testing::send(service, client, std::string(lines) + "\r\n", now_);
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
    return testing::send(service, client, lines, now);
  }

  Milliseconds now = 1'700'000'000'000;
  Service service{{.is_alone = false, .least_replicas = 2, .servers = 3}};
  std::vector<Bytes> events;
  std::size_t executed = 0;
  bool is_full = false;
};

}  // namespace rdmc::kv::testing
