// Queue pair 1 of a software fabric. It sends and receives management datagrams, by which a connection
// manager talks to foreign endpoints. It does not retransmit or reorder, and a datagram that finds no space
// is lost, as in a network. A fabric has at most one and must outlive it. Used on the fabric thread.
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
  Address peer;  ///< Of a received packet: the source. send() uses port number 4791 in any case.
  std::array<std::byte, roce::kMadBytes> mad;
};

class ManagementQueuePair {
 public:
  /// The most datagrams that are kept until they are polled.
  static constexpr std::size_t kMostWaiting = 256;

  explicit ManagementQueuePair(SoftwareFabric& fabric);
  ~ManagementQueuePair();
  ManagementQueuePair(const ManagementQueuePair&) = delete;
  ManagementQueuePair& operator=(const ManagementQueuePair&) = delete;

  /// Sends to queue pair 1 of the peer's host. If the port is full, the datagram is lost.
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
