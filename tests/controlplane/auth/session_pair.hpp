// Two TLS sessions in one process, which exchange their bytes through vectors.
#pragma once

#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>
#include <optional>
#include <string>

#include "controlplane/auth/tls.hpp"

namespace rdmc::control {

inline TlsContext context_of(const ClusterKey& key) {
  return TlsContext::create(key).value();
}

inline std::vector<std::byte> text_bytes(std::string_view text) {
  std::vector<std::byte> bytes(text.size());
  std::ranges::transform(text, bytes.begin(), [](char c) { return static_cast<std::byte>(c); });
  return bytes;
}

/// A client and a server that exchange their bytes through vectors.
struct Pair {
  Pair(const TlsContext& client_context, const TlsContext& server_context)
      : client(TlsSession::create(client_context, Role::client).value()),
        server(TlsSession::create(server_context, Role::server).value()) {}
  Pair(const ClusterKey& client_key, const ClusterKey& server_key)
      : Pair(context_of(client_key), context_of(server_key)) {}

  static void turn(TlsSession& from, TlsSession& to, std::optional<Error>& error) {
    if (!error)
      if (auto done = from.handshake(); !done) error = done.error();
    std::vector<std::byte> bytes;
    from.take_output(bytes);
    BOOST_TEST(to.receive(bytes).has_value());
  }
  void run() {
    for (int i = 0; i < 4; ++i) {
      turn(client, server, client_error);
      turn(server, client, server_error);
    }
  }

  /// Sends `text` from the server to the client. Returns the text that the client has decrypted.
  std::string carry(std::string_view text) {
    BOOST_TEST(server.write(text_bytes(text)).has_value());
    std::vector<std::byte> bytes;
    server.take_output(bytes);
    BOOST_TEST(client.receive(bytes).has_value());
    std::array<char, 64> got;
    return {got.data(), client.read(std::as_writable_bytes(std::span(got))).value()};
  }

  TlsSession client;
  TlsSession server;
  std::optional<Error> client_error;
  std::optional<Error> server_error;
};

}  // namespace rdmc::control
