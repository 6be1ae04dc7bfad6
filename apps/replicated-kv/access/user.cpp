#include "apps/replicated-kv/access/user.hpp"

#include <algorithm>

#include "apps/replicated-kv/access/password.hpp"
#include "apps/replicated-kv/commands/arguments.hpp"
#include "apps/replicated-kv/data/saved.hpp"
#include "apps/replicated-kv/resp/request_parser.hpp"

namespace rdmc::kv {

namespace {

bool is_selector(std::string_view rule) {
  return rule.size() >= 2 && rule.starts_with('(') && rule.ends_with(')');
}

}  // namespace

std::expected<std::vector<std::string>, std::string> with_digests(Arguments rules) {
  std::vector<std::string> merged;
  std::string selector;
  std::string_view opened;
  for (const std::string_view rule : rules) {
    if (rule.starts_with('(') && !rule.ends_with(')')) {
      selector = opened = rule;
    } else if (!opened.empty()) {
      selector += " " + std::string(rule);
      if (!rule.ends_with(')')) continue;
      merged.push_back(std::move(selector));
      opened = {};
    } else if (rule.starts_with('>') || rule.starts_with('<')) {
      merged.push_back((rule[0] == '>' ? "#" : "!") + digest_of(rule.substr(1)));
    } else {
      merged.emplace_back(rule);
    }
  }
  if (!opened.empty())
    return std::unexpected("Unmatched parenthesis in acl selector starting at '" + std::string(opened) +
                           "'.");
  return merged;
}

User::User(std::string name, std::uint64_t number, bool has_all_channels)
    : name_(std::move(name)), number_(number), selectors_{Selector(has_all_channels)} {}

std::expected<void, RuleError> User::apply(std::string_view rule, bool all_channels) {
  text_.clear();
  const auto is = [&](std::string_view name) { return is_word(rule, name); };
  if (rule.empty()) return {};
  if (is("on") || is("off")) {
    is_enabled_ = is("on");
  } else if (is("skip-sanitize-payload") || is("sanitize-payload")) {
    payload_ = is("sanitize-payload") ? Payload::sanitized : Payload::skipped;
  } else if (is("nopass") || is("resetpass")) {
    needs_no_password_ = is("nopass");
    passwords_.clear();
  } else if (rule.starts_with('#') || rule.starts_with('!')) {
    const std::string_view digest = rule.substr(1);
    if (!is_digest(digest)) return std::unexpected(RuleError::wrong_digest);
    const auto known = std::ranges::find(passwords_, digest);
    if (rule.starts_with('!')) {
      if (known == passwords_.end()) return std::unexpected(RuleError::no_such_password);
      passwords_.erase(known);
    } else {
      if (known == passwords_.end()) passwords_.emplace_back(digest);
      needs_no_password_ = false;
    }
  } else if (is_selector(rule)) {
    Selector selector(all_channels);
    std::vector<std::string> words;
    if (!split_line(rule.substr(1, rule.size() - 2), words)) return std::unexpected(RuleError::syntax);
    for (const std::string& word : words)
      if (const auto applied = selector.apply(word); !applied) return applied;
    selectors_.push_back(std::move(selector));
  } else if (is("clearselectors")) {
    selectors_.erase(selectors_.begin() + 1, selectors_.end());
  } else if (is("reset")) {
    *this = User(std::move(name_), number_, all_channels);
    payload_ = Payload::sanitized;
  } else if (const auto applied = selectors_[0].apply(rule); !applied) {
    return applied;
  }
  permits_everything_ = selectors_[0].permits_everything();
  return {};
}

bool User::accepts(std::string_view digest) const {
  if (!is_enabled_) return false;
  bool is_right = needs_no_password_;
  for (const std::string& password : passwords_) is_right |= is_same_digest(password, digest);
  return is_right;
}

Permission User::check(CheckedRequest& request, std::size_t& index) const {
  // Redis names the reason of the selector that came closest, and the last word that none permits.
  Permission worst = Permission::denied_command;
  index = 0;
  std::size_t here = 0;
  for (const Selector& selector : selectors_) {
    const Permission result = selector.check(request, here);
    if (result == Permission::granted) return result;
    if (result > worst || (result == worst && here > index)) {
      worst = result;
      index = here;
    }
  }
  return worst;
}

bool User::check_with_all_keys(CheckedRequest& request) const {
  std::size_t ignored = 0;
  return permits_everything_ || std::ranges::any_of(selectors_, [&](const Selector& selector) {
           return selector.check(request, ignored) == Permission::granted && selector.may_read_all_keys();
         });
}

bool User::permits_channel(std::string_view channel, bool is_pattern) const {
  return std::ranges::any_of(
      selectors_, [&](const Selector& selector) { return selector.permits_channel(channel, is_pattern); });
}

std::vector<std::string_view> User::flags() const {
  std::vector<std::string_view> flags{is_enabled_ ? "on" : "off"};
  if (needs_no_password_) flags.push_back("nopass");
  if (payload_ == Payload::skipped) flags.push_back("skip-sanitize-payload");
  if (payload_ == Payload::sanitized) flags.push_back("sanitize-payload");
  return flags;
}

const std::string& User::text() const {
  if (!text_.empty()) return text_;
  for (const std::string_view flag : flags()) text_ += std::string(flag) + " ";
  for (const std::string& password : passwords_) text_ += "#" + password + " ";
  text_ += selectors_[0].text();
  for (std::size_t i = 1; i < selectors_.size(); ++i) text_ += " (" + selectors_[i].text() + ")";
  return text_;
}

std::size_t User::bytes() const {
  std::size_t bytes = name_.size() + passwords_.size() * (kDigestDigits + sizeof(std::string));
  for (const Selector& selector : selectors_) bytes += selector.bytes();
  return bytes;
}

void User::take_rules(const User& other) {
  User copy = other;
  copy.name_ = std::move(name_);
  copy.number_ = number_;
  *this = std::move(copy);
}

void User::save(std::vector<std::byte>& out) const {
  put_bytes(out, name_);
  put_varint(out, number_);
  put_varint(out, is_enabled_);
  put_varint(out, needs_no_password_);
  put_varint(out, static_cast<std::uint8_t>(payload_));
  put_varint(out, passwords_.size());
  for (const std::string& password : passwords_) put_bytes(out, password);
  put_varint(out, selectors_.size());
  for (const Selector& selector : selectors_) selector.save(out);
}

User User::load(VarintReader& in) {
  std::string name(take_text(in));
  User user(std::move(name), in.number(), false);
  user.is_enabled_ = in.number(1) != 0;
  user.needs_no_password_ = in.number(1) != 0;
  user.payload_ = in.number<Payload>(static_cast<std::uint64_t>(Payload::sanitized));
  for (auto count = in.count(); count > 0 && in.is_good(); --count)
    user.passwords_.emplace_back(take_text(in));
  user.selectors_.clear();
  for (auto count = in.count(); count > 0 && in.is_good(); --count)
    user.selectors_.emplace_back(false).load(in);
  if (user.selectors_.empty()) {
    in.fail();
    user.selectors_.emplace_back(false);
  }
  user.permits_everything_ = user.selectors_[0].permits_everything();
  return user;
}

}  // namespace rdmc::kv
