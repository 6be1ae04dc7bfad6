// The parameters that CONFIG GET and CONFIG SET know, with Redis' names. One thread uses it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "apps/replicated-kv/data/collection.hpp"
#include "apps/replicated-kv/data/memory_limit.hpp"
#include "apps/replicated-kv/service/output_limits.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::kv {

/// Parses a number of bytes with a unit of Redis' configuration, for example "100mb".
std::optional<std::int64_t> size_of(std::string_view text);

class Settings {
 public:
  Settings();

  /// The names and values that match one of the patterns.
  std::map<std::string, std::string> matching(std::span<const std::string_view> patterns) const;
  /// Errors: not_found if there is no such parameter, invalid_argument if the value is wrong,
  /// permission_denied if it cannot be changed while the server runs.
  Result<void> set(std::string_view name, std::string_view value);
  /// True if the parameter is the same at all servers of a service: it belongs to the users (Service keeps
  /// those), or to the limit of memory. Its changes are events.
  static bool is_of_service(std::string_view name) { return is_of_users(name) || is_of_memory_limit(name); }
  static bool is_of_users(std::string_view name);
  static bool is_of_memory_limit(std::string_view name);
  /// The limit of memory that the parameters name.
  MemoryLimit memory_limit() const;
  /// Shows the limit that the servers have agreed on.
  void show(const MemoryLimit& limit);
  /// Sets what the program decides, without a check.
  void fix(std::string_view name, std::string value);
  const std::string& at(std::string_view name) const;
  std::int64_t number(std::string_view name) const;
  EncodingLimits encoding_limits() const;
  const OutputLimits& output_limits() const { return output_limits_; }

 private:
  enum class Kind : std::uint8_t { fixed, number, size, yes_or_no, text, policy, output_limits, other_name };
  struct Setting {
    Kind kind;
    std::string value;  // or the name that counts, if this is another name for it
    std::int64_t least = 0, most = INT64_MAX;
  };
  std::map<std::string, Setting, std::less<>> settings_;
  OutputLimits output_limits_;
};

}  // namespace rdmc::kv
