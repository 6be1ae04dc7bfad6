#include "dataplane/crypto/packet_seal.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "dataplane/base/bytes.hpp"

namespace rdmc::crypto {
namespace {

constexpr std::size_t kKeyBytes = 32, kSaltBytes = 4;

const unsigned char* raw(const std::byte* at) {
  return reinterpret_cast<const unsigned char*>(at);
}
unsigned char* raw(std::byte* at) {
  return reinterpret_cast<unsigned char*>(at);
}

Result<Cipher> make_cipher(const PacketKey& key, bool seals) {
  Cipher cipher;
  cipher.context.reset(EVP_CIPHER_CTX_new());
  if (!cipher.context || EVP_CipherInit_ex(cipher.context.get(), EVP_aes_256_gcm(), nullptr, raw(key.data()),
                                           nullptr, seals ? 1 : 0) != 1) {
    return fail(Errc::unsupported, "this OpenSSL has no AES-256-GCM");
  }
  std::memcpy(cipher.nonce.data(), key.data() + kKeyBytes, kSaltBytes);
  return cipher;
}

/// Encrypts or decrypts the payload of a packet, and authenticates the header. finish() and exchange_tag()
/// handle the tag.
bool run(Cipher& cipher, std::uint64_t counter, std::span<const std::byte> header,
         std::span<const std::byte> in, std::byte* out) noexcept {
  store_be(cipher.nonce.data() + kSaltBytes, counter);
  EVP_CIPHER_CTX* const context = cipher.context.get();
  int written = 0;
  return EVP_CipherInit_ex(context, nullptr, nullptr, nullptr, raw(cipher.nonce.data()), -1) == 1 &&
         EVP_CipherUpdate(context, nullptr, &written, raw(header.data()), static_cast<int>(header.size())) ==
             1 &&
         (in.empty() ||
          EVP_CipherUpdate(context, raw(out), &written, raw(in.data()), static_cast<int>(in.size())) == 1);
}

/// Ends the operation on a packet. GCM writes no more payload at this point. If a packet is opened, this
/// function compares the tags.
bool finish(Cipher& cipher) noexcept {
  unsigned char nothing;
  int written = 0;
  return EVP_CipherFinal_ex(cipher.context.get(), &nothing, &written) == 1;
}

bool exchange_tag(Cipher& cipher, int command, std::byte* tag) noexcept {
  return EVP_CIPHER_CTX_ctrl(cipher.context.get(), command, kTagBytes, tag) == 1;
}

}  // namespace

Result<PacketKey> packet_key(const KeyShare& receiver, const KeyShare& sender) {
  constexpr std::string_view kPurpose = "rdmc packets";
  std::array<std::byte, 4 + 2 * sizeof(KeyShare) + kPurpose.size()> input{};
  store_be(input.data(), std::uint32_t{1});
  auto at = std::ranges::copy(receiver, input.begin() + 4).out;
  at = std::ranges::copy(sender, at).out;
  std::ranges::copy(std::as_bytes(std::span(kPurpose)), at);
  std::array<std::byte, 64> digest;
  const bool done =
      EVP_Digest(input.data(), input.size(), raw(digest.data()), nullptr, EVP_sha512(), nullptr) == 1;
  PacketKey key;
  std::ranges::copy_n(digest.begin(), key.size(), key.begin());
  OPENSSL_cleanse(input.data(), input.size());
  OPENSSL_cleanse(digest.data(), digest.size());
  if (!done) return fail(Errc::unsupported, "this OpenSSL has no SHA-512");
  return key;
}

void Cipher::Free::operator()(evp_cipher_ctx_st* context) const noexcept {
  EVP_CIPHER_CTX_free(context);
}

Result<PacketSealer> PacketSealer::make(const PacketKey& key) {
  auto cipher = make_cipher(key, true);
  if (!cipher) return std::unexpected(cipher.error());
  return PacketSealer(std::move(*cipher));
}

bool PacketSealer::seal(std::span<const std::byte> header, std::span<const std::byte> payload, std::byte* out,
                        std::byte* seal) noexcept {
  const std::uint64_t counter = next_++;
  store_be(seal, counter);
  return run(cipher_, counter, header, payload, out) && finish(cipher_) &&
         exchange_tag(cipher_, EVP_CTRL_AEAD_GET_TAG, seal + kCounterBytes);
}

Result<PacketOpener> PacketOpener::make(const PacketKey& key) {
  auto cipher = make_cipher(key, false);
  if (!cipher) return std::unexpected(cipher.error());
  return PacketOpener(std::move(*cipher));
}

Authenticity PacketOpener::open(std::span<const std::byte> header, std::span<std::byte> payload,
                                const std::byte* seal) noexcept {
  const auto counter = load_be<std::uint64_t>(seal);
  if (newest_ >= kMostOvertaken && counter <= newest_ - kMostOvertaken) return Authenticity::stale;
  // OpenSSL takes a pointer to a mutable tag, but it does not change the tag.
  const bool authentic =
      run(cipher_, counter, header, payload, payload.data()) &&
      exchange_tag(cipher_, EVP_CTRL_AEAD_SET_TAG, const_cast<std::byte*>(seal + kCounterBytes)) &&
      finish(cipher_);
  if (!authentic) return Authenticity::forged;
  newest_ = std::max(newest_, counter);
  return Authenticity::authentic;
}

}  // namespace rdmc::crypto
