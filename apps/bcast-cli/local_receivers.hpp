// The receiver processes of --local N: the same executable, started by the sender, each with a loopback
// address and a directory of its own. The key of the transfer is made for it and passed through an inherited
// descriptor; the other inherited descriptor tells the sender where the receiver listens, and tells the
// receiver, by its end, that the sender is gone. None is left behind: the kernel ends them with the thread
// that started them (PR_SET_PDEATHSIG).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "apps/bcast-cli/file_io.hpp"
#include "controlplane/auth/cluster_key.hpp"
#include "dataplane/base/address.hpp"
#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::bcast {

/// Where a receiver finds what it inherits.
constexpr int kLinkDescriptor = 3;
constexpr int kKeyDescriptor = 4;

/// The loopback address of receiver `index` (< kMaxLocalReceivers), port 0: 127.0.1.1, 127.0.1.2, …
Address local_receiver_address(std::uint32_t index);

/// The sender's side. Made, used and destroyed by one thread, which outlives the receivers.
class LocalReceivers {
 public:
  struct Receiver {
    std::string directory;  ///< DEST/0, DEST/1, …
    Address address;        ///< where it listens
    pid_t pid = -1;         ///< -1: reaped
    FileDescriptor link;
    std::string cause;  ///< why it never listened; empty if it does
  };

  /// Starts `count` processes and waits until each listens or has failed. `program` is run with the arguments
  /// kLocalReceiverArgument, address and directory. `interrupt`: a descriptor that ends the wait when it is
  /// readable, or -1. Errors: cancelled (by `interrupt`; all are stopped), resource_limit (no process, no
  /// descriptor).
  static Result<LocalReceivers> start(std::uint32_t count, const std::string& destination,
                                      const control::ClusterKey& key, int interrupt = -1,
                                      Duration patience = seconds(10),
                                      const std::string& program = "/proc/self/exe");

  LocalReceivers(LocalReceivers&&) = default;
  LocalReceivers& operator=(LocalReceivers&&) = delete;
  ~LocalReceivers() { stop(); }

  const std::vector<Receiver>& receivers() const { return receivers_; }
  /// Tells all to give up at once, and does not wait: the sender is about to end, and nobody is to go on
  /// without it.
  void abandon() const;
  /// Tells all to end, waits up to `patience`, kills who is left, and reaps.
  void stop(Duration patience = seconds(3));

 private:
  LocalReceivers() = default;
  Result<void> launch(std::uint32_t index, const std::string& directory, int key, const std::string& program);
  Result<void> await_addresses(int interrupt, Duration patience);

  std::vector<Receiver> receivers_;
};

/// The receiver's side. Whether the sender wanted the receivers to give up, rather than to go on without it
/// if they can; known when it is gone.
bool is_abandoned(int link);
/// Says where it listens, or why it cannot. One line each; errors are the sender's death.
Result<void> report_address(int link, const Address& address);
Result<void> report_failure(int link, const Error& error);

}  // namespace rdmc::bcast
