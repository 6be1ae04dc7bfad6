// The memory of two threads. As in real processors, each thread has a store buffer. A thread sees its own
// write at once. The other thread sees this write some time later. A fence waits until the other thread can
// see all earlier writes. A list of decisions selects the interleaving of a run. With such lists, a test can
// run all interleavings.
#pragma once

#include <array>
#include <cstddef>
#include <deque>
#include <functional>
#include <semaphore>
#include <thread>
#include <vector>

namespace rdmc::engine::testing {

class ReorderingMachine {
 public:
  static constexpr std::size_t kThreads = 2;
  using Program = std::function<void()>;

  /// Runs all interleavings of the programs that `make` returns. Calls `make` once for each interleaving, and
  /// `judge` once for each outcome. Returns the number of interleavings.
  static std::size_t explore(const std::function<std::array<Program, kThreads>()>& make,
                             const std::function<void()>& judge) {
    std::vector<Decision> decisions;
    std::size_t runs = 0;
    do {
      ReorderingMachine machine(decisions);
      machine.run(make());
      judge();
      ++runs;
      while (!decisions.empty() && decisions.back().taken + 1 == decisions.back().of) decisions.pop_back();
      if (!decisions.empty()) ++decisions.back().taken;
    } while (!decisions.empty());
    return runs;
  }

  // Each of these functions makes one memory access of the running thread.
  static void store(bool& cell, bool value) {
    Thread& self = wait_for_turn(Access::any);
    self.buffer.push_back({&cell, value});
  }
  static bool load(const bool& cell) {
    const Thread& self = wait_for_turn(Access::any);
    for (auto pending = self.buffer.rbegin(); pending != self.buffer.rend(); ++pending)
      if (pending->cell == &cell) return pending->value;
    return cell;
  }
  static void fence() { wait_for_turn(Access::fence); }

 private:
  enum class Access : std::uint8_t { none, any, fence };
  struct Pending {
    bool* cell;
    bool value;
  };
  struct Thread {
    std::deque<Pending> buffer;
    Access next = Access::none;  ///< The value is `none` if the thread has ended.
    std::binary_semaphore turn{0}, back{0};
  };
  struct Decision {
    std::size_t taken, of;
  };

  explicit ReorderingMachine(std::vector<Decision>& decisions) : decisions_(decisions) {}

  void run(const std::array<Program, kThreads>& programs) {
    std::array<std::thread, kThreads> threads;
    for (std::size_t i = 0; i < kThreads; ++i) {
      threads[i] = std::thread([this, i, &programs] {
        running_ = &threads_[i];
        programs[i]();
        running_->next = Access::none;
        running_->back.release();
      });
      threads_[i].back.acquire();
    }
    while (true) {
      std::vector<std::function<void()>> possible;
      for (Thread& thread : threads_) {
        if (thread.next == Access::any || (thread.next == Access::fence && thread.buffer.empty()))
          possible.emplace_back([&thread] {
            thread.turn.release();
            thread.back.acquire();
          });
        if (!thread.buffer.empty())
          possible.emplace_back([&thread] {
            *thread.buffer.front().cell = thread.buffer.front().value;
            thread.buffer.pop_front();
          });
      }
      if (possible.empty()) break;
      possible[decide(possible.size())]();
    }
    for (std::thread& thread : threads) thread.join();
  }

  std::size_t decide(std::size_t of) {
    if (depth_ == decisions_.size()) decisions_.push_back({0, of});
    return decisions_[depth_++].taken;
  }

  static Thread& wait_for_turn(Access access) {
    running_->next = access;
    running_->back.release();
    running_->turn.acquire();
    return *running_;
  }

  static inline thread_local Thread* running_ = nullptr;
  std::vector<Decision>& decisions_;
  std::size_t depth_ = 0;
  std::array<Thread, kThreads> threads_;
};

struct ReorderingMemory {
  class Flag {
   public:
    void set(bool value) { ReorderingMachine::store(value_, value); }
    bool get() const { return ReorderingMachine::load(value_); }

   private:
    bool value_ = false;
  };
  static void fence() { ReorderingMachine::fence(); }
};

}  // namespace rdmc::engine::testing
