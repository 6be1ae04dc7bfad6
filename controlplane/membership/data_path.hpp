// The part of a membership on the data path. It runs on the fabric thread. It has a queue pair to each
// process that this process is connected to, sends small messages over these queue pairs, and has the
// membership window. Another member may write into the window while that member and this process are in the
// same epoch. This part knows no views: the owner decides which queue pairs are made and destroyed, and when
// the key of the window is revoked. All functions must be called on one thread, the control loop. Unless a
// comment says otherwise, a function returns after the fabric thread has done the work.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "controlplane/peer/context.hpp"
#include "dataplane/base/address.hpp"
#include "dataplane/fabric/queue_pair.hpp"

namespace rdmc::membership {

enum class LinkId : std::uint64_t {};
using Bytes = std::vector<std::byte>;

/// The address and the key with which a process can write into the membership window of another process.
struct WindowKey {
  std::uint64_t address = 0;
  RemoteKey key{};
};

struct DataPathOptions {
  std::string fabric = "auto";  ///< The fabric, as open_fabric() takes it.
  std::string device = {};      ///< The device, for fabrics that need one (dpdk).
  Address address;              ///< The address of this host. Port 0 means any port.
  std::uint32_t window_bytes = 4096;
  /// If true, everything that leaves this host is encrypted. Connection blobs must then travel over an
  /// encrypted channel.
  bool encrypt = false;
  /// The context whose fabric thread is used. Null means the context of the process.
  std::shared_ptr<peer::Context> context = nullptr;
};

class DataPath {
 public:
  /// The largest size of a small message. Longer messages must go over the control channel.
  static constexpr std::size_t kMostBytes = 4096;

  /// The largest number of messages of one link that were given to `heard` and whose permits still exist.
  /// While there are this many, further messages of the link are dropped.
  static constexpr std::size_t kMostUnheard = 256;
  /// The permit to process one message. The message counts as processed when the permit is destroyed. A
  /// permit may be destroyed on any thread.
  using Permit = std::shared_ptr<void>;

  /// Called on the fabric thread. A handler must not call functions of the data path, and must not block.
  struct Handlers {
    std::function<void(LinkId, Bytes, Permit)> heard;
    /// Called when the queue pair of a link has given up, or when the peer has made an error.
    std::function<void(LinkId, std::string cause)> failed;
  };

  /// Opens the fabric, and makes the membership window. Errors: those of opening the fabric, and
  /// resource_limit.
  static Result<std::unique_ptr<DataPath>> open(const DataPathOptions& options, Handlers handlers);
  /// Destroys all queue pairs. After this, no handler is called.
  ~DataPath();

  /// The name of the fabric ("udp", "shm+udp", and so on), and the reason why this fabric was chosen. Both
  /// texts are for people.
  const std::string& fabric_name() const;
  const std::string& reason() const;

  /// Makes a queue pair for `link`, and returns the blob that the peer needs to connect. Errors:
  /// resource_limit.
  Result<fabric::ConnectionBlob> offer(LinkId link);
  /// Connects the queue pair of `link` to the peer that has made `blob`. Errors: those of QueuePair::connect;
  /// not_found if nothing was offered for `link`.
  Result<void> connect(LinkId link, std::span<const std::byte> blob);
  /// Sends a message of at most kMostBytes. Returns at once and reports no result. The message is dropped if
  /// there is no space for it, or if the link is closed.
  void say(LinkId link, Bytes message);
  /// Calls `done` on the fabric thread after everything that has arrived by now was given to Handlers::heard.
  /// Returns at once. `done` is not called while the fabric thread gets no processor time.
  void drain(std::function<void()> done);
  /// Writes into the peer's membership window. Returns at once and reports no result.
  void write(LinkId link, WindowKey window, std::uint64_t offset, Bytes bytes);

  /// Makes the fence. When this function returns, the queue pairs of `closed` are destroyed, and no packet
  /// can change the membership window by its former key. The window then contains only zeroes. Returns the
  /// new key for the members of the new epoch. Errors: those of Fabric::register_memory.
  Result<WindowKey> fence(std::span<const LinkId> closed);
  /// Destroys the queue pair of the link. May return before the queue pair is destroyed.
  void close(LinkId link);

  /// Returns the membership window. Other processes may write into this memory at the same time.
  std::span<const std::byte> window() const;
  /// The number of messages that were dropped because of kMostUnheard.
  std::uint64_t dropped() const;
  /// The number of refused packets. A packet is refused if its queue pair does not exist, or if it comes from
  /// another source than the peer. With encryption, a packet is also refused if it was not sealed with the
  /// connection's key, or if it is so old that it can only be a replay. Most refused packets come from
  /// members that were fenced off. 0 if the fabric does not count refused packets.
  std::uint64_t packets_refused() const;

 private:
  class Poller;
  explicit DataPath(std::unique_ptr<Poller> poller);
  std::unique_ptr<Poller> poller_;
};

}  // namespace rdmc::membership
