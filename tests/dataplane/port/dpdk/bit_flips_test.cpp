// Sends frames of the kernel's Soft-RoCE through a real DPDK device, which reads the frames from a capture
// file. In each frame, one bit of the Ethernet, IP or UDP header is flipped. There are two permitted results:
// the frame is dropped and counted by one counter, or it is handed on because only the fabric can check the
// field. The arguments of the program are capture files.
#include <algorithm>
#include <fstream>
#include <map>

#include "tests/dataplane/capture_file.hpp"
#include "tests/dataplane/port/dpdk/memif_pair.hpp"
#include "tests/dataplane/port/udp_fixture.hpp"

using namespace rdmc;
using namespace rdmc::port;
using namespace rdmc::port::dpdk::testing;

namespace {

using Frame = std::vector<std::byte>;

void write_capture(const std::string& path, const std::vector<Frame>& frames) {
  std::ofstream file(path, std::ios::binary);
  const auto put = [&file](std::uint32_t value) { file.write(reinterpret_cast<const char*>(&value), 4); };
  for (const std::uint32_t word : {0xA1B2C3D4U, 2U | 4U << 16, 0U, 0U, 65'535U, 1U}) put(word);
  for (const Frame& frame : frames) {
    for (const std::size_t word : {std::size_t{0}, std::size_t{0}, frame.size(), frame.size()})
      put(static_cast<std::uint32_t>(word));
    file.write(reinterpret_cast<const char*>(frame.data()), static_cast<std::streamsize>(frame.size()));
  }
}

/// Returns for each possible result of a frame its name and its counter.
std::map<std::string, std::uint64_t> sums(const PortCounters& c) {
  return {{"truncated", c.frames_truncated},
          {"other protocol", c.frames_of_other_protocols},
          {"fragment", c.fragments},
          {"options", c.frames_with_options},
          {"bad checksum", c.bad_checksums},
          {"hop limit", c.wrong_hop_limits},
          {"other address", c.for_other_addresses},
          {"closed port", c.for_closed_ports},
          {"handed on", c.datagrams_received}};
}

struct Field {
  const char* name;
  std::size_t first_bit, end_bit;
  std::vector<std::string> fates;  // Each flipped bit of the field must give one of these results.
};

std::vector<Field> fields(bool ipv6) {
  // Only a device can check the MAC addresses.
  std::vector<Field> all{{"MAC addresses", 0, 96, {"handed on"}}, {"EtherType", 96, 112, {"other protocol"}}};
  const std::size_t ip = 112, udp = ip + (ipv6 ? 320 : 160);
  if (ipv6) {
    all.push_back({"version", ip, ip + 4, {"other protocol", "truncated"}});
    all.push_back({"traffic class, flow label", ip + 4, ip + 32, {"handed on"}});
    all.push_back({"payload length", ip + 32, ip + 48, {"truncated"}});
    all.push_back({"next header", ip + 48, ip + 56, {"other protocol", "options", "fragment"}});
    all.push_back({"hop limit", ip + 56, ip + 64, {"handed on"}});
    // The fabric detects a wrong source.
    all.push_back({"source", ip + 64, ip + 192, {"handed on"}});
    all.push_back({"destination", ip + 192, ip + 320, {"other address"}});
  } else {
    all.push_back(
        {"version, header length", ip, ip + 8, {"other protocol", "options", "truncated", "bad checksum"}});
    all.push_back({"class", ip + 8, ip + 16, {"bad checksum"}});
    all.push_back({"total length", ip + 16, ip + 32, {"truncated", "bad checksum"}});
    all.push_back({"identification to destination", ip + 32, ip + 160, {"bad checksum"}});
  }
  // A foreign endpoint may use any source port number. For other senders, the fabric detects a wrong number
  // by the ICRC.
  all.push_back({"source port", udp, udp + 16, {"handed on"}});
  all.push_back({"destination port", udp + 16, udp + 32, {"closed port"}});
  // If the new length is shorter, the fabric detects this by the ICRC.
  all.push_back({"length", udp + 32, udp + 48, {"truncated", "handed on"}});
  // RoCE does not use the UDP checksum, because it has the ICRC.
  all.push_back({"checksum", udp + 48, udp + 64, {"handed on"}});
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_header_bit_has_a_counter_or_is_the_fabrics_to_judge) {
  const auto& suite = boost::unit_test::framework::master_test_suite();
  BOOST_REQUIRE(suite.argc > 1);
  for (int argument = 1; argument < suite.argc; ++argument) {
    const auto packets = rdmc::testing::read_capture(suite.argv[argument]);
    BOOST_REQUIRE(!packets.empty());
    BOOST_REQUIRE(packets[0].destination.port == 4791);
    const Frame& intact = packets[0].frame;
    const bool ipv6 = packets[0].destination.ipv6;
    const std::string address = host_string(packets[0].destination) + (ipv6 ? "/64" : "/24");
    for (const Field& field : fields(ipv6)) {
      std::vector<Frame> frames;
      for (std::size_t bit = field.first_bit; bit < field.end_bit; ++bit) {
        frames.push_back(intact);
        frames.back()[bit / 8] ^= static_cast<std::byte>(0x80 >> bit % 8);
      }
      const std::string capture = "/tmp/rdmc-flips-" + std::to_string(getpid()) + ".pcap";
      write_capture(capture, frames);
      static int number = 0;
      const auto port = open_port("vdev=net_pcap" + std::to_string(number++) + ",rx_pcap=" + capture +
                                  " huge=no address=" + address);
      BOOST_REQUIRE(port->info().address.port == 4791);
      test::NoPlan no_plan;
      std::array<RxTrain, 4> trains;
      const Time deadline = monotonic_now() + seconds(20);
      const auto judged = [&] {
        std::uint64_t sum = 0;
        for (const auto& [name, count] : sums(port->counters())) sum += count;
        return sum;
      };
      while (judged() < frames.size() && monotonic_now() < deadline) port->receive_burst(no_plan, trains);
      ::unlink(capture.c_str());
      std::uint64_t expected = 0;
      std::string table;
      for (const auto& [name, count] : sums(port->counters())) {
        if (std::ranges::find(field.fates, name) != field.fates.end()) expected += count;
        if (count > 0) table += "  " + name + " " + std::to_string(count);
      }
      BOOST_TEST_MESSAGE((ipv6 ? "IPv6 " : "IPv4 ") << field.name << ":" << table);
      BOOST_TEST(expected == frames.size(), field.name << ":" << table);
      BOOST_TEST(judged() == frames.size());
    }
  }
}
