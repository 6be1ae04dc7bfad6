// The commands that Service executes for a client share these replies.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "apps/replicated-kv/commands/arguments.hpp"
#include "apps/replicated-kv/resp/reply_writer.hpp"

namespace rdmc::kv {

/// The version of Redis whose commands and replies this service follows.
inline constexpr std::string_view kRedisVersion = "7.0.15";

inline void wrong_arguments(ReplyWriter& reply, std::string_view command) {
  reply.error("ERR wrong number of arguments for '" + std::string(command) + "' command");
}

/// Returns the number, or nullopt after an error reply.
inline std::optional<std::int64_t> integer_or_error(std::string_view word, ReplyWriter& reply) {
  const auto number = to_integer(word);
  if (!number) reply.error(kNotAnInteger);
  return number;
}

inline void unknown_subcommand(ReplyWriter& reply, std::string_view command, std::string_view what) {
  reply.error("ERR unknown subcommand or wrong number of arguments for '" + std::string(what) + "'. Try " +
              std::string(command) + " HELP.");
}

/// Returns why a client may not have this name, or an empty text. The name is copied into the slow log and
/// into the log of users, so it is short.
inline std::string_view error_in_client_name(std::string_view name) {
  constexpr std::size_t kMostClientNameBytes = 1024;
  if (name.size() > kMostClientNameBytes) return "ERR Client names cannot have more than 1024 bytes.";
  if (std::ranges::any_of(name, [](char c) { return c < '!' || c > '~'; }))
    return "ERR Client names cannot contain spaces, newlines or special characters.";
  return {};
}

}  // namespace rdmc::kv
