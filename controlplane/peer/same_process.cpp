#include "controlplane/peer/same_process.hpp"

#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <utility>

namespace rdmc::peer {

Proof proof_of(const Token& secret, const Identity& dialer, const Identity& listener, const Token& nonce) {
  std::array<std::byte, 3 * sizeof(Token)> said;
  std::ranges::copy(dialer.incarnation, said.begin());
  std::ranges::copy(listener.incarnation, said.begin() + sizeof(Token));
  std::ranges::copy(nonce, said.begin() + 2 * sizeof(Token));
  Proof proof{};
  unsigned length = proof.size();
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(said.data()), said.size(),
       reinterpret_cast<unsigned char*>(proof.data()), &length);
  return proof;
}

bool is_preferred(const Connection& one, const Connection& other, const Identity& ours) {
  const auto order = [&](const Connection& connection) {
    const bool is_smaller_ours = ours.incarnation < connection.identity->incarnation;
    return std::pair(connection.dials() != is_smaller_ours, connection.secret);
  };
  return order(one) < order(other);
}

}  // namespace rdmc::peer
