// Hands the project's grammar of sizes and rates (units.hpp) to CLI11: an option with one of these takes an
// integer and refuses, in the same words everywhere, what is none. Any thread.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "apps/units/units.hpp"

namespace rdmc {

/// `--dscp` as every program has it that opens a fabric.
inline CLI::Option* add_dscp(CLI::App& app, std::uint8_t& dscp) {
  return app
      .add_option("--dscp", dscp,
                  "differentiated services code point of the packets that leave the host: which queue of the "
                  "switches they go through")
      ->check(CLI::Range(0, 63))
      ->type_name("0-63");
}

/// Makes an option take a size: `add_option(…, bytes)->transform(size_value())`.
inline CLI::Validator size_value() {
  return {[](std::string& text) -> std::string {
            const auto bytes = parse_size(text);
            if (!bytes) return bytes.error().what;
            text = std::to_string(*bytes);
            return {};
          },
          "SIZE"};
}

/// The same, and 0 for `auto`.
inline CLI::Validator size_or_auto_value() {
  return {[](std::string& text) -> std::string {
            const auto bytes = text == "auto" ? Result<std::uint64_t>(0) : parse_size(text);
            if (!bytes) return bytes.error().what;
            text = std::to_string(*bytes);
            return {};
          },
          "SIZE|auto"};
}

/// The same for a rate.
inline CLI::Validator rate_value() {
  return {[](std::string& text) -> std::string {
            const auto rate = parse_rate(text);
            if (!rate) return rate.error().what;
            text = std::to_string(*rate);
            return {};
          },
          "RATE"};
}

}  // namespace rdmc
