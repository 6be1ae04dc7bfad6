// One of two processes that exchange data between two queue pairs, over the port that the command line names.
// The tests of DPDK's devices start this program twice.
// wire_peer DRIVER ADDRESS DEVICE          (DEVICE is "" if there is none)
// The program prints its connection blob in hexadecimal and reads the peer's blob from standard input. It
// writes kBytes bytes into the peer's memory and expects the same number of bytes in its own memory. When its
// port notices the loss of the link, it prints the line "link lost". At the end it prints the result as one
// line of words. The exit code is 0 if everything succeeded, 2 if the port cannot be opened, and 1 for every
// other failure, whose reason is on stderr.
#include <sys/random.h>

#include <cstdio>
#include <iostream>
#include <string>

#include "dataplane/base/bytes.hpp"
#include "dataplane/base/clock.hpp"
#include "dataplane/base/random.hpp"
#include "dataplane/fabric/software_fabric.hpp"
#include "dataplane/port/standard_drivers.hpp"

using namespace rdmc;

namespace {

constexpr std::size_t kBytes = 3'000'001;
constexpr Duration kPatience = seconds(40);
/// For this time the process continues after its own work is done, because the peer may still need an
/// acknowledgement.
constexpr Duration kLinger = milliseconds(300);

std::uint32_t entropy() {
  std::uint32_t value = 0;
  while (getrandom(&value, sizeof value, 0) != sizeof value) {
  }
  return value;
}

std::string to_hex(std::span<const std::byte> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<int>(byte >> 4)];
    text += kDigits[std::to_integer<int>(byte & std::byte{15})];
  }
  return text;
}

std::vector<std::byte> from_hex(std::string_view text) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16)));
  return bytes;
}

/// Returns the bytes that both processes write, so that each process knows the bytes that must arrive.
std::vector<std::byte> pattern() {
  Random random(4791);
  std::vector<std::byte> bytes(kBytes);
  for (auto& byte : bytes) byte = static_cast<std::byte>(random.next());
  return bytes;
}

int broken(const std::string& why) {
  std::fprintf(stderr, "wire_peer: %s\n", why.c_str());
  return 1;
}

int talk(port::Port& port) {
  fabric::SoftwareFabric fabric(port, {.entropy = entropy});
  std::vector<std::byte> outgoing = pattern(), incoming(kBytes), greeting(64);
  const auto region = fabric.register_memory(incoming);
  // The timeout is long, because on a busy machine the other process may have to wait for a CPU.
  auto created = fabric.create_queue_pair({.ack_timeout = milliseconds(500)});
  if (!region || !created) return broken("no queue pair");
  fabric::QueuePair& queue_pair = **created;
  if (!queue_pair.post_receive({.work_id = 1, .bytes = greeting}) ||
      !queue_pair.post_receive({.work_id = 2, .bytes = {}}))
    return broken("no receives");

  std::cout << to_hex(queue_pair.local_blob()) << std::endl;
  std::string theirs;
  if (!std::getline(std::cin, theirs)) return broken("no peer");
  if (auto connected = queue_pair.connect(from_hex(theirs)); !connected)
    return broken(connected.error().what);

  // The greeting contains the remote key of the memory into which the peer must write.
  std::vector<std::byte> key(64);
  store_be(key.data(), value_of((*region)->remote_key()));
  if (!queue_pair.post_send({.work_id = 3, .bytes = key})) return broken("no SEND");
  bool told = false;
  // The number of completed requests: the SEND and the WRITE of the local side, and those of the peer.
  int done = 0;
  const Time deadline = monotonic_now() + kPatience;
  for (Time end = Time::never(); monotonic_now() < std::min(end, deadline);) {
    if (fabric.progress(monotonic_now()) == 0)
      fabric.wait(std::min({fabric.next_deadline(), end, deadline, monotonic_now() + milliseconds(10)}));
    if (!told && port.counters().link_losses > 0) {
      std::cout << "link lost" << std::endl;
      told = true;
    }
    std::array<fabric::Completion, 8> completions;
    const std::size_t count = queue_pair.poll_completions(completions);
    for (const auto& completion : std::span(completions).first(count)) {
      if (completion.status != fabric::WorkStatus::success)
        return broken(std::string(name(completion.status)) + ": " + queue_pair.error_cause());
      ++done;
      if (completion.work_id != 1) continue;
      if (!queue_pair.post_write({.work_id = 4,
                                  .bytes = outgoing,
                                  .remote_key = RemoteKey{load_be<std::uint32_t>(greeting.data())},
                                  .immediate = 7}))
        return broken("no WRITE");
    }
    if (done == 4 && end == Time::never()) end = monotonic_now() + kLinger;
  }
  if (done != 4) return broken("only " + std::to_string(done) + " of 4 requests were done in time");
  if (incoming != outgoing) return broken("the bytes differ");
  const auto& errors = fabric.counters();
  std::cout << "ok driver=" << port.info().driver << " mtu=" << port.info().mtu
            << " icrc_errors=" << errors.icrc_errors
            << " retransmitted=" << fabric.connection_counters().retransmitted
            << " received=" << port.counters().datagrams_received
            << " link_losses=" << port.counters().link_losses
            << " link_returns=" << port.counters().link_returns << std::endl;
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return broken("three arguments");
  port::PortRequest request{.device = argv[3]};
  if (const auto address = parse_address(argv[2], 0)) request.address = *address;
  auto opened = port::standard_drivers().open(argv[1], request);
  if (!opened) {
    std::fprintf(stderr, "wire_peer: %s\n", opened.error().what.c_str());
    return 2;
  }
  return talk(*opened->port);
}
