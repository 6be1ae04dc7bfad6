// What a Messenger needs from the connections of its process. The driver implements this interface with queue
// pairs, and the simulator implements it with a simulated network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"
#include "lib/replica/layout.hpp"

namespace rdmc::replica {

class Carrier {
 public:
  virtual ~Carrier() = default;

  /// Returns memory for records to `to`, at least `least` bytes. The records are sent in order. Returns an
  /// empty span if there is no space now, or if the processes are not connected. The first call for a process
  /// begins to connect. Messenger::on_room() tells when there is space again.
  virtual std::span<std::byte> room(ProcessId to, std::size_t least) = 0;
  /// Sends the first `bytes` bytes of what room() has returned. They must be whole records.
  virtual void fill(ProcessId to, std::size_t bytes) = 0;

  /// True if write() is possible now.
  virtual bool can_write(ProcessId to) = 0;
  struct Write {
    std::span<const std::byte> bytes;
    std::uint64_t remote_address = 0;
    RemoteKey remote_key{};
    std::uint32_t arrival = 0;   ///< the immediate
    std::uint32_t transfer = 0;  ///< the number in Messenger::on_written()
  };
  /// Writes to memory that `to` has granted. Precondition: can_write().
  virtual void write(ProcessId to, const Write& write) = 0;

  /// Memory that `from` may write.
  struct Exposed {
    std::uint64_t handle = 0;  ///< for withdraw()
    std::uint64_t remote_address = 0;
    RemoteKey remote_key{};
  };
  /// Lets `from` write `memory`, in pieces of `piece` bytes. Errors: resource_limit, peer_failed; would_block
  /// if the link has failed and nobody knows yet whether the process is dead.
  virtual Result<Exposed> expose(ProcessId from, std::span<std::byte> memory, std::size_t piece) = 0;
  /// Ends the access. After that, nothing changes the memory any more.
  virtual void withdraw(std::uint64_t handle) = 0;
};

}  // namespace rdmc::replica
