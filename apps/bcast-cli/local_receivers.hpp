// The receiver processes of --local N. The sender starts its own executable N times, each time with another
// loopback address and another directory. A new key is made for the transfer, and the receivers read it from
// an inherited descriptor. A second inherited descriptor is the link to the sender. On the link, the receiver
// reports its address. When the link ends, the receiver knows that the sender has ended. The kernel also
// sends SIGTERM to the receivers when the thread that started them ends (PR_SET_PDEATHSIG). The receivers
// then finish the transfer without the sender if they can, and end.
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

/// The numbers of the descriptors that a receiver inherits.
constexpr int kLinkDescriptor = 3;
constexpr int kKeyDescriptor = 4;

/// Returns the loopback address of receiver `index`, with port 0: 127.0.1.1, 127.0.1.2, and so on. `index`
/// must be less than kMaxLocalReceivers.
Address local_receiver_address(std::uint32_t index);

/// The sender's side. It must be made, used and destroyed by one thread, which must outlive the receivers.
class LocalReceivers {
 public:
  struct Receiver {
    std::string directory;  ///< the receiver's directory: DEST/0, DEST/1, …
    Address address;        ///< the address at which the receiver listens
    pid_t pid = -1;         ///< -1 if the process has been reaped
    Descriptor link;
    std::string cause;  ///< the reason why the receiver does not listen; empty if it listens
  };

  /// Starts `count` processes and waits until each one listens or has failed. `program` is run with the
  /// arguments kLocalReceiverArgument, address and directory. The wait ends if the descriptor `interrupt`
  /// becomes readable. If `interrupt` is -1, there is no such descriptor. Errors: cancelled if `interrupt`
  /// ended the wait (all receivers are stopped), resource_limit if no process can be started or no descriptor
  /// is left.
  static Result<LocalReceivers> start(std::uint32_t count, const std::string& destination,
                                      const control::ClusterKey& key, int interrupt = -1,
                                      Duration patience = seconds(10),
                                      const std::string& program = "/proc/self/exe");

  LocalReceivers(LocalReceivers&&) = default;
  LocalReceivers& operator=(LocalReceivers&&) = delete;
  ~LocalReceivers() { stop(); }

  const std::vector<Receiver>& receivers() const { return receivers_; }
  /// Requests that all receivers give up at once, and does not wait for them. Used when the sender is about
  /// to end and the receivers must not continue without it.
  void abandon() const;
  /// Requests that all receivers end, waits up to `patience`, kills the remaining receivers, and reaps all.
  void stop(Duration patience = seconds(3));

 private:
  LocalReceivers() = default;
  Result<void> launch(std::uint32_t index, const std::string& directory, int key, const std::string& program);
  Result<void> await_addresses(int interrupt, Duration patience);

  std::vector<Receiver> receivers_;
};

/// Called by a receiver. Returns true if the sender has requested that its receivers give up. Otherwise the
/// receivers continue without the sender if they can. The result is final when the sender is gone.
bool is_abandoned(int link);
/// Reports the address at which the receiver listens, or the reason why it cannot listen, as one line. Fails
/// if the sender is dead.
Result<void> report_address(int link, const Address& address);
Result<void> report_failure(int link, const Error& error);

}  // namespace rdmc::bcast
