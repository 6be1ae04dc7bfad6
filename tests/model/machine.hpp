// Runs threads on a model of a processor, in all interleavings up to a number of preemptions (Musuvathi and
// Qadeer, "Iterative context bounding for systematic testing of multithreaded programs", PLDI 2007). The code
// under test is the product's own code, compiled with the Atomic of tests/model in place of std::atomic
// (dataplane/base/atomic.hpp).
//
// As in x86 processors, each thread has a store buffer (Sewell et al., "x86-TSO", CACM 2010). A thread sees
// its own stores at once. The other threads see a store when it leaves the buffer, and stores leave it in
// their order. A sequentially consistent store, a fence and a read-modify-write wait until the buffer of
// their thread is empty.
//
// The threads are fibers of one thread of the system. Between two accesses of a fiber to atomic variables, no
// other fiber runs. So a test cannot find data races between plain accesses; ThreadSanitizer finds those.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "tests/model/fiber.hpp"

namespace rdmc::model {

struct Options {
  /// The largest number of times that a run takes the processor from a thread that could continue.
  std::size_t preemptions = 3;
  /// True to plant a bug: a sequentially consistent store becomes a plain store, and a fence has no effect.
  /// With this bug, explore() ends after the first run that gets stuck.
  bool has_weak_stores = false;
};

struct Outcome {
  std::size_t runs = 0;
  /// The runs in which all threads that had not ended slept and no thread could wake them. Such a thread is
  /// then woken, so that the run ends.
  std::size_t stuck = 0;
};

class Machine {
 public:
  using Program = std::function<void()>;

  /// Calls `make` for each interleaving, runs the programs that it returns as threads, and calls `judge` when
  /// they have ended. The programs must do the same in each run, except for what they read from atomic
  /// variables. In `make` and `judge`, atomic variables are accessed directly.
  static Outcome explore(const Options& options, const std::function<std::vector<Program>()>& make,
                         const std::function<void()>& judge);

  /// The next functions are accesses of the running thread to the `bytes` of an atomic variable at `cell`.
  static void load(const void* cell, void* to, std::size_t bytes);
  static void store(void* cell, const void* from, std::size_t bytes, bool is_sequentially_consistent);
  /// Calls `change` when the store buffer is empty. No thread accesses memory meanwhile.
  static void modify(const std::function<void()>& change);
  static void fence();
  /// Sleeps if the word has this value, until it is woken. Time does not pass in the model: no sleep ends by
  /// itself.
  static void wait(const void* word, const void* value, std::size_t bytes);
  /// Wakes at most `most` threads that sleep on the word, in the order in which they began to sleep.
  static void wake(const void* word, std::size_t most);

 private:
  enum class State : std::uint8_t { none, ready, asleep, ended };
  struct Store {
    void* cell;
    std::array<std::byte, 8> value;
    std::size_t bytes;
  };
  struct Thread {
    State state = State::none;
    /// True if the next access needs an empty store buffer.
    bool needs_empty_buffer = false;
    std::deque<Store> buffer;
    const void* word = nullptr;   ///< The word on which the thread sleeps.
    std::size_t slept_since = 0;  ///< Grows with each sleep of any thread.
    Program program;
    std::unique_ptr<Fiber> fiber;
  };
  struct Decision {
    std::size_t taken, of;
  };

  explicit Machine(const Options& options) : options_(options) {}

  void run(std::vector<Program> programs);
  bool next_run();
  static void access(bool needs_empty_buffer);
  void pass_on(Thread* self);
  void switch_to(Thread* from, Thread* to);
  Thread* choose_next(Thread* self);
  std::size_t decide(std::size_t of);

  static Machine* machine_;
  static Thread* self_;

  const Options options_;
  std::vector<std::unique_ptr<Thread>> threads_;
  Fiber::Caller caller_;
  std::vector<Decision> decisions_;
  std::size_t depth_ = 0, preemptions_left_ = 0, sleeps_ = 0, steps_ = 0;
  bool is_stuck_ = false;
};

}  // namespace rdmc::model
