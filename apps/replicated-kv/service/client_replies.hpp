// The commands that Service executes for a client share these replies.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
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

inline void help(ReplyWriter& reply, std::initializer_list<std::string_view> lines) {
  reply.array(lines.size());
  for (const std::string_view line : lines) reply.simple(line);
}

}  // namespace rdmc::kv
