// These tests are about what an operator gets to know: HELP, INFO persistence, LASTSAVE, and the lines for
// the log.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "apps/replicated-kv/access/acl_command.hpp"
#include "apps/replicated-kv/service/service.hpp"
#include "tests/apps/replicated-kv/lone_servers.hpp"

BOOST_AUTO_TEST_SUITE(operation_test)

using namespace rdmc;
using namespace rdmc::kv;
using namespace rdmc::kv::testing;

namespace {

/// The lines of a reply to HELP, or nothing if the reply is something else.
std::vector<std::string> lines_of_help(const std::string& reply) {
  std::vector<std::string> lines;
  if (!reply.starts_with('*')) return lines;
  for (std::size_t at = reply.find("\r\n") + 2; at < reply.size();) {
    const std::size_t end = reply.find("\r\n", at);
    lines.push_back(reply.substr(at + 1, end - at - 1));
    at = end + 2;
  }
  return lines;
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

bool has_line(const std::vector<std::string>& lines, std::string_view begin) {
  return std::ranges::any_of(lines, [&](const std::string& line) { return line.starts_with(begin); });
}

std::string field(Alone& server, const std::string& name) {
  const std::string text = server("INFO persistence");
  const std::size_t at = text.find("\n" + name + ":");
  if (at == std::string::npos) return "missing";
  const std::size_t begin = at + name.size() + 2;
  return text.substr(begin, text.find('\r', begin) - begin);
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_command_with_subcommands_has_help_which_names_only_subcommands_that_exist) {
  Alone server;
  std::size_t checked = 0;
  for (const Command* const command : all_commands()) {
    const AclCommand* const known = find_acl_command(command->name);
    const bool has_subcommands = known != nullptr && known->has_subcommands;
    if (!has_subcommands && command->name != "debug") continue;
    BOOST_TEST_CONTEXT(command->name) {
      const std::string name(command->name);
      const auto lines = lines_of_help(server(name + " HELP"));
      BOOST_REQUIRE(lines.size() > 3);
      BOOST_TEST(lines[0] == upper(name) + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
      BOOST_TEST(lines[lines.size() - 2] == "HELP");
      for (std::size_t i = 1; i < lines.size(); ++i) {
        if (lines[i].starts_with(' ') || lines[i].starts_with('(')) continue;
        const std::string subcommand = lines[i].substr(0, lines[i].find(' '));
        for (const std::string words : {"", " a", " a b"}) {
          const std::string reply = server(name + " " + subcommand + words);
          BOOST_TEST((!reply.starts_with("-ERR unknown subcommand '")), reply);
        }
      }
      // An error names this help.
      const std::string error = server(name + " NO-SUCH-ONE");
      if (name != "function") BOOST_TEST(error.find("Try " + upper(name) + " HELP.") != std::string::npos);
      ++checked;
    }
  }
  BOOST_TEST(checked == 11u);
}

BOOST_AUTO_TEST_CASE(who_has_no_acl_file_learns_the_option_for_one) {
  Alone server;
  BOOST_TEST(server("ACL SAVE").find("--acl-file") != std::string::npos);
  BOOST_TEST(server("ACL SAVE").find("REWRITE") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(info_and_lastsave_tell_of_the_copies_on_disk) {
  Alone server;
  BOOST_TEST(field(server, "aof_enabled") == "0");
  BOOST_TEST(field(server, "aof_last_bgrewrite_status") == "missing");
  server("SET a 1");
  LogInfo log{.is_there = true, .copied_at = 1'600'000'000};
  server.service.set_log_info(log);
  BOOST_TEST(server("LASTSAVE") == ":1600000000\r\n");
  BOOST_TEST(field(server, "rdb_last_save_time") == "1600000000");
  BOOST_TEST(field(server, "aof_last_bgrewrite_status") == "ok");
  BOOST_TEST(field(server, "aof_last_rewrite_time_sec") == "-1");
  BOOST_TEST(field(server, "aof_current_rewrite_time_sec") == "-1");
  BOOST_TEST(field(server, "aof_rewrite_in_progress") == "0");

  server("BGREWRITEAOF");
  BOOST_TEST(field(server, "aof_rewrite_scheduled") == "1");
  BOOST_TEST(server.service.take_copy_request());
  log.copy_began_at = 1'700'000'000'000;
  server.service.set_log_info(log);
  server("SET b 1");
  server.pass(5000);
  server("PING");
  BOOST_TEST(field(server, "aof_rewrite_scheduled") == "0");
  BOOST_TEST(field(server, "aof_rewrite_in_progress") == "1");
  BOOST_TEST(field(server, "aof_current_rewrite_time_sec") == "5");
  log = {.is_there = true, .copy_took = 5000, .copied_at = 1'700'000'005};
  server.service.set_log_info(log);
  BOOST_TEST(server("LASTSAVE") == ":1700000005\r\n");
  BOOST_TEST(field(server, "aof_last_rewrite_time_sec") == "5");
  // The copy has the first write, but not the second one.
  BOOST_TEST(field(server, "rdb_changes_since_last_save") == "1");

  log = {.is_there = true,
         .copy_took = 7000,
         .has_copy_failed = true,
         .copied_at = 1'700'000'005,
         .hangs = true,
         .failure = "no"};
  server.service.set_log_info(log);
  BOOST_TEST(server("LASTSAVE") == ":1700000005\r\n");
  BOOST_TEST(field(server, "aof_last_bgrewrite_status") == "err");
  BOOST_TEST(field(server, "rdb_last_bgsave_status") == "err");
  BOOST_TEST(field(server, "aof_last_write_status") == "err");
  BOOST_TEST(field(server, "rdmc_log_hangs") == "1");
  const auto figures = server.service.figures();
  const auto value = [&](std::string_view name) {
    const auto found = std::ranges::find(figures, name, &Figure::name);
    return found == figures.end() ? -1 : found->value;
  };
  BOOST_TEST(value("rdmc_kv_log_refuses_writes") == 1);
  BOOST_TEST(value("rdmc_kv_log_hangs") == 1);
  BOOST_TEST(value("rdmc_kv_copy_failed") == 1);
  BOOST_TEST(value("rdmc_kv_copy_written_at_seconds") == 1'700'000'005);
}

BOOST_AUTO_TEST_CASE(without_a_copy_lastsave_is_the_start_of_the_server_as_in_redis) {
  Service service({.seed = 7, .started_wall = 1'500'000'000'123});
  Client& client = service.connect("test", 1'700'000'000'000);
  const std::string_view request = "LASTSAVE\r\n";
  std::ranges::copy(request, client.parser.space(request.size()).data());
  client.parser.received(request.size());
  service.execute(client, 1'700'000'000'000);
  BOOST_TEST(client.output == ":1500000000\r\n");
}

BOOST_AUTO_TEST_CASE(the_log_tells_who_is_the_main_and_when_requests_get_answers) {
  Ordered server;
  server.service.end_turn(server.now);
  BOOST_TEST(
      server.service.take_news() ==
          std::vector<std::string>{"requests get answers: 2 of 3 servers have all data, and 2 are needed"},
      boost::test_tools::per_element());
  const auto status = [&](bool is_main, std::uint32_t complete) {
    server.service.on_status(
        {.is_main = is_main, .is_complete = true, .complete_replicas = complete, .stored_replicas = complete},
        server.now);
    server.service.end_turn(server.now);
  };
  status(true, 2);
  BOOST_TEST(server.service.take_news() == std::vector<std::string>{"this server is the main"},
             boost::test_tools::per_element());
  status(true, 1);
  BOOST_TEST(server.service.take_warnings() ==
                 std::vector<std::string>{
                     "requests get no answers any more: 1 of 3 servers has all data, and 2 are needed"},
             boost::test_tools::per_element());
  status(false, 2);
  BOOST_TEST(
      server.service.take_news() ==
          (std::vector<std::string>{"this server is not the main any more",
                                    "requests get answers: 2 of 3 servers have all data, and 2 are needed"}),
      boost::test_tools::per_element());
  status(false, 3);
  BOOST_TEST(server.service.take_news() ==
                 std::vector<std::string>{"3 of 3 servers have all data, and 2 are needed"},
             boost::test_tools::per_element());
  BOOST_TEST(server.service.take_warnings().empty());
  status(false, 2);
  BOOST_TEST(server.service.take_warnings() ==
                 std::vector<std::string>{"2 of 3 servers have all data, and 2 are needed"},
             boost::test_tools::per_element());
  status(false, 2);
  // Requests as such leave no lines.
  for (int i = 0; i < 10; ++i) server.done(server.service.connect("test", server.now), "SET a 1\r\n");
  BOOST_TEST(server.service.take_news().empty());
  BOOST_TEST(server.service.take_warnings().empty());
  server.service.end(server.now, Service::AtEnd::drop_state);
  server.service.end_turn(server.now);
  const auto warnings = server.service.take_warnings();
  BOOST_REQUIRE(warnings.size() == 1);
  BOOST_TEST(warnings[0] == "requests get no answers any more: this server does not take part at present");
}

BOOST_AUTO_TEST_CASE(a_server_that_gets_the_state_says_that_its_own_users_and_limit_do_not_count) {
  Ordered before;
  before.service.set_memory_limit("100mb", "allkeys-lru");
  Client& client = before.service.connect("test", before.now);
  before.done(client, "CONFIG SET maxmemory 1gb\r\n");
  Bytes state = content(before.service);
  // Returns the warnings.
  const auto load = [&](Ordered& server) {
    BOOST_REQUIRE(server.service.on_load({.step = LoadState::Step::begin}));
    BOOST_REQUIRE(server.service.on_load({.step = LoadState::Step::bytes, .bytes = state}));
    BOOST_REQUIRE(server.service.on_load({.step = LoadState::Step::end, .position = before.executed}));
    server.service.end_turn(server.now);
    auto warnings = server.service.take_warnings();
    // The users of a file may still replace those of the data.
    BOOST_TEST(!has_line(warnings, "requirepass"));
    server.now += 3000;
    server.service.end_turn(server.now);
    std::ranges::move(server.service.take_warnings(), std::back_inserter(warnings));
    // No other server answers in this test.
    std::erase_if(warnings, [](const auto& line) { return line.contains("has waited for too long"); });
    return warnings;
  };
  Ordered plain;
  BOOST_TEST(load(plain).empty());
  BOOST_TEST(has_line(plain.service.take_news(), "this server has got all data from another server: 0 keys"));

  Ordered other;
  Users users;
  const auto rules = with_digests(std::to_array<std::string_view>({"resetpass", ">secret"}));
  BOOST_REQUIRE(users.set(Users::kDefault, std::vector<std::string_view>(rules->begin(), rules->end())));
  other.service.set_first_users(std::move(users));
  other.service.set_memory_limit("1mb", "noeviction");
  const auto warnings = load(other);
  BOOST_TEST(warnings.size() == 2u);
  BOOST_TEST(has_line(warnings, "the service has no password, and that of --requirepass-file is not used"));
  BOOST_TEST(has_line(warnings,
                      "--maxmemory and --maxmemory-policy have no effect, because the data has a limit "
                      "already: 1073741824 bytes, noeviction"));
  other.service.end_turn(other.now);
  BOOST_TEST(other.service.take_warnings().empty());

  Ordered same;
  same.service.set_memory_limit("1gb", "noeviction");
  BOOST_TEST(load(same).empty());

  before.done(client, "CONFIG SET requirepass another\r\n");
  state = content(before.service);
  Ordered differs;
  Users own;
  BOOST_REQUIRE(own.set(Users::kDefault, std::vector<std::string_view>(rules->begin(), rules->end())));
  differs.service.set_first_users(std::move(own));
  BOOST_TEST(
      has_line(load(differs), "the password of the default user differs from that of --requirepass-file"));
}

BOOST_AUTO_TEST_CASE(
    a_service_that_has_begun_without_a_limit_has_none_when_a_server_with_one_becomes_the_main) {
  const auto become_main = [](Ordered& server) {
    server.service.on_status(
        {.is_main = true, .is_complete = true, .complete_replicas = 2, .stored_replicas = 2}, server.now);
    server.service.end_turn(server.now);
    server.execute();
    server.service.on_stable(server.executed);
  };
  Ordered first, later;
  become_main(first);
  later.service.set_memory_limit("1mb", "allkeys-lru");
  const Bytes state = content(first.service);
  BOOST_REQUIRE(later.service.on_load({.step = LoadState::Step::begin}));
  BOOST_REQUIRE(later.service.on_load({.step = LoadState::Step::bytes, .bytes = state}));
  BOOST_REQUIRE(later.service.on_load({.step = LoadState::Step::end, .position = first.executed}));
  become_main(later);
  BOOST_TEST(has_line(later.service.take_warnings(), "--maxmemory and --maxmemory-policy have no effect"));
  Client& client = later.service.connect("test", later.now);
  BOOST_TEST(later.done(client, "CONFIG GET maxmemory\r\n") == "*2\r\n$9\r\nmaxmemory\r\n$1\r\n0\r\n");
}

BOOST_AUTO_TEST_SUITE_END()
