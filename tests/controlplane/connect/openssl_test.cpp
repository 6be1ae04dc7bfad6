// Tests the listener with the client of the program openssl, because the listener must speak standard TLS
// 1.3. The build defines the path of the program. If the program does not exist, these tests print a message
// and pass.
#include <spawn.h>
#include <sys/wait.h>

#include "controlplane/connect/framing.hpp"
#include "tests/controlplane/connect/harness.hpp"

extern char** environ;

namespace rdmc::control::testing {
BOOST_AUTO_TEST_SUITE(openssl_test)
namespace {

std::string hex_of(std::span<const std::byte> bytes) {
  std::string hex;
  for (const std::byte b : bytes) {
    hex += "0123456789abcdef"[std::to_integer<unsigned>(b) >> 4];
    hex += "0123456789abcdef"[std::to_integer<unsigned>(b) & 15];
  }
  return hex;
}

std::string psk_hex(const ClusterKey& key) {
  const auto psk = key.derive(kTlsLabel).value();
  return hex_of(psk.bytes());
}

std::string identity_of(const ClusterKey& key) {
  const auto name = key.derive(kTlsNameLabel).value();
  return std::string(kTlsIdentity) + hex_of(name.bytes().first(8));
}

/// Runs openssl s_client with a socket pair as its standard input and output.
class Client {
 public:
  Client(const Address& to, const std::string& identity, std::vector<std::string> more) {
    int ends[2];
    BOOST_TEST_REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    const Descriptor theirs(ends[1]);
    ours_.emplace(Descriptor(ends[0]));
    std::vector<std::string> words{"openssl", "s_client", "-quiet",     "-psk_identity",
                                   identity,  "-connect", to_string(to)};
    words.insert(words.end(), more.begin(), more.end());
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, theirs.get(), 0);
    posix_spawn_file_actions_adddup2(&actions, theirs.get(), 1);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    BOOST_TEST_REQUIRE(::posix_spawn(&pid_, OPENSSL_PROGRAM, &actions, nullptr, arguments.data(), environ) ==
                       0);
    posix_spawn_file_actions_destroy(&actions);
  }
  ~Client() { kill(); }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(std::exchange(pid_, -1), nullptr, 0);
  }
  UnauthenticatedClient& stream() { return *ours_; }

 private:
  pid_t pid_ = -1;
  std::optional<UnauthenticatedClient> ours_;
};

bool program_is_missing() {
  if (std::string_view(OPENSSL_PROGRAM).empty()) {
    BOOST_TEST_MESSAGE("the openssl program is not installed");
    return true;
  }
  return false;
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(s_client_with_the_derived_key_is_a_channel_until_it_is_killed, Harness) {
  if (program_is_missing()) return;
  const auto key = ClusterKey::generate().value();
  listen(options_for(key));
  Client client(listener->address(), identity_of(key), {"-tls1_3", "-psk", psk_hex(key)});
  client.stream().say(encode_preamble(kProtocolVersion));
  const auto preamble = encode_preamble(kProtocolVersion);
  BOOST_TEST((client.stream().hear(kPreambleBytes) == Bytes(preamble.begin(), preamble.end())));
  client.stream().say(encode_length(5));
  client.stream().say("hello");
  BOOST_TEST_REQUIRE(events.wait([&] { return accepted.size() == 1 && !accepted.back().messages.empty(); }));
  End& server = accepted.back();
  BOOST_TEST((server.messages.front() == bytes_of("hello")));
  BOOST_TEST(send(server, bytes_of("hi")).has_value());
  BOOST_TEST(client.stream().hear(6).size() == 6u);
  client.kill();
  BOOST_TEST_REQUIRE(events.wait([&] { return !server.closings.empty(); }));
  BOOST_TEST((server.closings.front().code == Errc::peer_failed), server.closings.front().what);
}

BOOST_FIXTURE_TEST_CASE(s_client_without_the_key_or_with_an_older_tls_is_refused, Harness) {
  if (program_is_missing()) return;
  const auto key = ClusterKey::generate().value();
  listen(options_for(key));
  const auto refusal_of = [&](const std::vector<std::string>& arguments) {
    refusals.clear();
    const Client client(listener->address(), identity_of(key), arguments);
    BOOST_TEST_REQUIRE(events.wait([&] { return !refusals.empty(); }));
    return refusals.front();
  };
  const Error no_key = refusal_of({"-tls1_3"});
  BOOST_TEST((no_key.code == Errc::authentication), no_key.what);
  const Error wrong_key = refusal_of({"-tls1_3", "-psk", psk_hex(ClusterKey::generate().value())});
  BOOST_TEST((wrong_key.code == Errc::authentication), wrong_key.what);
  const Error older = refusal_of({"-tls1_2", "-psk", psk_hex(key)});
  BOOST_TEST((older.code == Errc::protocol_error), older.what);
  BOOST_TEST(accepted.empty());
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::control::testing
