#include "dataplane/fabric/blob_offers.hpp"

#include <cstring>

#include "dataplane/base/bytes.hpp"

namespace rdmc::fabric {
namespace {

// The layout of a joined blob: "RDPP", the length of the local offer, the local offer, the remote offer.
// Numbers are big endian.
constexpr std::uint32_t kJoinedMagic = 0x52445050;
constexpr std::size_t kJoinHeaderBytes = 4 + 2;

}  // namespace

ConnectionBlob join_offers(const ConnectionBlob& local, const ConnectionBlob& remote) {
  ConnectionBlob blob(kJoinHeaderBytes + local.size() + remote.size());
  store_be(blob.data(), kJoinedMagic);
  store_be(blob.data() + 4, static_cast<std::uint16_t>(local.size()));
  std::memcpy(blob.data() + kJoinHeaderBytes, local.data(), local.size());
  std::memcpy(blob.data() + kJoinHeaderBytes + local.size(), remote.data(), remote.size());
  return blob;
}

BlobOffers split_offers(std::span<const std::byte> blob) {
  if (blob.size() < kJoinHeaderBytes || load_be<std::uint32_t>(blob.data()) != kJoinedMagic)
    return {.remote = blob};
  const std::size_t local = load_be<std::uint16_t>(blob.data() + 4);
  if (local > blob.size() - kJoinHeaderBytes) return {.remote = blob};
  return {.local = blob.subspan(kJoinHeaderBytes, local), .remote = blob.subspan(kJoinHeaderBytes + local)};
}

}  // namespace rdmc::fabric
