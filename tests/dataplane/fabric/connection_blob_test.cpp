#include "dataplane/fabric/connection_blob.hpp"

#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>

#include "dataplane/fabric/software_fabric.hpp"

BOOST_AUTO_TEST_SUITE(connection_blob_test)

using namespace rdmc;
using namespace rdmc::fabric;

namespace {

ConnectionInfo example() {
  return {.shared = Address::ipv4(10, 0, 0, 5, 4791),
          .bulk_port = 50'001,
          .qpn = Qpn{0xABCDEF},
          .first_psn = Psn(0xFFFFF0),
          .path_mtu = 8192,
          .receive_window = 1 << 20,
          .selective_repeat = true,
          .max_rd_atomic = 16,
          .host_id = 0x1122334455667788};
}

bool equal(const ConnectionInfo& a, const ConnectionInfo& b) {
  return a.shared == b.shared && a.bulk_port == b.bulk_port && a.qpn == b.qpn && a.first_psn == b.first_psn &&
         a.path_mtu == b.path_mtu && a.receive_window == b.receive_window &&
         a.selective_repeat == b.selective_repeat && a.foreign == b.foreign &&
         a.psn_for_other == b.psn_for_other && a.icrc_optional == b.icrc_optional && a.nic == b.nic &&
         a.single_datagrams == b.single_datagrams && a.max_rd_atomic == b.max_rd_atomic &&
         a.host_id == b.host_id;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_blob_carries_every_field_of_both_address_families) {
  auto info = example();
  BOOST_TEST(equal(*decode_connection(encode(info)), info));
  info.shared = *parse_address("[2001:db8::1]:4791", 0);
  info.selective_repeat = false;
  info.foreign = info.psn_for_other = info.icrc_optional = info.nic = info.single_datagrams = true;
  BOOST_TEST(equal(*decode_connection(encode(info)), info));
}

BOOST_AUTO_TEST_CASE(a_blob_of_another_version_is_refused_by_name) {
  auto blob = encode(example());
  blob[4] = std::byte{9};
  const auto decoded = decode_connection(blob);
  BOOST_REQUIRE(!decoded);
  BOOST_TEST(static_cast<int>(decoded.error().code) == static_cast<int>(Errc::version_mismatch));
  BOOST_TEST(decoded.error().what.find('9') != std::string::npos);
}

BOOST_AUTO_TEST_CASE(fields_that_cannot_be_are_refused) {
  const auto refused = [](auto change) {
    auto info = example();
    change(info);
    return !decode_connection(encode(info)).has_value();
  };
  BOOST_TEST(refused([](auto& i) { i.qpn = Qpn{1}; }));
  BOOST_TEST(refused([](auto& i) { i.qpn = Qpn{0x1000000}; }));
  BOOST_TEST(refused([](auto& i) { i.path_mtu = 65'536; }));
  BOOST_TEST(refused([](auto& i) { i.path_mtu = 1'030; }));
  for (const char* nobody :
       {"0.0.0.0:4791", "224.0.0.1:4791", "255.255.255.255:4791", "[::]:4791", "[ff02::1]:4791"})
    BOOST_TEST(refused([&](auto& i) { i.shared = *parse_address(nobody, 0); }));
  BOOST_TEST(refused([](auto& i) { i.bulk_port = 0; }));
  BOOST_TEST(refused([](auto& i) { i.shared.port = 0; }));
  BOOST_TEST(refused([](auto& i) { i.receive_window = 0; }));
}

BOOST_AUTO_TEST_CASE(random_and_truncated_bytes_are_refused_without_harm) {
  const auto blob = encode(example());
  for (std::size_t length = 0; length < blob.size(); ++length) {
    BOOST_TEST(!decode_connection(std::span(blob).first(length)));
  }
  rc::check([](const std::vector<std::uint8_t>& noise) {
    RC_ASSERT(!decode_connection(std::as_bytes(std::span(noise))));
  });
}

BOOST_AUTO_TEST_CASE(the_path_mtu_is_the_smaller_offer_and_must_be_usable) {
  auto ours = example(), theirs = example();
  theirs.path_mtu = 1432;
  BOOST_TEST(*agree_path_mtu(ours, theirs) == 1432u);
  BOOST_TEST(*agree_path_mtu(theirs, ours) == 1432u);
  theirs.path_mtu = 255;
  BOOST_TEST(!agree_path_mtu(ours, theirs));
}

BOOST_AUTO_TEST_CASE(a_path_mtu_leaves_room_for_every_header_within_the_interface_mtu) {
  for (const bool ipv6 : {false, true}) {
    for (std::uint32_t mtu = 400; mtu <= 65'536; mtu += 7) {
      const std::uint32_t payload = path_mtu_for(mtu, ipv6, 65'507);
      BOOST_REQUIRE(payload + 40 + 8 + (ipv6 ? 40 : 20) <= mtu);
      BOOST_REQUIRE(payload % 8 == 0);
      BOOST_REQUIRE(payload >= (std::min(mtu, 65'507U) - 120) / 16 * 15);
    }
  }
  BOOST_TEST(path_mtu_for(1500, false, 65'507) == 1432u);
  BOOST_TEST(path_mtu_for(9000, false, 65'507) == 8928u);
  BOOST_TEST(path_mtu_for(4200, false, 65'507) == 4096u);
  BOOST_TEST(path_mtu_for(65'536, false, 65'507) == 61'440u);
  BOOST_TEST(path_mtu_for(200, false, 65'507) == 0u);
}

BOOST_AUTO_TEST_CASE(a_foreign_path_mtu_is_one_of_the_specifications_and_is_taken_as_it_is) {
  auto ours = example(), theirs = example();
  theirs.foreign = true;
  for (const std::uint32_t mtu : {256u, 512u, 1024u, 2048u, 4096u}) {
    theirs.path_mtu = mtu;
    BOOST_TEST(*agree_path_mtu(ours, theirs) == mtu);
  }
  for (const std::uint32_t mtu : {128u, 1432u, 8192u}) {
    theirs.path_mtu = mtu;
    BOOST_TEST(!agree_path_mtu(ours, theirs));
  }
  theirs.path_mtu = 4096;
  // The foreign endpoint would send larger packets than the local port can receive.
  ours.path_mtu = 1432;
  BOOST_TEST(!agree_path_mtu(ours, theirs));
}

BOOST_AUTO_TEST_CASE(a_nic_and_any_of_us_agree_on_a_path_mtu_of_the_specification_and_on_port_4791) {
  auto nic = example();
  nic.nic = nic.foreign = true;
  nic.selective_repeat = false;
  nic.path_mtu = 4096;
  auto ours = example();
  for (const auto& [offered, agreed] :
       {std::pair(61'440U, 4096U), std::pair(8928U, 4096U), std::pair(1432U, 1024U), std::pair(1024U, 1024U),
        std::pair(256U, 256U)}) {
    ours.path_mtu = offered;
    BOOST_TEST(*agree_path_mtu(ours, nic) == agreed);
    BOOST_TEST(*agree_path_mtu(nic, ours) == agreed);
  }
  ours.shared.port = 50'000;
  for (const auto& refused : {agree_path_mtu(ours, nic), agree_path_mtu(nic, ours)}) {
    BOOST_REQUIRE(!refused);
    BOOST_TEST((refused.error().code == Errc::unsupported));
  }
  auto foreign = example();  // A foreign endpoint does not negotiate.
  foreign.foreign = true;
  foreign.path_mtu = 2048;
  BOOST_TEST(*agree_path_mtu(nic, foreign) == 2048u);
  nic.path_mtu = 1024;
  BOOST_TEST(!agree_path_mtu(nic, foreign));
}

BOOST_AUTO_TEST_SUITE_END()
