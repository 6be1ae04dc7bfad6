// Generates random addresses for the property tests of those parts of the dpdk port that do no I/O.
#pragma once

#include <rapidcheck.h>

#include "dataplane/base/address.hpp"
#include "dataplane/port/dpdk/frames.hpp"

namespace rdmc::port::dpdk::test {

inline constexpr MacAddress kOurMac{0x02, 0, 0, 0, 0, 1}, kTheirMac{0x02, 0, 0, 0, 0, 2};

inline rc::Gen<Address> any_address(bool ipv6) {
  return rc::gen::map(
      rc::gen::pair(rc::gen::container<std::array<std::uint8_t, 16>>(rc::gen::arbitrary<std::uint8_t>()),
                    rc::gen::arbitrary<std::uint16_t>()),
      [ipv6](const auto& drawn) {
        Address address{.ipv6 = ipv6, .bytes = drawn.first, .port = drawn.second};
        if (!ipv6) std::fill(address.bytes.begin() + 4, address.bytes.end(), 0);
        return address;
      });
}

inline Address without_port(Address address) {
  address.port = 0;
  return address;
}

}  // namespace rdmc::port::dpdk::test
