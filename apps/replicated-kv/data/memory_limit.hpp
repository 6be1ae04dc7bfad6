// The limit for the memory of keys and values, and which keys may be evicted to keep it. All servers of a
// service keep the limit alike. The functions are pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace rdmc::kv {

struct MemoryLimit {
  /// A policy says which keys are evicted first. The numbers are in saved states.
  enum class Policy : std::uint8_t {
    none = 0,
    least_recent = 1,
    least_frequent = 2,
    random = 3,
    deadline = 4
  };

  std::size_t most = 0;  ///< in bytes; 0: no limit
  Policy policy = Policy::none;
  bool only_with_deadline = false;  ///< only keys with a deadline may be evicted
  bool is_set = false;              ///< somebody has set the limit in this state

  friend bool operator==(const MemoryLimit&, const MemoryLimit&) = default;
};

struct NamedPolicy {
  std::string_view name;
  MemoryLimit::Policy policy;
  bool only_with_deadline;
};
/// The policies in the order in which Redis names them.
inline constexpr std::array<NamedPolicy, 8> kPolicies{{
    {"volatile-lru", MemoryLimit::Policy::least_recent, true},
    {"volatile-lfu", MemoryLimit::Policy::least_frequent, true},
    {"volatile-random", MemoryLimit::Policy::random, true},
    {"volatile-ttl", MemoryLimit::Policy::deadline, true},
    {"allkeys-lru", MemoryLimit::Policy::least_recent, false},
    {"allkeys-lfu", MemoryLimit::Policy::least_frequent, false},
    {"allkeys-random", MemoryLimit::Policy::random, false},
    {"noeviction", MemoryLimit::Policy::none, false},
}};

}  // namespace rdmc::kv
