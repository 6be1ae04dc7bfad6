// Compares the number of bytes that the port lets wait for a slow link with the kernel's own count of these
// bytes.
#include <sched.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "dataplane/port/egress_limit.hpp"
#include "tests/dataplane/port/udp_fixture.hpp"
#include "tests/skipped_cases.hpp"

using namespace rdmc;
using namespace rdmc::port;
using namespace rdmc::port::test;

namespace {

constexpr std::uint32_t kSegment = 1400, kTrain = 40 * kSegment;

/// A network namespace with one interface of 10 Mb/s and a queue of 10 MB in front of it. The link is so slow
/// that the queue does not drain while a busy machine starts the program that reads it.
struct SlowLink {
  SlowLink() {
    const bool laid = unshare(CLONE_NEWNET) == 0 &&
                      std::system(
                          "ip link add slow0 type veth peer name far && ip link set far up && ip address add "
                          "10.9.0.1/24 dev slow0 && ip link set slow0 up && "
                          "ip neighbour add 10.9.0.2 lladdr 02:00:00:00:00:02 dev slow0 && "
                          "tc qdisc add dev slow0 root tbf rate 10mbit burst 64k limit 10m") == 0;
    if (!laid) rdmc::testing::SkippedCases::reason() = "a slow link can only be laid as root (CAP_NET_ADMIN)";
  }
};

std::uint64_t kernels_backlog() {
  std::FILE* const pipe = popen("tc -s -json qdisc show dev slow0", "r");
  std::string text;
  std::array<char, 4096> part;
  for (std::size_t size; (size = std::fread(part.data(), 1, part.size(), pipe)) > 0;)
    text.append(part.data(), size);
  pclose(pipe);
  return nlohmann::json::parse(text).at(0).at("backlog");
}

}  // namespace

BOOST_TEST_GLOBAL_FIXTURE(SlowLink);

BOOST_AUTO_TEST_CASE(a_slow_links_queue_is_never_empty_and_stays_short_over_all_flows) {
  if (!rdmc::testing::SkippedCases::reason().empty()) return;
  const auto port = open({.address = Address::ipv4(10, 9, 0, 1, 0)});
  const std::array flows{*port->open_flow(), *port->open_flow(), *port->open_flow()};
  std::uint64_t sent = 0, longest = 0;
  // On a busy machine, the link's queue may become empty between two turns of this test. So the test then
  // sends and checks for longer.
  const auto is_seen_full = [&] { return longest > EgressLimit::kLeastBytes / 2; };
  for (std::uint64_t next_look = 0; sent < 3'000'000 || (!is_seen_full() && sent < 20'000'000);) {
    const Sendable train(Bytes(kTrain), kSegment, Address::ipv4(10, 9, 0, 2, 4791), flows[sent / kTrain % 3]);
    if (port->send_burst(std::span(&train.train, 1)) == 1) sent += kTrain;
    if (sent < next_look) continue;
    longest = std::max(longest, kernels_backlog());
    next_look += 250'000;
  }
  BOOST_TEST(is_seen_full());
  BOOST_TEST(longest < EgressLimit::kUsualBytes + 2 * kTrain);
  BOOST_TEST(port->counters().send_refused > 0);
}
