// Seals packets with AES-256-GCM in place of the ICRC: headers are authenticated, and payload is encrypted
// and authenticated. Each direction of a connection has its own key. The key is made of two key shares, one
// from each end. The ends exchange the shares over the authenticated control connection. There is no clock,
// no I/O and no randomness here. Not thread-safe: only the fabric thread of the connection may use a sealer.
//
// The nonce (NIST SP 800-38D, 8.2.1) is the key's salt followed by a packet counter, which is sent with the
// packet. A retransmission is a new packet with a new counter. OpenSSL provides the cipher.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "dataplane/base/error.hpp"

struct evp_cipher_ctx_st;

namespace rdmc::crypto {

/// The size of the seal, which follows the payload and padding of a sealed packet: the counter (8 bytes, big
/// endian) and the tag (16 bytes).
inline constexpr std::size_t kCounterBytes = 8, kTagBytes = 16, kSealBytes = kCounterBytes + kTagBytes;

/// The contribution of one end of a connection to the packet keys. It is random, and only the two ends know
/// it.
using KeyShare = std::array<std::byte, 32>;

/// An AES-256 key (32 bytes) and the salt of its nonces (4 bytes).
using PacketKey = std::array<std::byte, 36>;

/// Returns the key for packets from the end that made the share `sender` to the end that made `receiver`. It
/// is the first bytes of SHA-512(1 as 4 bytes big endian || receiver || sender || "rdmc packets"), a one-step
/// key derivation as in NIST SP 800-56C. The key is new if either share is new. So an end that connects twice
/// with the same offer of its peer does not use the same counter twice with one key. Errors: unsupported if
/// this OpenSSL has no SHA-512.
Result<PacketKey> packet_key(const KeyShare& receiver, const KeyShare& sender);

/// The key schedule, which is made once, and the nonce of the current packet.
struct Cipher {
  struct Free {
    void operator()(evp_cipher_ctx_st* context) const noexcept;
  };
  std::unique_ptr<evp_cipher_ctx_st, Free> context;
  std::array<std::byte, 12> nonce{};
};

class PacketSealer {
 public:
  /// Errors: unsupported if this OpenSSL has no AES-256-GCM.
  static Result<PacketSealer> make(const PacketKey& key);

  /// Writes payload.size() encrypted bytes to `out` and kSealBytes bytes to `seal`. `header` is
  /// authenticated and not encrypted. Returns false if the cipher failed. The caller must then discard the
  /// bytes that were written.
  bool seal(std::span<const std::byte> header, std::span<const std::byte> payload, std::byte* out,
            std::byte* seal) noexcept;

 private:
  explicit PacketSealer(Cipher cipher) : cipher_(std::move(cipher)) {}
  Cipher cipher_;
  std::uint64_t next_ = 1;  // 2^64 packets are never sent, so the counter never wraps around.
};

/// The result of the check of a packet's seal.
enum class Authenticity : std::uint8_t {
  authentic,  ///< the payload is decrypted now
  forged,     ///< the packet was not sealed with this key, or it was changed on its path
  /// The packet is a replay, or kMostOvertaken or more packets late. It was not decrypted.
  stale,
};

class PacketOpener {
 public:
  /// A packet is refused as stale if its counter is this number or more below the newest authentic counter.
  /// RC drops duplicates by their PSN. Half of the PSN space is 2^23, and a packet takes at most 32 PSNs. So
  /// a packet that is so old that its PSN would look new is refused here first.
  static constexpr std::uint64_t kMostOvertaken = 1 << 17;

  /// Errors: unsupported if this OpenSSL has no AES-256-GCM.
  static Result<PacketOpener> make(const PacketKey& key);

  /// Decrypts `payload` in place. If the result is not `authentic`, the caller must discard the payload.
  Authenticity open(std::span<const std::byte> header, std::span<std::byte> payload,
                    const std::byte* seal) noexcept;

 private:
  explicit PacketOpener(Cipher cipher) : cipher_(std::move(cipher)) {}
  Cipher cipher_;
  std::uint64_t newest_ = 0;
};

}  // namespace rdmc::crypto
