// Makes CLI11 read sizes and rates in the project's format (units.hpp). An option with one of these
// validators gets an integer. All programs refuse a wrong value with the same message. Any thread may use it.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "apps/units/units.hpp"

namespace rdmc {

/// Adds the option `--dscp`. Every program that opens a fabric has it.
inline CLI::Option* add_dscp(CLI::App& app, std::uint8_t& dscp) {
  return app
      .add_option("--dscp", dscp,
                  "differentiated services code point of the packets that leave the host: which queue of the "
                  "switches they go through")
      ->check(CLI::Range(0, 63))
      ->type_name("0-63");
}

/// Returns a validator for an option that takes a size: `add_option(…, bytes)->transform(size_value())`.
inline CLI::Validator size_value() {
  return {[](std::string& text) -> std::string {
            const auto bytes = parse_size(text);
            if (!bytes) return bytes.error().what;
            text = std::to_string(*bytes);
            return {};
          },
          "SIZE"};
}

/// Returns a validator for an option that takes a size or `auto`. `auto` becomes 0.
inline CLI::Validator size_or_auto_value() {
  return {[](std::string& text) -> std::string {
            const auto bytes = text == "auto" ? Result<std::uint64_t>(0) : parse_size(text);
            if (!bytes) return bytes.error().what;
            text = std::to_string(*bytes);
            return {};
          },
          "SIZE|auto"};
}

/// Returns a validator for an option that takes a rate.
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
