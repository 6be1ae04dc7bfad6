// Endpoints of this process. Each has its own Context, so that it acts as a separate process. A Party records
// the upcalls of its endpoint. A wait ends when its condition is true. Only a failing test reaches the time
// limit.
#pragma once

#include <boost/test/unit_test.hpp>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "controlplane/peer/context.hpp"
#include "lib/include/rdmc/unicast.hpp"

namespace rdmc::testing {

inline constexpr Duration kPatience = seconds(30);
inline constexpr RemoteAccess kAllAccess = RemoteAccess::write | RemoteAccess::read | RemoteAccess::atomic;

/// How an application gets completions, and which thread runs the engine.
enum class Way : std::uint8_t { polls, upcalls, drives_and_polls, drives_with_upcalls };
inline constexpr std::array kWays{Way::polls, Way::upcalls, Way::drives_and_polls, Way::drives_with_upcalls};

class Party {
 public:
  explicit Party(EndpointOptions options, Way way = Way::polls) : way_(way) {
    options.insecure = options.key_file.empty() && options.certificates.authority.empty();
    if (options.name.empty()) options.name = "test";
    options.own_thread = way == Way::polls || way == Way::upcalls;
    options.context = context;
    EndpointCallbacks on;
    on.accept = [this](const PeerInfo& peer) { return when_asked ? when_asked(peer) : Result<void>(); };
    on.connected = [this](const Connection& connection) {
      if (when_connected) when_connected(connection);
      note([&] { connected_.push_back(connection); });
    };
    on.disconnected = [this](const Connection& connection, const Error& cause) {
      if (when_disconnected) when_disconnected();
      note([&] { disconnected_.emplace_back(connection.id(), cause); });
    };
    if (way == Way::upcalls || way == Way::drives_with_upcalls)
      on.completed = [this](std::span<const Completion> some) {
        if (when_completed) when_completed(some);
        note([&] { completed_.insert(completed_.end(), some.begin(), some.end()); });
      };
    auto made = Endpoint::create(options, on);
    if (made) endpoint_ = std::move(*made);
    const auto listening =
        made ? endpoint_->listen() : Result<void>(std::unexpected(std::move(made.error())));
    if (!listening) {
      error_ = listening.error();
      endpoint_.reset();
    }
  }

  explicit operator bool() const { return endpoint_ != nullptr; }
  const Error& error() const { return error_; }
  Endpoint& operator*() { return *endpoint_; }
  Endpoint* operator->() { return endpoint_.get(); }
  void destroy() { endpoint_.reset(); }
  Endpoint::Target place() { return {.host = "127.0.0.1", .port = endpoint_->address().port}; }

  /// Returns the next completion. If there is none within kPatience, the test fails.
  Completion next() {
    std::array<Completion, 1> one;
    if (way_ == Way::polls || way_ == Way::drives_and_polls) {
      BOOST_REQUIRE(endpoint_->poll(one, kPatience) == 1);
      return one[0];
    }
    BOOST_REQUIRE(wait_until([&] { return !completed_.empty(); }));
    const std::lock_guard lock(mutex_);
    one[0] = completed_.front();
    completed_.pop_front();
    return one[0];
  }
  std::vector<Completion> next(std::size_t count) {
    std::vector<Completion> all;
    while (all.size() < count) all.push_back(next());
    return all;
  }
  /// Returns the connection of the peer that has connected as number `index`, counted from 0.
  Connection connection(std::size_t index = 0) {
    BOOST_REQUIRE(wait_until([&] { return connected_.size() > index; }));
    const std::lock_guard lock(mutex_);
    return connected_[index];
  }
  /// Waits until the connection has ended, and returns the cause.
  Error end_of(const Connection& connection) {
    std::optional<Error> cause;
    BOOST_REQUIRE(wait_until([&] {
      for (const auto& [id, why] : disconnected_)
        if (id == connection.id()) cause = why;
      return cause.has_value();
    }));
    return *cause;
  }
  void wait_for_end() {
    BOOST_REQUIRE(wait_until([&] { return !disconnected_.empty(); }));
  }
  /// Returns the number of peers that have connected.
  std::size_t connections() {
    const std::lock_guard lock(mutex_);
    return connected_.size();
  }
  std::size_t disconnected() {
    const std::lock_guard lock(mutex_);
    return disconnected_.size();
  }

  // Functions that run in the upcalls. A test must set them before any peer connects.
  std::function<Result<void>(const PeerInfo&)> when_asked;
  std::function<void(const Connection&)> when_connected;
  std::function<void()> when_disconnected;
  std::function<void(std::span<const Completion>)> when_completed;
  /// The object has its own Context, because it acts as a process.
  const std::shared_ptr<Context> context = std::make_shared<Context>();

 private:
  template <typename Change>
  void note(Change change) {
    const std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }
  template <typename Condition>
  bool wait_until(Condition condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kPatience.ns);
    std::unique_lock lock(mutex_);
    if (way_ == Way::polls || way_ == Way::upcalls) return changed_.wait_until(lock, end, condition);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      lock.unlock();
      endpoint_->poll({}, milliseconds(10));
      lock.lock();
    }
    return true;
  }

  const Way way_;
  Error error_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Connection> connected_;
  std::vector<std::pair<ConnectionId, Error>> disconnected_;
  std::deque<Completion> completed_;
  // Declared last, so that it is destroyed first.
  std::unique_ptr<Endpoint> endpoint_;
};

/// Connects `dialer` to `other`. `other` must have its own thread. Returns the handles of both sides.
inline std::pair<Connection, Connection> connect(Party& dialer, Party& other, std::size_t index = 0) {
  auto made = dialer->connect(other.place(), kPatience);
  BOOST_REQUIRE_MESSAGE(made, made.error().what);
  return {*made, other.connection(index)};
}

inline std::vector<std::byte> bytes_of(const std::string& text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

inline bool is(const Completion& completion, WorkKind kind, std::uint64_t work_id,
               WorkStatus status = WorkStatus::success) {
  return completion.kind == kind && completion.work_id == work_id && completion.status == status;
}

template <typename T>
bool failed_with(const Result<T>& result, Errc code) {
  return !result && result.error().code == code && !result.error().what.empty();
}

}  // namespace rdmc::testing
