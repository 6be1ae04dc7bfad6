#include "dataplane/fabric/shm/shm_blob.hpp"

#include <algorithm>
#include <string>

#include "dataplane/base/bytes.hpp"
#include "dataplane/fabric/blob_offers.hpp"

namespace rdmc::fabric::shm {
namespace {

// The layout of a blob: "RSHM", version, then the fields of ShmBlob in order. Numbers are big endian.
constexpr std::uint32_t kMagic = 0x5253484D;
/// The version of the blob, of the layout of QueueMemory, and of the messages on the socket.
constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kHeaderBytes = 4 + 1;
constexpr std::size_t kBlobBytes = kHeaderBytes + 16 + 16 + 8 + 4;

}  // namespace

Token fresh_token(const std::function<std::uint32_t()>& entropy) {
  Token token;
  for (std::size_t i = 0; i < token.size(); i += 4) store_be(token.data() + i, entropy());
  return token;
}

ConnectionBlob encode(const ShmBlob& blob) {
  ConnectionBlob bytes(kBlobBytes);
  store_be(bytes.data(), kMagic);
  store_be(bytes.data() + 4, kVersion);
  auto at = std::ranges::copy(blob.listener, bytes.begin() + kHeaderBytes).out;
  at = std::ranges::copy(blob.queue_pair, at).out;
  store_be(&*at, blob.host_id);
  store_be(&*at + 8, blob.user);
  return bytes;
}

Result<ShmBlob> decode_shm_blob(std::span<const std::byte> bytes) {
  if (const BlobOffers offers = split_offers(bytes); !offers.local.empty()) bytes = offers.local;
  if (bytes.size() < kHeaderBytes || load_be<std::uint32_t>(bytes.data()) != kMagic)
    return fail(Errc::protocol_error, "not the connection blob of a shm queue pair");
  if (const auto version = std::to_integer<unsigned>(bytes[4]); version != kVersion) {
    return fail(Errc::version_mismatch, "the peer's shm connection blob has version " +
                                            std::to_string(version) + ", this program speaks version " +
                                            std::to_string(kVersion));
  }
  if (bytes.size() != kBlobBytes) return fail(Errc::protocol_error, "shm connection blob of a wrong length");
  ShmBlob blob;
  const std::byte* at = bytes.data() + kHeaderBytes;
  std::copy_n(at, blob.listener.size(), blob.listener.begin());
  std::copy_n(at + 16, blob.queue_pair.size(), blob.queue_pair.begin());
  blob.host_id = load_be<std::uint64_t>(at + 32);
  blob.user = load_be<std::uint32_t>(at + 40);
  return blob;
}

}  // namespace rdmc::fabric::shm
