// Wakes a fabric thread of another process that sleeps. Each fabric has one word, in a page that its peers
// may write. A sleeping thread writes there how it sleeps. A peer that has published something for it resets
// the word and wakes it. No system call is made while both sides run.
//
// No wake-up is lost: the sleeper writes the word before its last look at what peers may have published, a
// peer publishes before it reads the word, and these four accesses are sequentially consistent (seq_cst). A
// hostile peer can use the word to cause needless wake-ups or to suppress the wake-up of another peer. Every
// sleep is bounded, so this costs time and nothing else.
#pragma once

#include <atomic>
#include <cstdint>

#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"
#include "dataplane/memory/shared_pages.hpp"

namespace rdmc::fabric::shm {

enum class Sleep : std::uint32_t {
  awake,
  on_futex,   ///< Asleep on the word.
  elsewhere,  ///< Asleep in the kernel, but not on the word. A message on the socket wakes it.
};

class Doorbell {
 public:
  static constexpr std::size_t kBytes = 4096;
  /// The longest sleep without a look. A peer can suppress the wake-ups of other peers for this long, if it
  /// is hostile, or if it is stopped or killed after it has reset the word and before it wakes the sleeper.
  static constexpr Duration kLongestSleep = milliseconds(100);

  /// For this process's own fabric. Errors: those of SharedPages::make.
  static Result<Doorbell> make();
  /// For a peer's fabric. Errors: those of SharedPages::attach.
  static Result<Doorbell> attach(Descriptor descriptor);

  const Descriptor& descriptor() const { return pages_.descriptor(); }

  // For the sleeper.
  void announce(Sleep how) { word().store(static_cast<std::uint32_t>(how), std::memory_order_seq_cst); }
  /// Sleeps until a peer rings or `deadline` is reached. Must be called after announce(on_futex) and a last
  /// look.
  void sleep(Time deadline, Time now);
  void awake() { announce(Sleep::awake); }
  /// Ends this process's own sleep(), or one that is about to begin, even if a peer has already reset the
  /// word. Any thread.
  void wake() noexcept;

  // For a peer, after it has published something.
  bool is_asleep() { return word().load(std::memory_order_seq_cst) != 0; }
  /// Wakes a sleeper on the futex. Returns how it slept. If it sleeps elsewhere, the caller must wake it.
  Sleep ring() noexcept;

 private:
  explicit Doorbell(memory::SharedPages pages) : pages_(std::move(pages)) {}
  std::atomic<std::uint32_t>& word() const {
    return *reinterpret_cast<std::atomic<std::uint32_t>*>(pages_.bytes().data());
  }

  memory::SharedPages pages_;
};

}  // namespace rdmc::fabric::shm
