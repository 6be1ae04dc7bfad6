// A digest over everything that happened in a run: two runs with the same digest did the same things at the
// same times. It is how a simulation proves that it is a function of its seed, and how a replay is known to
// be one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "dataplane/base/types.hpp"

struct XXH3_state_s;

namespace rdmc::sim {

/// Kinds of event in a trace. Scenarios number their own from `scenario` on.
enum class TraceKind : std::uint32_t {
  datagram_sent = 1,
  datagram_lost,  ///< by a fault, a partition or a full queue; digest: the Fault
  datagram_delivered,
  process_run,
  process_state,  ///< killed, paused, resumed; digest: the new state
  channel_sent,
  channel_delivered,
  channel_closed,
  transfer_left,     ///< of a fluid network; digest: its tag
  transfer_arrived,  ///< the same
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

  /// Of everything recorded until now. More may be recorded after.
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

/// 16 hexadecimal digits.
std::string hash_string(std::uint64_t hash);

/// XXH3-64 of `bytes`: what records carry of contents.
std::uint64_t digest(const void* bytes, std::size_t size);

}  // namespace rdmc::sim
