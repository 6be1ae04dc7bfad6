// AES-256-GCM on packets, in the place of the ICRC: headers are authenticated, payload is encrypted, too. One
// direction of one connection has one key, made of a share that each end drew and told the other over the
// authenticated control connection. Pure: no clock, no I/O, no randomness. Not thread-safe: a sealer belongs
// to its connection's engine.
//
// Nonce (NIST SP 800-38D, 8.2.1): the key's salt, then a counter of packets, which travels with the packet. A
// retransmission is a new packet. The cipher is OpenSSL's.
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

/// What stands behind a sealed packet's payload and pad: the counter (8 bytes, big endian) and the tag (16).
inline constexpr std::size_t kCounterBytes = 8, kTagBytes = 16, kSealBytes = kCounterBytes + kTagBytes;

/// What one end of a connection contributes: random, and a secret of the two.
using KeyShare = std::array<std::byte, 32>;

/// A key of AES-256 (32 bytes) and the salt of its nonces (4).
using PacketKey = std::array<std::byte, 36>;

/// The key of what travels from the end that drew `sender` to the one that drew `receiver`: the first bytes
/// of SHA-512(1 as 4 bytes big endian || receiver || sender || "rdmc packets"), one-step derivation as in
/// NIST SP 800-56C. It is new if either share is: an end that connects twice with one offer of the other's
/// does not begin to count anew under an old key. Errors: unsupported.
Result<PacketKey> packet_key(const KeyShare& receiver, const KeyShare& sender);

/// The key schedule, made once, and the nonce of the packet at hand.
struct Cipher {
  struct Free {
    void operator()(evp_cipher_ctx_st* context) const noexcept;
  };
  std::unique_ptr<evp_cipher_ctx_st, Free> context;
  std::array<std::byte, 12> nonce{};
};

class PacketSealer {
 public:
  /// Errors: unsupported (this OpenSSL has no AES-256-GCM).
  static Result<PacketSealer> make(const PacketKey& key);

  /// Writes payload.size() encrypted bytes to `out` and kSealBytes to `seal`. `header` is authenticated as it
  /// stands. False: the cipher failed; what was written is to be thrown away.
  bool seal(std::span<const std::byte> header, std::span<const std::byte> payload, std::byte* out,
            std::byte* seal) noexcept;

 private:
  explicit PacketSealer(Cipher cipher) : cipher_(std::move(cipher)) {}
  Cipher cipher_;
  std::uint64_t next_ = 1;  // 2^64 packets are never sent: no key is used up
};

/// What a seal says of a packet.
enum class Authenticity : std::uint8_t {
  authentic,  ///< the payload is plain now
  forged,     ///< not sealed with this key, or changed on the way
  stale,      ///< authentic once: played back, or more than kMostOvertaken packets late
};

class PacketOpener {
 public:
  /// A packet is taken unless so many later ones came before it. RC drops what it has had by PSN, half of
  /// whose space is 2^23, and a packet takes at most 32 of them: what is as old as to be taken for new by its
  /// PSN never gets that far.
  static constexpr std::uint64_t kMostOvertaken = 1 << 17;

  /// Errors: unsupported.
  static Result<PacketOpener> make(const PacketKey& key);

  /// Decrypts `payload` in place. Where the answer is not `authentic`, what is there is to be thrown away.
  Authenticity open(std::span<const std::byte> header, std::span<std::byte> payload,
                    const std::byte* seal) noexcept;

 private:
  explicit PacketOpener(Cipher cipher) : cipher_(std::move(cipher)) {}
  Cipher cipher_;
  std::uint64_t newest_ = 0;
};

}  // namespace rdmc::crypto
