// Wakes a thread of another process that has nothing to do. One word for each fabric, in a page that its
// peers may write: a sleeper says in it how it sleeps, whoever has something for it takes the word back and
// wakes it. Both sides run: nobody makes a system call.
//
// No wake-up is lost: the sleeper announces itself before its last look at what peers may have published, a
// peer publishes before it looks at the word, and all four are in one order (seq_cst). What a peer that lies
// can do with the word is to wake for nothing or to keep a wake-up of another from coming; a sleep is
// bounded, so that it costs time and nothing else.
#pragma once

#include <atomic>
#include <cstdint>

#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"
#include "dataplane/memory/shared_pages.hpp"

namespace rdmc::fabric::shm {

enum class Sleep : std::uint32_t {
  awake,
  on_futex,   ///< on the word
  elsewhere,  ///< in the kernel, but not on the word: a message on the connection wakes it
};

class Doorbell {
 public:
  static constexpr std::size_t kBytes = 4096;
  /// The longest sleep without looking: what a peer costs the others that took a wake-up away and was stopped
  /// or killed before it gave it, or lies.
  static constexpr Duration kLongestSleep = milliseconds(100);

  /// Of this process's own fabric. Errors: those of SharedPages::make.
  static Result<Doorbell> make();
  /// A peer's. Errors: those of SharedPages::attach.
  static Result<Doorbell> attach(Descriptor descriptor);

  const Descriptor& descriptor() const { return pages_.descriptor(); }

  // The sleeper's side.
  void announce(Sleep how) { word().store(static_cast<std::uint32_t>(how), std::memory_order_seq_cst); }
  /// After announce(on_futex) and a last look: until somebody rings, or `deadline`.
  void sleep(Time deadline, Time now);
  void awake() { announce(Sleep::awake); }
  /// Ends a sleep() of this process's own, or one about to begin, whoever has taken the word back before. Any
  /// thread.
  void wake() noexcept;

  // The other's, after it has published something.
  bool is_asleep() { return word().load(std::memory_order_seq_cst) != 0; }
  /// Wakes a sleeper on the futex, and says how it slept: one that sleeps elsewhere is left to the caller.
  Sleep ring() noexcept;

 private:
  explicit Doorbell(memory::SharedPages pages) : pages_(std::move(pages)) {}
  std::atomic<std::uint32_t>& word() const {
    return *reinterpret_cast<std::atomic<std::uint32_t>*>(pages_.bytes().data());
  }

  memory::SharedPages pages_;
};

}  // namespace rdmc::fabric::shm
