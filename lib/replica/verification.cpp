#include "lib/replica/verification.hpp"

#include <xxhash.h>

#include <charconv>
#include <limits>

#include "lib/replica/send_difference.hpp"

namespace rdmc::replica {
namespace {

constexpr std::string_view kTag = "tag=", kCommunicator = "communicator=";

Result<std::uint32_t> number_in(std::string_view word, std::string_view text) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() ||
      number > std::uint32_t{std::numeric_limits<std::int32_t>::max()})
    return fail(Errc::invalid_argument, "'" + std::string(word) + "' has no number");
  return number;
}

Result<void> add_exception(Verification& verification, std::string_view word) {
  const bool is_tag = word.starts_with(kTag);
  if (!is_tag && !word.starts_with(kCommunicator))
    return fail(Errc::invalid_argument, "'" + std::string(word) + "' is neither tag=N nor communicator=N");
  const auto number = number_in(word, word.substr((is_tag ? kTag : kCommunicator).size()));
  if (!number) return std::unexpected(number.error());
  if (is_tag)
    verification.excepted_tags.insert(static_cast<std::int32_t>(*number));
  else
    verification.excepted_communicators.insert(*number);
  return {};
}

}  // namespace

std::uint64_t Verification::digest(ContextId context, std::int32_t tag,
                                   std::span<const std::byte> bytes) const {
  if (!is_on || (!is_collective(context) && excepted_tags.contains(tag)) ||
      excepted_communicators.contains(communicator_of(context)))
    return 0;
  return XXH3_64bits(bytes.data(), bytes.size());
}

Result<void> add_exceptions(Verification& verification, std::string_view list) {
  while (true) {
    const auto comma = list.find(',');
    if (auto added = add_exception(verification, list.substr(0, comma)); !added) return added;
    if (comma == list.npos) return {};
    list.remove_prefix(comma + 1);
  }
}

}  // namespace rdmc::replica
