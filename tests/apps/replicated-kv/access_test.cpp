// The rules of access control, without a service. tests/system/kv_acl_rules_test.py compares them with Redis.
#include <rapidcheck/boost_test.h>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "apps/replicated-kv/access/acl_file.hpp"
#include "apps/replicated-kv/access/acl_log.hpp"
#include "apps/replicated-kv/access/password.hpp"

BOOST_AUTO_TEST_SUITE(access_test)

using namespace rdmc;
using namespace rdmc::kv;

namespace {

using Rules = std::vector<std::string>;

rc::Gen<std::string> name_of_command() {
  return rc::gen::map(rc::gen::inRange<std::size_t>(0, all_acl_commands().size()),
                      [](std::size_t index) { return std::string(all_acl_commands()[index].name); });
}

rc::Gen<std::string> rule_of_selector() {
  const auto category = rc::gen::map(
      rc::gen::elementOf(std::vector<std::string_view>(kCategoryNames.begin(), kCategoryNames.end())),
      [](std::string_view name) { return "@" + std::string(name); });
  const auto command = rc::gen::oneOf(name_of_command(), category);
  return rc::gen::oneOf(rc::gen::map(command, [](const std::string& name) { return "+" + name; }),
                        rc::gen::map(command, [](const std::string& name) { return "-" + name; }),
                        rc::gen::elementOf(Rules{"+@all", "-@all", "~*", "allkeys", "resetkeys", "~a:*",
                                                 "%R~b", "%W~b", "%RW~c*", "&*", "resetchannels", "&news",
                                                 "&n?", "+select|0", "+select|1", "+get|x"}));
}

rc::Gen<std::string> rule() {
  return rc::gen::oneOf(
      rule_of_selector(), rule_of_selector(),
      rc::gen::elementOf(Rules{"on", "off", "nopass", "resetpass", ">one", ">two", "<one", "<two",
                               "clearselectors", "sanitize-payload", "skip-sanitize-payload", "reset"}),
      rc::gen::map(rc::gen::container<Rules>(rule_of_selector()), [](const Rules& rules) {
        std::string text = "(";
        for (const std::string& one : rules) text += (text.size() == 1 ? "" : " ") + one;
        return text + ")";
      }));
}

/// Applies the rules that are right, and leaves out the others.
User user_with(const Rules& rules) {
  User user("bob", 2, false);
  const std::vector<std::string_view> words(rules.begin(), rules.end());
  const auto changed = with_digests(words);
  RC_ASSERT(changed.has_value());
  for (const std::string& one : *changed) static_cast<void>(user.apply(one, false));
  return user;
}

Bytes saved(const User& user) {
  Bytes bytes;
  user.save(bytes);
  return bytes;
}

}  // namespace

RC_BOOST_PROP(a_saved_user_is_the_same_when_it_is_loaded, ()) {
  const User user = user_with(*rc::gen::container<Rules>(rule()));
  const Bytes bytes = saved(user);
  VarintReader in(bytes);
  const User loaded = User::load(in);
  RC_ASSERT(in.is_done());
  RC_ASSERT(loaded.text() == user.text());
  RC_ASSERT(saved(loaded) == bytes);
}

RC_BOOST_PROP(the_text_of_a_user_gives_the_user_again, ()) {
  const User user = user_with(*rc::gen::container<Rules>(rule()));
  // Redis refuses a pattern after "~*", also if the text has it because of %RW~*. The generator has none.
  const auto parsed = parse_acl_file(acl_line_of(user), "file", false);
  RC_ASSERT(parsed.has_value());
  RC_ASSERT(parsed->find("bob")->text() == user.text());
}

RC_BOOST_PROP(damaged_users_are_refused_and_do_no_harm, ()) {
  Users users;
  static_cast<void>(
      users.set("bob", std::to_array<std::string_view>({"on", "+get", "~a", "&b", "(+set ~c)"})));
  Bytes bytes;
  users.save(bytes);
  const auto at = *rc::gen::inRange<std::size_t>(0, bytes.size());
  bytes[at] = static_cast<std::byte>(*rc::gen::arbitrary<std::uint8_t>());
  bytes.resize(*rc::gen::inRange<std::size_t>(0, bytes.size() + 1));
  VarintReader in(bytes);
  Users loaded;
  static_cast<void>(loaded.load(in));
  RC_ASSERT(loaded.find(Users::kDefaultNumber) != nullptr);
}

RC_BOOST_PROP(keys_and_channels_are_words_of_the_request, ()) {
  const auto word = rc::gen::elementOf(Rules{"0", "1", "2", "3", "-1", "9223372036854775807", "store",
                                             "STORE", "get", "keys", "streams", "by", "limit", "set",
                                             "overflow", "auth", "auth2", "x", ""});
  Rules request = *rc::gen::container<Rules>(word);
  request.insert(request.begin(), *name_of_command());
  std::vector<std::string_view> words(request.begin(), request.end());
  const AclCommand& command = *find_acl_command(words[0]);
  if (const auto bar = words[0].find('|'); bar != std::string_view::npos)
    words.insert(words.begin() + 1, words[0].substr(bar + 1));
  for (const KeyWord& key : key_words(command, words)) RC_ASSERT(key.index >= 1 && key.index < words.size());
  for (const ChannelWord& channel : channel_words(command, words))
    RC_ASSERT(channel.index >= 1 && channel.index < words.size());
}

BOOST_AUTO_TEST_CASE(every_command_is_in_the_table_of_access_control) {
  for (const Command* const command : all_commands()) {
    // Commands of this service alone are for users who may do everything.
    if (command->name.starts_with("rdmc.")) continue;
    const AclCommand* const row = find_acl_command(command->name);
    BOOST_REQUIRE_MESSAGE(row != nullptr, command->name);
    BOOST_TEST_CONTEXT(command->name) {
      BOOST_TEST(row->arity == command->arity);
      const KeySpec& key = row->keys[0];
      if (command->has(flag::kRead | flag::kWrite) && command->step != 0 && !row->has_subcommands)
        BOOST_TEST((key.uses != 0));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_password_is_known_by_its_sha256_digest) {
  BOOST_TEST(digest_of("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  BOOST_TEST(is_digest(digest_of("")));
  BOOST_TEST(!is_digest(std::string(64, 'A')));
  BOOST_TEST(!is_digest(std::string(63, 'a')));
  BOOST_TEST(is_same_digest(digest_of("a"), digest_of("a")));
  BOOST_TEST(!is_same_digest(digest_of("a"), digest_of("b")));
}

BOOST_AUTO_TEST_CASE(users_have_limits) {
  Users users;
  const std::string pattern = "~" + std::string(Users::kMostUserBytes, 'x');
  BOOST_TEST(!users.set("bob", std::to_array<std::string_view>({pattern})).has_value());
  BOOST_TEST((users.find("bob") == nullptr));
  std::size_t made = 1;
  while (users.set(std::to_string(made), {}).has_value()) ++made;
  BOOST_TEST(made == Users::kMostUsers);
  BOOST_TEST(users.remove("1"));
  BOOST_TEST(users.set("bob", {}).has_value());
}

BOOST_AUTO_TEST_CASE(a_user_that_is_made_again_has_another_number) {
  Users users;
  BOOST_TEST(users.set("bob", {}).has_value());
  const auto number = users.find("bob")->number();
  BOOST_TEST(users.remove("bob"));
  BOOST_TEST(users.set("bob", {}).has_value());
  BOOST_TEST(users.find("bob")->number() != number);
  BOOST_TEST((users.find(number) == nullptr));
}

BOOST_AUTO_TEST_CASE(an_acl_file_with_an_error_changes_nothing_and_names_the_line) {
  const auto parsed =
      parse_acl_file("user a on >secret +@all\n\nuser b +nope\nuser a off\nalice\nuser c (+get", "f", false);
  BOOST_REQUIRE(!parsed.has_value());
  BOOST_TEST(parsed.error() ==
             "f:3: Error in applying operation '+nope': Unknown command or category name in ACL. "
             "WARNING: Duplicate user 'a' found on line 4. "
             "f:5 should start with user keyword followed by the username. "
             "f:6: Unmatched parenthesis in selector definition."
             "WARNING: ACL errors detected, no change to the previously active ACL rules was performed");
}

BOOST_AUTO_TEST_CASE(the_log_counts_events_that_are_alike_and_has_a_limit) {
  AclLog log;
  const auto entry = [](std::string object, Milliseconds time) {
    return AclLog::Entry{AclLog::Reason::key, AclLog::Context::toplevel, std::move(object), "bob", time, ""};
  };
  log.add(entry("a", 0), 3);
  log.add(entry("b", 1), 3);
  log.add(entry("a", 60'000), 3);
  BOOST_TEST(log.entries().size() == 2u);
  BOOST_TEST(log.entries()[0].count == 2u);
  log.add(entry("b", 60'002), 3);
  BOOST_TEST(log.entries().size() == 3u);
  log.add(entry(std::string(100'000, 'x'), 60'002), 3);
  BOOST_TEST(log.entries().size() == 3u);
  BOOST_TEST(log.entries()[0].object.size() == AclLog::kMostNameBytes);
}

BOOST_AUTO_TEST_SUITE_END()
