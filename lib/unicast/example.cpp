// `example KEYFILE` offers a counter at a port number that it prints. `example KEYFILE PORT` adds 2 to the
// counter of the process at that port number, and then sends that process an empty message.
#include <cstdio>
#include <cstdlib>
#include <rdmc/unicast.hpp>

int main(int argc, char** argv) {
  if (argc < 2) return 1;
  std::array<rdmc::Completion, 1> done;
  const auto next = [&](rdmc::Endpoint& endpoint) {
    return endpoint.poll(done, rdmc::seconds(30)) == 1 && done[0].status == rdmc::WorkStatus::success;
  };
  if (argc == 2) {  // this process offers the counter
    alignas(8) std::array<std::byte, 8> counter{};
    rdmc::Region region;
    rdmc::EndpointCallbacks on;
    on.connected = [&](const rdmc::Connection& peer) {  // grants access, and sends the key
      const auto key = region.grant(peer);
      if (key && peer.post_receive({}, 1)) (void)peer.send_copy(key->encode(), 2);
    };
    auto endpoint = rdmc::Endpoint::create({.name = "counter", .key_file = argv[1]}, on);
    if (!endpoint) return std::fprintf(stderr, "%s\n", endpoint.error().what.c_str()), 2;
    auto made = (*endpoint)->register_memory(counter, rdmc::RemoteAccess::atomic);
    if (made) region = std::move(*made);
    if (!made || !(*endpoint)->listen()) return 3;  // the region exists before any peer can connect
    std::printf("%d\n", (*endpoint)->address().port), std::fflush(stdout);
    if (!next(**endpoint) || !next(**endpoint)) return 4;  // the key was sent, and the peer is done
    return std::printf("counter: %d\n", static_cast<int>(counter[0])), 0;
  }
  auto endpoint = rdmc::Endpoint::create({.name = "counter", .key_file = argv[1]});
  if (!endpoint) return std::fprintf(stderr, "%s\n", endpoint.error().what.c_str()), 2;
  const auto port = static_cast<std::uint16_t>(std::atoi(argv[2]));
  const auto peer = (*endpoint)->connect({.host = "127.0.0.1", .port = port}, rdmc::seconds(30));
  if (!peer) return std::fprintf(stderr, "%s\n", peer.error().what.c_str()), 3;
  std::array<std::byte, rdmc::RemoteMemory::kEncodedBytes> words;
  if (!peer->post_receive(words, 1) || !next(**endpoint)) return 4;
  const auto counter = rdmc::RemoteMemory::decode(words);
  if (!counter || !peer->fetch_and_add(*counter, 0, 2, 2) || !next(**endpoint)) return 5;
  return peer->send({}, 3) && next(**endpoint) ? 0 : 6;
}
