// The disk of a simulated node: what the operating system shows of its journal, what the device would show
// after a loss of power, and a write that is under way between the two.
#pragma once

#include <optional>

#include "controlplane/store/caspaxos/journal.hpp"
#include "dataplane/base/random.hpp"

namespace rdmc::sim_app {

class SimDisk {
 public:
  enum class Outcome : std::uint8_t { kept, lost, torn };

  /// A frame of the journal, or a new journal; one at a time.
  void begin(const store::Acceptor::Write& write, store::Journal& journal);
  bool is_writing() const { return writing_.has_value(); }
  /// The write is durable.
  void finish();
  /// The device has refused: what was written may be seen, and may be gone after a loss of power.
  void refuse();
  /// There was no room: a part of it was written.
  void run_full(Random& random);

  /// The process ends, also in the middle of a write: the operating system has what it was given.
  void kill_process();
  /// What is not durable is lost, or in part.
  Outcome lose_power(Random& random);
  void wipe() {
    writing_.reset();
    seen_ = durable_ = std::nullopt;
  }

  const std::optional<store::Bytes>& seen() const { return seen_; }
  const std::optional<store::Bytes>& durable() const { return durable_; }

 private:
  std::optional<store::Bytes> seen_, durable_;
  struct Writing {
    store::Bytes bytes;
    bool whole = false;
  };
  std::optional<Writing> writing_;
};

}  // namespace rdmc::sim_app
