#include "dataplane/fabric/management_queue_pair.hpp"

#include <algorithm>
#include <cassert>

namespace rdmc::fabric {

ManagementQueuePair::ManagementQueuePair(SoftwareFabric& fabric)
    : fabric_(fabric), check_(fabric.port_.info().address) {
  assert(fabric_.management_ == nullptr);
  fabric_.management_ = this;
}

ManagementQueuePair::~ManagementQueuePair() {
  fabric_.management_ = nullptr;
}

void ManagementQueuePair::send(const ManagementDatagram& datagram) {
  Address peer = datagram.peer;
  peer.port = kRocePort;
  constexpr std::size_t kBytes = roce::kManagementHeaderBytes + roce::kMadBytes + roce::kIcrcBytes;
  std::array<std::byte, kBytes> bytes;
  roce::write_management(bytes.data(), next_psn_);
  next_psn_ = next_psn_.next();
  std::ranges::copy(datagram.mad, bytes.begin() + roce::kManagementHeaderBytes);
  const auto header = std::span<const std::byte>(bytes).first(roce::kManagementHeaderBytes);
  // The datagram is alone in its train, so its identification is 0.
  const std::uint32_t icrc =
      roce::Icrc(fabric_.port_.info().address, peer).compute(0, kBytes, header, datagram.mad, 0);
  roce::store_icrc(&bytes[kBytes - roce::kIcrcBytes], icrc);
  const iovec piece{bytes.data(), bytes.size()};
  const port::TxTrain train{
      .destination = peer, .pieces = {&piece, 1}, .segment_bytes = kBytes, .total_bytes = kBytes};
  fabric_.port_.send_burst({&train, 1});
}

bool ManagementQueuePair::poll(ManagementDatagram& out) {
  if (received_.empty()) return false;
  out = received_.front();
  received_.pop_front();
  return true;
}

ManagementQueuePair::Fate ManagementQueuePair::on_datagram(const Address& source,
                                                           std::span<const std::byte> datagram,
                                                           std::span<const std::byte, roce::kMadBytes> mad,
                                                           std::uint32_t icrc) {
  const auto header = datagram.first(roce::kManagementHeaderBytes);
  if (!check_.matches(source, header, mad, 0, datagram.size(), icrc)) return Fate::corrupt;
  if (received_.size() == kMostWaiting) return Fate::no_room;
  received_.push_back({.peer = source, .mad = {}});
  std::ranges::copy(mad, received_.back().mad.begin());
  return Fate::kept;
}

}  // namespace rdmc::fabric
