// The trace of a run and its hash. Two runs with the same hash did the same things at the same times. The
// hash shows that a simulation is a function of its seed, and that a replay repeats a run.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "dataplane/base/types.hpp"

struct XXH3_state_s;

namespace rdmc::sim {

/// The kinds of trace events. A scenario numbers its own kinds from `scenario` on.
enum class TraceKind : std::uint32_t {
  datagram_sent = 1,
  datagram_lost,  ///< a fault, a partition or a full queue was the cause; the digest is the Fault
  datagram_delivered,
  process_run,
  process_state,  ///< killed, paused or resumed; the digest is the new state
  channel_sent,
  channel_delivered,
  channel_closed,
  transfer_left,     ///< on a fluid network; the digest is the tag
  transfer_arrived,  ///< on a fluid network; the digest is the tag
  scenario = 1000,
};

class Trace {
 public:
  Trace();
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  void record(Time at, TraceKind kind, std::uint32_t from, std::uint32_t to, std::uint64_t digest) {
    if (used_ == events_.size()) flush();
    events_[used_++] = Event{at.ns, static_cast<std::uint32_t>(kind), from, to, 0, digest};
    ++count_;
  }

  /// The hash over all events recorded so far. More events may be recorded afterwards.
  std::uint64_t hash();
  std::uint64_t count() const { return count_; }

 private:
  struct Event {
    std::int64_t at;
    std::uint32_t kind, from, to, zero;
    std::uint64_t digest;
  };
  static_assert(sizeof(Event) == 32, "no padding: the bytes are hashed");
  struct StateDeleter {
    void operator()(XXH3_state_s* state) const;
  };

  void flush();

  std::array<Event, 128> events_;
  std::size_t used_ = 0;
  std::uint64_t count_ = 0;
  std::unique_ptr<XXH3_state_s, StateDeleter> state_;
};

/// The hash as 16 hexadecimal digits.
std::string hash_string(std::uint64_t hash);

/// The XXH3-64 hash of `bytes`. Trace events contain it in place of the contents.
std::uint64_t digest(const void* bytes, std::size_t size);

}  // namespace rdmc::sim
