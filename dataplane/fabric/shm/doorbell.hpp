// Wakes a sleeping fabric thread of another process. Each fabric has one word, in a page that its peers may
// write. A sleeping thread writes into this word how it sleeps. A peer that has published something for this
// thread resets the word and wakes the thread. No system call is made while both sides run.
//
// No wake-up is lost. The sleeper writes the word, and then checks once more for what peers may have
// published. A peer publishes first, and then reads the word. These four accesses are sequentially consistent
// (seq_cst), and tests/model runs them in all interleavings. A hostile peer can use the word to cause
// needless wake-ups or to suppress the wake-up by another peer. The length of each sleep is limited, so a
// hostile peer costs only time.
#pragma once

#include <cstdint>

#include "dataplane/base/atomic.hpp"
#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"
#include "dataplane/memory/shared_pages.hpp"

namespace rdmc::fabric::shm {

enum class Sleep : std::uint32_t {
  awake,
  on_futex,   ///< Asleep on the futex of the word.
  elsewhere,  ///< Asleep in the kernel, but not on the word. A message on the socket wakes the sleeper.
};

class Doorbell {
 public:
  static constexpr std::size_t kBytes = 4096;
  /// The longest sleep without a check for work. A hostile peer can suppress the wake-ups by other peers for
  /// this time. A peer that is stopped or killed after it has reset the word, but before it wakes the
  /// sleeper, has the same effect.
  static constexpr Duration kLongestSleep = milliseconds(100);

  /// Makes the doorbell of this process's own fabric. Errors: those of SharedPages::make.
  static Result<Doorbell> make();
  /// Maps the doorbell of a peer's fabric. Errors: those of SharedPages::attach.
  static Result<Doorbell> attach(Descriptor descriptor);

  const Descriptor& descriptor() const { return pages_.descriptor(); }

  // The functions for the sleeper:
  void announce(Sleep how) { word().store(static_cast<std::uint32_t>(how), std::memory_order_seq_cst); }
  /// Sleeps until a peer rings, until `deadline`, or for kLongestSleep. May return earlier. The caller must
  /// first call announce(on_futex) and then check once more for work.
  void sleep(Time deadline, Time now);
  void awake() { announce(Sleep::awake); }
  /// Ends the sleep() of this process that is in progress or about to begin, even if a peer has already reset
  /// the word. May be called on any thread.
  void wake() noexcept;

  // The functions for a peer that has published something:
  bool is_asleep() { return word().load(std::memory_order_seq_cst) != 0; }
  /// Resets the word, and wakes the sleeper if it sleeps on the futex. Returns how the sleeper slept. If the
  /// sleeper sleeps elsewhere, the caller must wake it by a message on the socket.
  Sleep ring() noexcept;

 private:
  explicit Doorbell(memory::SharedPages pages) : pages_(std::move(pages)) {}
  Atomic<std::uint32_t>& word() const {
    return *reinterpret_cast<Atomic<std::uint32_t>*>(pages_.bytes().data());
  }

  memory::SharedPages pages_;
};

}  // namespace rdmc::fabric::shm
