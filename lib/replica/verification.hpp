// A Verification says which messages a run verifies: whether the replicas of a rank compare digests of what
// they send, and for which messages they do not. It is a plain value, and any thread may use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "lib/replica/records.hpp"

namespace rdmc::replica {

struct Verification {
  bool is_on = false;
  std::set<std::int32_t> excepted_tags{};
  /// The numbers of communicators (communicator_of()). Their collective operations are excepted, too.
  std::set<std::uint32_t> excepted_communicators{};

  /// Returns the digest (XXH3, 64 bits) of a message, or 0 if the message is not verified. An exception for a
  /// tag is for messages of the program only, because collective operations have tags of their own.
  std::uint64_t digest(ContextId context, std::int32_t tag, std::span<const std::byte> bytes) const;
};

/// Adds the exceptions of a list such as "tag=5,communicator=2". Errors: invalid_argument.
Result<void> add_exceptions(Verification& verification, std::string_view list);

}  // namespace rdmc::replica
