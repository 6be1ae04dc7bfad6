// Lets messages arrive later, and in another order, than they do. A message of a rank never overtakes an
// earlier one of the same rank, so everything that happens can also happen without a Perturbation. By this,
// rdmc_run --check-determinism finds out whether the sends of a program depend on the order of arrival.
//
// A core without I/O and without a clock: its randomness is a function of the seed, and it counts turns that
// the driver takes. It stands between the driver and a Messenger without replicas. One thread uses it.
#pragma once

#include <cstdint>
#include <deque>
#include <random>
#include <span>
#include <vector>

#include "lib/replica/messenger.hpp"

namespace rdmc::replica {

class Perturbation {
 public:
  /// A message waits for at most this number of turns after the message before it.
  static constexpr std::uint32_t kMostTurns = 15;

  Perturbation(std::uint64_t seed, std::uint32_t processes) : random_(seed), delayed_(processes) {}

  /// Handles the records of a frame (Messenger::on_records), except for messages and announcements, which it
  /// keeps. Errors: those of Messenger::on_records.
  Result<void> on_records(Messenger& messenger, ProcessId from, std::span<const std::byte> records);
  /// A failure of the records of a process.
  struct Failed {
    ProcessId process{};
    Error cause;
  };
  /// Takes a turn: hands over the messages that have waited for long enough.
  std::vector<Failed> turn(Messenger& messenger);
  /// Hands over everything that has come from a process, which has ended.
  void release(Messenger& messenger, ProcessId from);
  /// True if turn() must be called.
  bool has_delayed() const { return count_ != 0; }
  /// Returns the requests in a random order. `indices` gets the former index of each.
  std::vector<RequestId> shuffled(std::span<const RequestId> requests, std::vector<std::size_t>& indices);

 private:
  struct Delayed {
    std::vector<std::byte> record;
    std::uint32_t turns = 0;
  };
  std::size_t draw(std::size_t below) { return random_() % below; }
  Result<void> hand_over_first(Messenger& messenger, ProcessId from);

  std::mt19937_64 random_;
  std::vector<std::deque<Delayed>> delayed_;  ///< of each process
  std::size_t count_ = 0;
};

}  // namespace rdmc::replica
