#include "apps/replicated-kv/access/acl_file.hpp"

#include <set>
#include <utility>
#include <vector>

namespace rdmc::kv {

namespace {

std::vector<std::string_view> split_at(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string_view trimmed(std::string_view line) {
  constexpr std::string_view kSpaces = " \t\r\n";
  const std::size_t first = line.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(kSpaces) - first + 1);
}

}  // namespace

class AclFileParser {
 public:
  AclFileParser(std::string_view file_name, bool all_channels) : name_(file_name) {
    users_.permit_new_users_all_channels(all_channels);
  }

  void parse(std::string_view line, std::size_t number) {
    line = trimmed(line);
    if (line.empty()) return;
    const std::string place = name_ + ":" + std::to_string(number);
    const auto words = split_at(line, ' ');
    if (words[0] != "user" || words.size() < 2) {
      errors_ += place + " should start with user keyword followed by the username. ";
      return;
    }
    if (words[1].size() > Users::kMostNameBytes) {
      errors_ += place + ": The name of a user may have at most " + std::to_string(Users::kMostNameBytes) +
                 " bytes. ";
      return;
    }
    if (!is_plain_name(words[1])) {
      errors_ += "'" + place + ": username '" + std::string(words[1]) + "' contains invalid characters. ";
      return;
    }
    if (!seen_.insert(words[1]).second) {
      errors_ += "WARNING: Duplicate user '" + std::string(words[1]) + "' found on line " +
                 std::to_string(number) + ". ";
      return;
    }
    if (seen_.size() > Users::kMostUsers) {
      errors_ += place + ": There may be at most " + std::to_string(Users::kMostUsers) + " users. ";
      return;
    }
    const auto rules = with_digests(std::span(words).subspan(2));
    if (!rules) {
      errors_ += place + ": Unmatched parenthesis in selector definition.";
      return;
    }
    apply(users_.make(words[1]), *rules, place);
  }

  std::expected<Users, std::string> finish() {
    if (!errors_.empty())
      return std::unexpected(
          errors_ +
          "WARNING: ACL errors detected, no change to the previously active ACL rules was performed");
    users_.update();
    return std::move(users_);
  }

 private:
  void apply(User& user, const std::vector<std::string>& rules, const std::string& place) {
    bool has_error = false;
    for (const std::string& rule : rules) {
      const auto applied = user.apply(trimmed(rule), users_.permits_new_users_all_channels());
      if (applied) continue;
      const std::string why(text_of(applied.error()));
      if (applied.error() == RuleError::unknown_command)
        errors_ += place + ": Error in applying operation '" + rule + "': " + why + ". ";
      else if (!std::exchange(has_error, true))
        errors_ += place + ": " + why + ". ";
    }
    if (user.bytes() > Users::kMostUserBytes)
      errors_ += place + ": The rules of a user may have at most " + std::to_string(Users::kMostUserBytes) +
                 " bytes. ";
  }

  const std::string name_;
  Users users_;
  std::set<std::string_view> seen_;  // words of the text
  std::string errors_;
};

std::expected<Users, std::string> parse_acl_file(std::string_view text, std::string_view file_name,
                                                 bool all_channels) {
  AclFileParser parser(file_name, all_channels);
  std::size_t number = 0;
  for (const std::string_view line : split_at(text, '\n')) parser.parse(line, ++number);
  return parser.finish();
}

std::string acl_line_of(const User& user) {
  return "user " + user.name() + " " + user.text();
}

std::string acl_file_of(const Users& users) {
  std::string text;
  for (const auto& [name, user] : users.all()) text += acl_line_of(user) + "\n";
  return text;
}

}  // namespace rdmc::kv
