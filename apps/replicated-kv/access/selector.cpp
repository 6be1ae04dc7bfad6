#include "apps/replicated-kv/access/selector.hpp"

#include <algorithm>

#include "apps/replicated-kv/commands/arguments.hpp"
#include "apps/replicated-kv/data/saved.hpp"

namespace rdmc::kv {

std::string_view text_of(RuleError error) {
  switch (error) {
    case RuleError::unknown_command: return "Unknown command or category name in ACL";
    case RuleError::syntax: return "Syntax error";
    case RuleError::pattern_after_all_keys:
      return "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have "
             "any "
             "effect. Try 'resetkeys' to start with an empty list of patterns";
    case RuleError::pattern_after_all_channels:
      return "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not "
             "have "
             "any effect. Try 'resetchannels' to start with an empty list of channels";
    case RuleError::no_such_password:
      return "The password you are trying to remove from the user does not exist";
    case RuleError::wrong_digest:
      return "The password hash must be exactly 64 characters and contain only lowercase hexadecimal "
             "characters";
    case RuleError::first_argument_of_subcommand:
      return "Allowing first-arg of a subcommand is not supported";
  }
  return "Wrong format";
}

bool is_plain_name(std::string_view text) {
  return std::ranges::none_of(text, [](char c) { return c == ' ' || c == 0 || (c >= '\t' && c <= '\r'); });
}

const std::vector<KeyWord>& CheckedRequest::keys() {
  if (!keys_) keys_ = key_words(command, words);
  return *keys_;
}

// -- Rules --

std::expected<void, RuleError> Selector::apply(std::string_view rule) {
  const auto is = [&](std::string_view one, std::string_view other) {
    return is_word(rule, one) || is_word(rule, other);
  };
  if (is("allkeys", "~*") || is_word(rule, "resetkeys")) {
    has_all_keys_ = !is_word(rule, "resetkeys");
    keys_.clear();
    return {};
  }
  if (is("allchannels", "&*") || is_word(rule, "resetchannels")) {
    has_all_channels_ = !is_word(rule, "resetchannels");
    channels_.clear();
    return {};
  }
  if (is("allcommands", "+@all")) return set_all_commands(true), std::expected<void, RuleError>();
  if (is("nocommands", "-@all")) return set_all_commands(false), std::expected<void, RuleError>();
  if (rule.starts_with('~') || rule.starts_with('%')) return apply_key_pattern(rule);
  if (rule.starts_with('&')) {
    if (has_all_channels_) return std::unexpected(RuleError::pattern_after_all_channels);
    const std::string_view pattern = rule.substr(1);
    if (!is_plain_name(pattern)) return std::unexpected(RuleError::syntax);
    if (std::ranges::find(channels_, pattern) == channels_.end()) channels_.emplace_back(pattern);
    return {};
  }
  if (rule.starts_with('+') || rule.starts_with('-')) return apply_command(rule);
  return std::unexpected(RuleError::syntax);
}

std::expected<void, RuleError> Selector::apply_key_pattern(std::string_view rule) {
  if (has_all_keys_) return std::unexpected(RuleError::pattern_after_all_keys);
  std::uint8_t may = kMayRead | kMayWrite;
  std::size_t at = 1;
  if (rule[0] == '%') {
    may = 0;
    for (bool is_pattern = false; at < rule.size() && !is_pattern; ++at) {
      const char c = rule[at];
      const std::uint8_t more = c == 'R' || c == 'r' ? kMayRead : c == 'W' || c == 'w' ? kMayWrite : 0;
      is_pattern = c == '~';
      if (!is_pattern && (more == 0 || (may & more) != 0)) return std::unexpected(RuleError::syntax);
      may |= more;
    }
    if (may == 0) return std::unexpected(RuleError::syntax);
  }
  const std::string_view pattern = rule.substr(at);
  if (!is_plain_name(pattern)) return std::unexpected(RuleError::syntax);
  const auto known = std::ranges::find(keys_, pattern, &KeyPattern::pattern);
  if (known != keys_.end())
    known->may |= may;
  else
    keys_.push_back({std::string(pattern), may});
  return {};
}

// -- Checks --

bool Selector::permits_command(const AclCommand& command, Arguments words) const {
  // These commands are for clients that are not authenticated yet.
  if (command.name == "auth" || command.name == "hello" || command.name == "quit" || command.name == "reset")
    return true;
  if (commands_[static_cast<std::size_t>(command.id)]) return true;
  const auto first = first_arguments_.find(command.id);
  return words.size() >= 2 && first != first_arguments_.end() &&
         std::ranges::any_of(first->second, [&](const std::string& permitted) {
           return to_lower(words[1]) == to_lower(permitted);
         });
}

bool Selector::permits_key(std::string_view key, std::uint16_t uses) const {
  std::uint8_t needed = 0;
  if ((uses & key_use::kAccess) != 0) needed |= kMayRead;
  if ((uses & (key_use::kInsert | key_use::kDelete | key_use::kUpdate)) != 0) needed |= kMayWrite;
  return std::ranges::any_of(keys_, [&](const KeyPattern& one) {
    return (one.may & needed) == needed && matches(one.pattern, key);
  });
}

bool Selector::permits_channel(std::string_view channel, bool is_pattern) const {
  if (has_all_channels_) return true;
  return std::ranges::any_of(channels_, [&](const std::string& pattern) {
    return is_pattern ? pattern == channel : matches(pattern, channel);
  });
}

Permission Selector::check(CheckedRequest& request, std::size_t& index) const {
  if (!permits_command(request.command, request.words)) return Permission::denied_command;
  if (!has_all_keys_)
    for (const KeyWord& key : request.keys()) {
      if (permits_key(request.words[key.index], key.uses)) continue;
      index = key.index;
      return Permission::denied_key;
    }
  if (!has_all_channels_)
    for (const ChannelWord& channel : channel_words(request.command, request.words)) {
      if (permits_channel(request.words[channel.index], channel.is_pattern)) continue;
      index = channel.index;
      return Permission::denied_channel;
    }
  return Permission::granted;
}

bool Selector::may_read_all_keys() const {
  return has_all_keys_ || std::ranges::any_of(keys_, [](const KeyPattern& one) {
           return (one.may & kMayRead) != 0 && one.pattern == "*";
         });
}

// -- Texts --

std::string Selector::keys_text() const {
  if (has_all_keys_) return "~*";
  std::string text;
  for (const KeyPattern& one : keys_) {
    if (!text.empty()) text += ' ';
    text += one.may == kMayRead ? "%R~" : one.may == kMayWrite ? "%W~" : "~";
    text += one.pattern;
  }
  return text;
}

std::string Selector::channels_text() const {
  if (has_all_channels_) return "&*";
  std::string text;
  for (const std::string& one : channels_) text += (text.empty() ? "&" : " &") + one;
  return text;
}

std::string Selector::text() const {
  std::string text = keys_text();
  if (!text.empty()) text += ' ';
  if (!has_all_channels_) text += channels_.empty() ? "resetchannels" : "resetchannels ";
  return text + channels_text() + " " + commands_text();
}

std::size_t Selector::bytes() const {
  std::size_t bytes = sizeof(Selector);
  for (const KeyPattern& one : keys_) bytes += sizeof(one) + one.pattern.size();
  for (const std::string& one : channels_) bytes += sizeof(one) + one.size();
  for (const auto& [command, words] : first_arguments_)
    for (const std::string& one : words) bytes += sizeof(one) + one.size();
  return bytes;
}

// -- Saved states --

void Selector::save(std::vector<std::byte>& out) const {
  const std::size_t commands = all_acl_commands().size();
  std::string bits((commands + 7) / 8, '\0');
  for (std::size_t i = 0; i < commands; ++i)
    if (commands_[i])
      bits[i / 8] = static_cast<char>(static_cast<unsigned char>(bits[i / 8]) | (1U << (i % 8)));
  put_bytes(out, bits);
  put_varint(out, permits_future_commands_);
  put_varint(out, first_arguments_.size());
  for (const auto& [command, words] : first_arguments_) {
    put_varint(out, static_cast<std::uint64_t>(command));
    put_varint(out, words.size());
    for (const std::string& word : words) put_bytes(out, word);
  }
  put_varint(out, has_all_keys_);
  put_varint(out, has_all_channels_);
  put_varint(out, keys_.size());
  for (const KeyPattern& one : keys_) {
    put_varint(out, one.may);
    put_bytes(out, one.pattern);
  }
  put_varint(out, channels_.size());
  for (const std::string& one : channels_) put_bytes(out, one);
}

void Selector::load(VarintReader& in) {
  const std::size_t commands = all_acl_commands().size();
  const std::string_view bits = take_text(in);
  if (bits.size() != (commands + 7) / 8) return in.fail();
  for (std::size_t i = 0; i < commands; ++i)
    commands_[i] = ((static_cast<unsigned char>(bits[i / 8]) >> (i % 8)) & 1U) != 0;
  permits_future_commands_ = in.number(1) != 0;
  for (auto count = in.count(); count > 0 && in.is_good(); --count) {
    auto& words = first_arguments_[in.number<int>(commands - 1)];
    for (auto size = in.count(); size > 0 && in.is_good(); --size) words.emplace_back(take_text(in));
  }
  has_all_keys_ = in.number(1) != 0;
  has_all_channels_ = in.number(1) != 0;
  for (auto count = in.count(); count > 0 && in.is_good(); --count) {
    const auto may = in.number<std::uint8_t>(kMayRead | kMayWrite);
    keys_.push_back({std::string(take_text(in)), may});
  }
  for (auto count = in.count(); count > 0 && in.is_good(); --count) channels_.emplace_back(take_text(in));
}

}  // namespace rdmc::kv
