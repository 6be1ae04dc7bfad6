// Passwords of users. Only their SHA-256 digests are kept, as Redis does. The functions are pure.
#pragma once

#include <string>
#include <string_view>

namespace rdmc::kv {

/// The number of hexadecimal digits of a digest.
inline constexpr std::size_t kDigestDigits = 64;

/// Returns the SHA-256 digest as hexadecimal digits in lower case.
std::string digest_of(std::string_view password);
/// Returns true if the text has the form of digest_of().
bool is_digest(std::string_view text);
/// Compares two digests. The time that it takes does not depend on where they differ.
bool is_same_digest(std::string_view a, std::string_view b);

}  // namespace rdmc::kv
