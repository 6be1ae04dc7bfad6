// Queue pair 1 of a software fabric: sends and receives management datagrams, by which a connection manager
// speaks with strangers. Nothing is repeated or kept in order here; what finds no room is lost, as on a
// network. At most one for a fabric, which outlives it; the fabric's thread.
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
  Address peer;  ///< its port: where the packet came from; a packet to it goes to RoCE's own
  std::array<std::byte, roce::kMadBytes> mad;
};

class ManagementQueuePair {
 public:
  /// Datagrams kept until they are polled.
  static constexpr std::size_t kMostWaiting = 256;

  explicit ManagementQueuePair(SoftwareFabric& fabric);
  ~ManagementQueuePair();
  ManagementQueuePair(const ManagementQueuePair&) = delete;
  ManagementQueuePair& operator=(const ManagementQueuePair&) = delete;

  /// To the queue pair 1 of `peer`'s host. A full port loses it.
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
