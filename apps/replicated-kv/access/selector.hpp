// A selector is a set of commands, key patterns and channel patterns that are permitted together (Redis 7.0,
// "ACL", "Key permissions and selectors"). Each user has one, and may have more. A selector is a part of the
// replicated state: what it does follows only from the rules that were applied to it. One thread uses it.
#pragma once

#include <bitset>
#include <cstdint>
#include <expected>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/replicated-kv/access/acl_command.hpp"
#include "dataplane/base/varint.hpp"

namespace rdmc::kv {

/// The reasons why a rule is refused.
enum class RuleError : std::uint8_t {
  unknown_command,
  syntax,
  pattern_after_all_keys,
  pattern_after_all_channels,
  no_such_password,
  wrong_digest,
  first_argument_of_subcommand
};
/// The text of Redis for the error.
std::string_view text_of(RuleError error);

/// The result of a check, in the order in which Redis chooses among the results of several selectors.
enum class Permission : std::uint8_t { granted, denied_command, denied_key, denied_channel };

/// A request whose permission is checked. It finds the keys once for all selectors.
class CheckedRequest {
 public:
  /// Both must exist longer.
  CheckedRequest(const AclCommand& called, Arguments request) : command(called), words(request) {}
  const std::vector<KeyWord>& keys();

  const AclCommand& command;
  const Arguments words;

 private:
  std::optional<std::vector<KeyWord>> keys_;
};

class Selector {
 public:
  /// A new selector permits no command and no key.
  explicit Selector(bool has_all_channels) : has_all_channels_(has_all_channels) {}

  std::expected<void, RuleError> apply(std::string_view rule);

  /// If the request is denied because of a key or a channel, `index` gets the index of the word.
  Permission check(CheckedRequest& request, std::size_t& index) const;
  bool permits_everything() const;
  /// Returns true if every key may be read.
  bool may_read_all_keys() const;
  bool has_all_channels() const { return has_all_channels_; }
  bool permits_channel(std::string_view channel, bool is_pattern) const;

  // The rules, as Redis writes them.
  std::string commands_text() const;
  std::string keys_text() const;
  std::string channels_text() const;
  std::string text() const;
  /// The bytes of the patterns and words that it keeps, about.
  std::size_t bytes() const;

  void save(std::vector<std::byte>& out) const;
  void load(VarintReader& in);

  /// The table of commands has at most this many.
  static constexpr std::size_t kMostCommands = 512;

 private:
  static constexpr std::uint8_t kMayRead = 1, kMayWrite = 2;
  struct KeyPattern {
    std::string pattern;
    std::uint8_t may;
  };
  using Commands = std::bitset<kMostCommands>;
  friend struct CategoryCommands;

  std::expected<void, RuleError> apply_command(std::string_view rule);
  std::expected<void, RuleError> apply_key_pattern(std::string_view rule);
  void set_all_commands(bool value);
  void set_command(const AclCommand& command, bool value);
  bool set_category(std::string_view name, bool value);
  bool permits_command(const AclCommand& command, Arguments words) const;
  bool permits_key(std::string_view key, std::uint16_t uses) const;

  Commands commands_;
  /// The rules begin with +@all. So the selector would also permit commands that are added later.
  bool permits_future_commands_ = false;
  /// The second words with which a command is permitted, by the number of a command that is not permitted in
  /// general. Upper and lower case are the same.
  std::map<int, std::vector<std::string>> first_arguments_;
  bool has_all_keys_ = false, has_all_channels_;
  std::vector<KeyPattern> keys_;
  std::vector<std::string> channels_;
};

/// Returns true if a name or pattern has no white space and no null character.
bool is_plain_name(std::string_view text);

}  // namespace rdmc::kv
