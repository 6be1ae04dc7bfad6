// Parses sizes, rates and durations of the command line, and formats them for people. All options of all
// programs use the same format. Sizes are bytes, or a number with K, M or G (powers of 1024). Rates are bits
// per second, or a number with k, m or g (powers of 1000). Durations are seconds, or a number with the suffix
// ms or s. The functions are pure, and any thread may call them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc {

/// Parses a size, such as "4096", "256K", "8M" or "2G". Errors: invalid_argument if the text has another
/// form, or if the size is 2^63 or more.
Result<std::uint64_t> parse_size(std::string_view text);

/// Parses a rate, such as "950000000", "100k", "20g" or "1.5g". The result is in bits per second. Errors:
/// invalid_argument if the text has another form, or if the rate is less than 1, or 10^18 or more.
Result<std::uint64_t> parse_rate(std::string_view text);

/// Parses a duration, such as "500ms", "2s" or "0.7" (seconds). Errors: invalid_argument if the text has
/// another form, or if the duration is more than 10^6 seconds.
Result<Duration> parse_duration(std::string_view text);

/// Formats a size, for example as "512 B" or "1.50 GiB". The number has about three significant digits.
std::string size_words(std::uint64_t bytes);
/// Formats a rate, for example as "9.41 Gb/s". Returns "?" for a value that is negative or not finite.
std::string rate_words(double bits_per_second);
/// Formats a duration, for example as "0.420 s", "4.2 s", "12 s", "3m05s" or "2h02m". Returns "?" for a value
/// that is negative, not finite, or more than 10^9.
std::string duration_words(double seconds);

}  // namespace rdmc
