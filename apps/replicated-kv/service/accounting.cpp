// This file has the part of Service that counts what it does, for INFO, SLOWLOG and LATENCY.
#include <algorithm>
#include <array>

#include "apps/replicated-kv/commands/arguments.hpp"
#include "apps/replicated-kv/service/service.hpp"

namespace rdmc::kv {

namespace {

/// The commands whose second word is the name of a subcommand.
constexpr std::array<std::string_view, 11> kContainers{"acl",    "client",   "command", "config",
                                                       "debug",  "function", "latency", "memory",
                                                       "object", "pubsub",   "slowlog"};
constexpr std::size_t kMostSubcommandBytes = 24;

bool is_container(const Command& command) {
  return std::ranges::find(kContainers, command.name) != kContainers.end();
}

/// The words for the slow log. Words about passwords are left out, also if they are digests, because more
/// people may read this log than the passwords.
Words without_passwords(const Command& command, Arguments words) {
  constexpr std::string_view kRedacted = "(redacted)";
  Words shown(words.begin(), words.end());
  const auto hide_from = [&](std::size_t first) {
    std::ranges::fill(shown.begin() + static_cast<std::ptrdiff_t>(std::min(first, shown.size())), shown.end(),
                      kRedacted);
  };
  if (command.name == "auth") hide_from(1);
  if (command.name == "acl" && words.size() > 1 &&
      (is_word(words[1], "setuser") || is_word(words[1], "load")))
    hide_from(2);
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (command.name == "hello" && is_word(words[i], "auth")) hide_from(i + 1);
    if (command.name == "config" && is_word(words[i], "requirepass")) hide_from(i + 1);
  }
  return shown;
}

}  // namespace

/// A subcommand that does not exist is counted as its command.
void Service::note_executed(const Command& command, Arguments words, std::uint64_t took, bool has_failed,
                            const ReplyWriter& reply) {
  if (is_container(command) && !has_failed && words.size() > 1 && words[1].size() <= kMostSubcommandBytes)
    statistics_.executed(std::string(command.name) + "|" + to_lower(words[1]), took, has_failed);
  else
    statistics_.executed(command.name, took, has_failed);
  if (has_failed) statistics_.error(reply.error_code());
  if (slow_after_ < 0 || took < static_cast<std::uint64_t>(slow_after_) || executing_ == nullptr) return;
  slow_log_.add({.seconds = now_.wall / 1000,
                 .microseconds = took,
                 .address = executing_->address,
                 .client = executing_->name},
                without_passwords(command, words), most_slow_);
}

void Service::note_rejected(const Command& command, const ReplyWriter& reply) {
  statistics_.rejected(command.name);
  statistics_.error(reply.error_code());
}

/// Refuses to execute a command.
void Service::reject(const Command& command, std::string_view error, ReplyWriter& reply) {
  const bool is_of_client = !reply.is_muted();
  reply.error(error);
  if (is_of_client) note_rejected(command, reply);
}

void Service::run_for_client(Client& client, const Command& command, Arguments words, ReplyWriter& reply) {
  const Executing executing(executing_, &client);
  const std::uint64_t begun = microseconds();
  const std::size_t errors = reply.errors();
  if (is_for_all_servers(command, words))
    change_at_all_servers(words, &client, reply);
  else
    (this->*client_table().at(command.name))(client, words, reply);
  note_executed(command, words, microseconds() - begun, reply.errors() != errors, reply);
}

void Service::look_at_rates() {
  request_rate_.look(requests_, now_.steady);
  input_rate_.look(input_bytes_, now_.steady);
  output_rate_.look(output_bytes_, now_.steady);
  most_used_ = std::max(most_used_, databases_->memory().used());
}

}  // namespace rdmc::kv
