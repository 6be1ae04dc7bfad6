// A user: who may log in with which password, and what the user may do (Redis 7.0, "ACL"). Users are a part
// of the replicated state. One thread uses them.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "apps/replicated-kv/access/selector.hpp"

namespace rdmc::kv {

class User {
 public:
  /// A new user cannot log in and may do nothing, but may use all channels if `has_all_channels`.
  User(std::string name, std::uint64_t number, bool has_all_channels);

  const std::string& name() const { return name_; }
  /// Identifies the user in events. A user that is removed and made again has another number.
  std::uint64_t number() const { return number_; }
  bool is_enabled() const { return is_enabled_; }
  /// Any password is right.
  bool needs_no_password() const { return needs_no_password_; }
  const std::vector<std::string>& passwords() const { return passwords_; }
  /// The first selector is the one of the rules outside of parentheses.
  const std::vector<Selector>& selectors() const { return selectors_; }
  std::vector<std::string_view> flags() const;

  /// Applies a rule. A password in it must be a digest (with_digests()). `all_channels` says what `reset`
  /// permits.
  std::expected<void, RuleError> apply(std::string_view rule, bool all_channels);
  bool accepts(std::string_view digest) const;

  /// If the request is denied because of a key or a channel, `index` gets the index of the word.
  Permission check(CheckedRequest& request, std::size_t& index) const;
  /// Returns true if the user may give the command, and may also read all keys. SORT needs this.
  bool check_with_all_keys(CheckedRequest& request) const;
  bool permits_channel(std::string_view channel, bool is_pattern) const;
  bool permits_everything() const { return permits_everything_; }

  /// The rules, as Redis writes them. They begin with the flags.
  const std::string& text() const;
  std::size_t bytes() const;

  void save(std::vector<std::byte>& out) const;
  static User load(VarintReader& in);
  /// Makes this user like another one, except for the name and the number.
  void take_rules(const User& other);

 private:
  enum class Payload : std::uint8_t { unspecified, skipped, sanitized };

  std::string name_;
  std::uint64_t number_;
  bool is_enabled_ = false, needs_no_password_ = false, permits_everything_ = false;
  Payload payload_ = Payload::unspecified;
  std::vector<std::string> passwords_;  // digests
  std::vector<Selector> selectors_;
  mutable std::string text_;  // empty if it must be made
};

/// The rules of ACL SETUSER, with selectors as one rule each, and with digests instead of passwords. Errors:
/// the word with a parenthesis that has no partner.
std::expected<std::vector<std::string>, std::string> with_digests(Arguments rules);

}  // namespace rdmc::kv
