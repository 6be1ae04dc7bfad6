// Random values of the run's types, for property tests.
#pragma once

#include <rapidcheck.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "lib/replica/assignment.hpp"
#include "lib/replica/layout.hpp"
#include "lib/replica/run_messages.hpp"

namespace rdmc::testing {

inline rc::Gen<replica::Layout> any_layout() {
  return rc::gen::exec([] {
    const auto ranks = *rc::gen::inRange<std::size_t>(1, 9);
    return *replica::Layout::of(
        *rc::gen::container<std::vector<std::uint32_t>>(ranks, rc::gen::inRange(1u, 5u)));
  });
}

inline rc::Gen<replica::ProcessId> any_process(const replica::Layout& layout) {
  return rc::gen::map(rc::gen::inRange(0u, layout.processes()),
                      [](std::uint32_t number) { return replica::ProcessId{number}; });
}

inline rc::Gen<Address> any_address() {
  return rc::gen::exec([] {
    Address address{.ipv6 = *rc::gen::arbitrary<bool>(), .port = *rc::gen::inRange<std::uint16_t>(1, 0xFFFF)};
    const std::size_t bytes = address.ip().size();
    const auto ip = *rc::gen::container<std::vector<std::uint8_t>>(bytes, rc::gen::arbitrary<std::uint8_t>());
    std::ranges::copy(ip, address.bytes.begin());
    return address;
  });
}

inline rc::Gen<std::string> any_run_name() {
  return rc::gen::container<std::string>(32, rc::gen::elementOf(std::string("0123456789abcdef")));
}

inline rc::Gen<replica::Assignment> any_assignment() {
  return rc::gen::exec([] {
    const auto word =
        rc::gen::nonEmpty(rc::gen::container<std::string>(rc::gen::elementOf(std::string("abcxyz019-_"))));
    const auto value =
        rc::gen::container<std::string>(rc::gen::elementOf(std::string("abc XYZ019-_,=:/[]~\"'\\")));
    const auto short_text = [](std::string text) { return text.substr(0, replica::kMostNameBytes); };
    replica::Assignment made;
    made.layout = *any_layout();
    made.self = made.layout.replica(*any_process(made.layout));
    made.protocol = short_text(*word);
    const auto options = *rc::gen::container<std::map<std::string, std::string>>(word, value);
    for (const auto& [key, text] : options)
      if (made.options.size() < replica::kMostOptions) made.options.emplace(short_text(key), text);
    made.launcher = *any_address();
    made.run = *any_run_name();
    made.key_descriptor = *rc::gen::inRange(0, 1 << 20);
    made.fork_descriptor = *rc::gen::inRange(-1, 1 << 20);
    return made;
  });
}

template <typename T>
bool failed_with(const Result<T>& result, Errc code) {
  return !result && result.error().code == code;
}

inline replica::Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

}  // namespace rdmc::testing
