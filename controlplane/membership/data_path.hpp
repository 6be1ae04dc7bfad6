// The part of a membership that lives on the data path: on the process's fabric thread, a queue pair to each
// process that we are connected to, small messages over them, and one window of memory that members may write
// while they are of our epoch. It knows no views: it opens, revokes and destroys as it is told. All functions
// may be called from any one thread, the control loop's; they return when the fabric thread has done it.
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

/// What a process needs to write into another's window.
struct WindowKey {
  std::uint64_t address = 0;
  RemoteKey key{};
};

struct DataPathOptions {
  std::string fabric = "auto";  ///< as open_fabric takes it
  std::string device = {};      ///< for fabrics that need one named (dpdk)
  Address address;              ///< of this host; port 0: any
  std::uint32_t window_bytes = 4096;
  bool encrypt = false;  ///< what leaves this host; blobs must travel in secret then
  std::shared_ptr<peer::Context> context = nullptr;  ///< whose thread it shares; null: the process's
};

class DataPath {
 public:
  /// The longest small message; longer ones go another way.
  static constexpr std::size_t kMostBytes = 4096;

  /// So many messages of a link may be handed out and not be done with; what comes beyond is dropped.
  static constexpr std::size_t kMostUnheard = 256;
  /// A message is done with when this is destroyed; any thread.
  using Permit = std::shared_ptr<void>;

  /// On the fabric thread; must not call back in, and must not block.
  struct Handlers {
    std::function<void(LinkId, Bytes, Permit)> heard;
    /// The queue pair gave up, or what the peer did was an error.
    std::function<void(LinkId, std::string cause)> failed;
  };

  /// Errors: those of opening the fabric; resource_limit.
  static Result<std::unique_ptr<DataPath>> open(const DataPathOptions& options, Handlers handlers);
  /// Destroys all queue pairs. Nothing is heard any more.
  ~DataPath();

  /// "udp", "shm+udp", …, and why this one; for people.
  const std::string& fabric_name() const;
  const std::string& reason() const;

  /// A queue pair for `link`, and what the peer needs to connect. Errors: resource_limit.
  Result<fabric::ConnectionBlob> offer(LinkId link);
  /// Errors: those of QueuePair::connect; not_found.
  Result<void> connect(LinkId link, std::span<const std::byte> blob);
  /// Sends a message of at most kMostBytes. Later, without an answer: one that finds no room is dropped, as
  /// is one to a link that is closed.
  void say(LinkId link, Bytes message);
  /// Calls `done` on the fabric thread when what has arrived by now has been given to Handlers::heard; as
  /// late as that thread is when it gets no processor.
  void drain(std::function<void()> done);
  /// Writes into the peer's window. Later, without an answer.
  void write(LinkId link, WindowKey window, std::uint64_t offset, Bytes bytes);

  /// The fence. When it returns, the queue pairs of `closed` are no more, no packet of whomever changes a
  /// byte of the window by its former key, the window is all zeroes, and the key is the one to hand out.
  /// Errors: those of Fabric::register_memory.
  Result<WindowKey> fence(std::span<const LinkId> closed);
  /// Destroys the link's queue pair; later, without an answer.
  void close(LinkId link);

  /// Written by others meanwhile.
  std::span<const std::byte> window() const;
  /// Messages, see kMostUnheard.
  std::uint64_t dropped() const;
  /// Packets that found no queue pair, or not their peer's: of members that were fenced off, as a rule; and
  /// such as the peer has not sealed, or not lately. 0 where the fabric does not say.
  std::uint64_t packets_refused() const;

 private:
  class Poller;
  explicit DataPath(std::unique_ptr<Poller> poller);
  std::unique_ptr<Poller> poller_;
};

}  // namespace rdmc::membership
