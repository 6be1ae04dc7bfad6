// Sizes, rates and durations as people write them on a command line, and as we write them back. One grammar
// for all options of all programs: sizes are bytes with K, M, G (powers of 1024), rates bits per second with
// k, m, g (powers of 1000), durations seconds, or with the suffix ms or s. Pure functions of their text; any
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc {

/// "4096", "256K", "8M", "2G". Errors: invalid_argument (not of that form, or 2^63 and more).
Result<std::uint64_t> parse_size(std::string_view text);

/// Bits per second: "950000000", "100k", "20g", "1.5g". Errors: invalid_argument (not of that form, zero,
/// 10^18 and more).
Result<std::uint64_t> parse_rate(std::string_view text);

/// "500ms", "2s", "0.7" (seconds). Errors: invalid_argument (not of that form, or more than 10^6 seconds).
Result<Duration> parse_duration(std::string_view text);

/// "512 B", "1.5 GiB": two or three significant digits, for people.
std::string size_words(std::uint64_t bytes);
/// "9.41 Gb/s"
std::string rate_words(double bits_per_second);
/// "0.4 s", "12 s", "3m05s"; "?" for what is not finite or negative.
std::string duration_words(double seconds);

}  // namespace rdmc
