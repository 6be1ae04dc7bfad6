#include "controlplane/peer/same_process.hpp"

#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <new>

namespace rdmc::peer {

Proof proof_of(const Token& secret, const Identity& reader, const Identity& writer, const Token& nonce) {
  std::array<std::byte, 3 * sizeof(Token)> said;
  std::ranges::copy(reader.incarnation, said.begin());
  std::ranges::copy(writer.incarnation, said.begin() + sizeof(Token));
  std::ranges::copy(nonce, said.begin() + 2 * sizeof(Token));
  Proof proof{};
  unsigned length = proof.size();
  const auto* const made = HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
                                reinterpret_cast<const unsigned char*>(said.data()), said.size(),
                                reinterpret_cast<unsigned char*>(proof.data()), &length);
  if (made == nullptr) throw std::bad_alloc();  // HMAC can fail here only because there is no memory.
  return proof;
}

}  // namespace rdmc::peer
