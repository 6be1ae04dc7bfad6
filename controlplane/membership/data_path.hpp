// The part of a membership on the data path. It runs on the fabric thread. It has a queue pair to each
// process that this one is connected to, small messages over these queue pairs, and the membership window,
// which members may write while they are in the same epoch. It knows no views: its owner tells it what to
// open, revoke and destroy. All functions must be called on one thread, the control loop. Unless a comment
// says otherwise, they return when the fabric thread has done the work.
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

/// The address and the key with which a process can write into another one's membership window.
struct WindowKey {
  std::uint64_t address = 0;
  RemoteKey key{};
};

struct DataPathOptions {
  std::string fabric = "auto";  ///< The fabric, as open_fabric() takes it.
  std::string device = {};      ///< The device, for fabrics that need one (dpdk).
  Address address;              ///< The address of this host. Port 0 means any port.
  std::uint32_t window_bytes = 4096;
  /// Encrypts everything that leaves this host. Connection blobs must then travel over an encrypted channel.
  bool encrypt = false;
  /// The context whose fabric thread is used. Null means the context of the process.
  std::shared_ptr<peer::Context> context = nullptr;
};

class DataPath {
 public:
  /// The largest size of a small message. Longer messages must go over the control channel.
  static constexpr std::size_t kMostBytes = 4096;

  /// The largest number of messages of a link that were given to `heard` and whose permits still exist.
  /// Further messages are dropped.
  static constexpr std::size_t kMostUnheard = 256;
  /// The right to one message. The message counts as processed when the permit is destroyed, on any thread.
  using Permit = std::shared_ptr<void>;

  /// Called on the fabric thread. A handler must not call functions of the data path, and must not block.
  struct Handlers {
    std::function<void(LinkId, Bytes, Permit)> heard;
    /// The queue pair gave up, or the peer made an error.
    std::function<void(LinkId, std::string cause)> failed;
  };

  /// Errors: those of opening the fabric, and resource_limit.
  static Result<std::unique_ptr<DataPath>> open(const DataPathOptions& options, Handlers handlers);
  /// Destroys all queue pairs. No handler is called any more.
  ~DataPath();

  /// The name of the fabric ("udp", "shm+udp", and so on) and the reason for this choice, for people.
  const std::string& fabric_name() const;
  const std::string& reason() const;

  /// Makes a queue pair for `link`, and returns the blob that the peer needs to connect. Errors:
  /// resource_limit.
  Result<fabric::ConnectionBlob> offer(LinkId link);
  /// Errors: those of QueuePair::connect; not_found if nothing was offered for `link`.
  Result<void> connect(LinkId link, std::span<const std::byte> blob);
  /// Sends a message of at most kMostBytes. Returns at once and reports no result. The message is dropped if
  /// there is no space for it, or if the link is closed.
  void say(LinkId link, Bytes message);
  /// Calls `done` on the fabric thread after everything that has arrived by now was given to Handlers::heard.
  /// Returns at once. If the fabric thread gets no processor, `done` is called late.
  void drain(std::function<void()> done);
  /// Writes into the peer's membership window. Returns at once and reports no result.
  void write(LinkId link, WindowKey window, std::uint64_t offset, Bytes bytes);

  /// The fence. When it returns, the queue pairs of `closed` are destroyed, and no packet can change the
  /// membership window by its former key. The window contains only zeroes. Returns the new key for the
  /// members of the new epoch. Errors: those of Fabric::register_memory.
  Result<WindowKey> fence(std::span<const LinkId> closed);
  /// Destroys the queue pair of the link. May return before that is done.
  void close(LinkId link);

  /// Other processes may write into this memory at the same time.
  std::span<const std::byte> window() const;
  /// The number of messages that were dropped because of kMostUnheard.
  std::uint64_t dropped() const;
  /// The number of packets that found no queue pair, came from another source than the peer, or were not
  /// sealed by the peer recently. Most of them come from members that were fenced off. 0 if the fabric does
  /// not count them.
  std::uint64_t packets_refused() const;

 private:
  class Poller;
  explicit DataPath(std::unique_ptr<Poller> poller);
  std::unique_ptr<Poller> poller_;
};

}  // namespace rdmc::membership
