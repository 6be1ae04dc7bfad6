// The ranks of a program in one thread: each rank is a fiber, and its Exchange is simulated. The order in
// which the ranks run and the messages are delivered follows from a seed. So a test can repeat an operation
// with other delays. With costs, the simulation has a virtual time instead: each rank sends one message at a
// time and receives one message at a time, in the order in which it has begun them.
//
// The simulation checks the rules of Exchange: the memory of a send does not change while it is in flight,
// messages have the expected lengths and tags, and no request is left.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dataplane/base/random.hpp"
#include "lib/replica/exchange.hpp"
#include "tests/model/fiber.hpp"

namespace rdmc::replica {

class SimulatedRanks {
 public:
  struct Failure {
    std::uint64_t operation = 0;  ///< The number of the send or receive that fails, from 0.
    bool at_begin = false;        ///< Otherwise finish() returns the error.
  };
  struct Options {
    std::uint64_t seed = 1;
    std::optional<Failure> failure{};
    /// The time that a message of this length takes. If it is set, the simulation has a virtual time.
    std::function<std::uint64_t(std::size_t)> cost{};
  };
  struct Counters {
    std::uint64_t operations = 0;    ///< sends and receives that have begun
    std::uint64_t messages = 0;      ///< messages of all ranks
    std::uint64_t most_sent = 0;     ///< bytes that one rank has sent
    std::size_t most_in_flight = 0;  ///< requests of one rank
    std::uint64_t time = 0;          ///< when the last rank has returned
  };
  using Body = std::function<Result<void>(Exchange&)>;

  SimulatedRanks(int size, Options options);
  ~SimulatedRanks();
  SimulatedRanks(const SimulatedRanks&) = delete;
  SimulatedRanks& operator=(const SimulatedRanks&) = delete;

  /// Calls `body` once at each rank, and returns the results. May be called once.
  std::vector<Result<void>> run(const Body& body);
  /// The first rule that was broken, or an empty string.
  const std::string& broken_rule() const { return broken_; }
  const Counters& counters() const { return counters_; }

 private:
  struct Rank;
  struct Request {
    int rank = 0, peer = 0, tag = 0;
    bool is_send = false, is_complete = false, is_awaited = false, is_matched = false;
    std::span<std::byte> memory{};
    std::vector<std::byte> sent{};  ///< the bytes of a send when it began
    std::optional<Error> error{};
    std::uint64_t time = 0;  ///< when it was posted, and then when it was complete
  };
  struct Message {
    std::vector<std::byte> bytes;
    int tag = 0;
    std::optional<std::uint64_t> send{};  ///< the request that waits until the message is delivered
    std::uint64_t arrival = 0;
  };
  /// What waits to be matched, from one rank to another one.
  struct Pair {
    std::deque<Message> messages;
    std::deque<std::uint64_t> receives;
  };
  struct Delivery {
    Message message;
    std::uint64_t receive = 0;
    bool is_ready = true;
  };

  Result<std::uint64_t> begin(Rank& rank, Request request);
  void add_message(std::uint64_t number);
  Result<void> finish(Rank& rank, std::span<const std::uint64_t> numbers);
  void match(int from, int to);
  void deliver(Delivery delivery);
  void deliver_in_order(int to);
  void complete(std::uint64_t number, std::optional<Error> error);
  void fail_rank(int rank, const Error& cause = {Errc::cancelled, "this rank has failed"});
  void turn(std::vector<int>& runnable);
  void wait_until_awaited_are_complete(Rank& rank);
  void check(bool holds, const char* rule) {
    if (!holds && broken_.empty()) broken_ = rule;
  }
  Pair& pair(int from, int to) { return pairs_[{from, to}]; }

  Options options_;
  Random random_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::map<std::pair<int, int>, Pair> pairs_;
  std::map<std::uint64_t, Request> requests_;
  std::vector<Delivery> deliveries_;
  std::uint64_t next_request_ = 0;  // 0 is a valid number.
  Counters counters_;
  std::string broken_;
  model::Fiber::Caller caller_;
};

}  // namespace rdmc::replica
