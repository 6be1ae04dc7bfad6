// Queue pair 1 of a software fabric. It sends and receives management datagrams, by which a connection
// manager communicates with foreign endpoints. It does not retransmit or reorder. If there is no space for a
// datagram, the datagram is lost. A fabric has at most one object of this class and must outlive it. All
// functions must be called on the fabric thread.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "dataplane/fabric/foreign_icrc.hpp"
#include "dataplane/fabric/software_fabric.hpp"
#include "dataplane/roce/management_datagram.hpp"

namespace rdmc::fabric {

struct ManagementDatagram {
  /// For a received datagram, the source. For a datagram to be sent, the destination; send() always uses port
  /// number 4791.
  Address peer;
  std::array<std::byte, roce::kMadBytes> mad;
};

class ManagementQueuePair {
 public:
  /// The maximum number of datagrams that wait to be polled.
  static constexpr std::size_t kMostWaiting = 256;

  explicit ManagementQueuePair(SoftwareFabric& fabric);
  ~ManagementQueuePair();
  ManagementQueuePair(const ManagementQueuePair&) = delete;
  ManagementQueuePair& operator=(const ManagementQueuePair&) = delete;

  /// Sends the datagram to queue pair 1 of the host `datagram.peer`. If the port is full, the datagram is
  /// lost.
  void send(const ManagementDatagram& datagram);
  bool poll(ManagementDatagram& out);

 private:
  friend class SoftwareFabric;
  enum class Fate : std::uint8_t { kept, no_room, corrupt };
  Fate on_datagram(const Address& source, std::span<const std::byte> datagram,
                   std::span<const std::byte, roce::kMadBytes> mad, std::uint32_t icrc);

  SoftwareFabric& fabric_;
  ForeignIcrc check_;
  Psn next_psn_;
  std::deque<ManagementDatagram> received_;
};

}  // namespace rdmc::fabric
