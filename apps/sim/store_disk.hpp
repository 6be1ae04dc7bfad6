// The disk of a simulated store node: the journal as the operating system shows it, the journal as it would
// be after a loss of power, and the write that is in progress.
#pragma once

#include <optional>

#include "controlplane/store/caspaxos/journal.hpp"
#include "dataplane/base/random.hpp"

namespace rdmc::sim_app {

class SimDisk {
 public:
  enum class Outcome : std::uint8_t { kept, lost, torn };

  /// Begins the write of a frame of the journal, or of a new journal. Only one write may be in progress.
  void begin(const store::Acceptor::Write& write, store::Journal& journal);
  bool is_writing() const { return writing_.has_value(); }
  /// Makes the write in progress durable.
  void finish();
  /// Makes the device refuse the write. The written bytes may be visible, and may be lost after a loss of
  /// power.
  void refuse();
  /// Makes the disk full, so that only a random part of the write is visible.
  void run_full(Random& random);

  /// Ends the process, perhaps in the middle of a write. The operating system keeps the bytes that it has
  /// received.
  void kill_process();
  /// Simulates a loss of power. The bytes that are not durable are lost completely or in part.
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
