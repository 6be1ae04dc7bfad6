#include "apps/bcast-cli/options.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(options_test)

using namespace rdmc;
using namespace rdmc::bcast;

namespace {

Result<Command> parsed(const std::vector<std::string>& arguments) {
  return parse_command_line(arguments, [](const std::string& path) -> Result<std::string> {
    return fail(Errc::not_found, "cannot open " + path);
  });
}

template <typename T>
T command(const std::vector<std::string>& arguments) {
  auto result = parsed(arguments);
  BOOST_REQUIRE_MESSAGE(result.has_value(), (result ? "" : result.error().what));
  BOOST_REQUIRE(std::holds_alternative<T>(*result));
  return std::get<T>(std::move(*result));
}

std::string complaint(const std::vector<std::string>& arguments) {
  const auto result = parsed(arguments);
  return result ? "accepted" : result.error().what;
}

bool mentions(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_send_has_a_source_a_destination_and_hosts) {
  const auto send =
      command<SendOptions>({"-w", "n[1-3],m:70", "-x", "n2", "--key-file", "k", "src", "dest/"});
  BOOST_TEST(send.source == "src");
  BOOST_TEST(send.destination == "dest/");
  BOOST_TEST(send.identity.key_file == "k");
  BOOST_REQUIRE(send.hosts.size() == 3u);
  BOOST_TEST(to_string(send.hosts[2]) == "m:70");
  BOOST_TEST(!send.overwrite);
  BOOST_TEST(!send.block_size.has_value());
  BOOST_TEST((send.connect_within == seconds(5)));
  BOOST_TEST((send.suspect_after == kDefaultSuspectAfter));
}

BOOST_AUTO_TEST_CASE(hostlists_given_several_times_add_up) {
  const auto send =
      command<SendOptions>({"--insecure", "-w", "a", "s", "d", "-w", "b,c", "-x", "a", "-x", "c"});
  BOOST_REQUIRE(send.hosts.size() == 1u);
  BOOST_TEST(send.hosts[0].name == "b");
}

BOOST_AUTO_TEST_CASE(every_option_reaches_its_field) {
  const auto send = command<SendOptions>({"--local",
                                          "8",
                                          "--fabric",
                                          "udp",
                                          "--overwrite",
                                          "--encrypt",
                                          "--dscp",
                                          "46",
                                          "--json",
                                          "--dry-run",
                                          "--launch",
                                          "agent",
                                          "--block-size",
                                          "256K",
                                          "--algorithm",
                                          "chain",
                                          "--limit-rate",
                                          "1.5g",
                                          "--connect-within",
                                          "1.5s",
                                          "--suspect-after",
                                          "700ms",
                                          "s",
                                          "d"});
  BOOST_TEST(send.local_receivers == 8u);
  BOOST_TEST(send.fabric.name == "udp");
  BOOST_TEST(send.fabric.encrypt);
  BOOST_TEST(send.fabric.dscp == 46);
  BOOST_TEST(send.overwrite);
  BOOST_TEST(send.json);
  BOOST_TEST(send.dry_run);
  BOOST_TEST(send.block_size.value() == 262144u);
  BOOST_CHECK(send.algorithm == relay::Algorithm::chain);
  BOOST_TEST(send.limit_rate.value() == 1'500'000'000u);
  BOOST_TEST((send.connect_within == milliseconds(1500)));
  BOOST_TEST((send.suspect_after == milliseconds(700)));
}

BOOST_AUTO_TEST_CASE(the_agent_and_the_key_generator_are_named_first) {
  const auto agent =
      command<AgentOptions>({"agent", "--listen", "10.0.0.5", "--root", "/data", "--key-file", "k"});
  BOOST_TEST(to_string(agent.listen) == "10.0.0.5:7700");
  BOOST_TEST(agent.root == "/data");
  BOOST_TEST(agent.identity.key_file == "k");
  BOOST_TEST(agent.fabric.name == "auto");
  BOOST_TEST(to_string(command<AgentOptions>({"agent", "--listen", "[::1]:9", "--root", "/", "--insecure"})
                           .listen) == "[::1]:9");
  BOOST_TEST(command<KeygenOptions>({"keygen", "--json"}).json);
  BOOST_TEST(command<KeygenOptions>({"keygen"}).file == "");
  BOOST_TEST(command<KeygenOptions>({"keygen", "key"}).file == "key");
  const auto local = command<LocalReceiverOptions>({kLocalReceiverArgument, "127.0.1.1:0", "d/0"});
  BOOST_TEST(to_string(local.listen) == "127.0.1.1:0");
  BOOST_TEST(local.directory == "d/0");
}

BOOST_AUTO_TEST_CASE(both_ends_may_name_a_fabric_and_its_device) {
  const std::string device = "pci=0000:03:00.0 address=10.0.0.1/24";
  const auto send =
      command<SendOptions>({"-w", "n", "--insecure", "--fabric", "dpdk", "--device", device, "s", "d"});
  const auto agent = command<AgentOptions>(
      {"agent", "--listen", "10.0.0.5", "--root", "/", "--insecure", "--fabric", "dpdk", "--device", device});
  for (const FabricChoice& fabric : {send.fabric, agent.fabric}) {
    BOOST_TEST(fabric.name == "dpdk");
    BOOST_TEST(fabric.device == device);
  }
}

BOOST_AUTO_TEST_CASE(algorithm_and_block_size_can_be_left_to_the_model) {
  const auto send = command<SendOptions>({"-w", "a,b", "--insecure", "--algorithm", "auto", "--block-size",
                                          "auto", "--uplink-rate", "1g", "s", "d"});
  BOOST_CHECK(!send.algorithm);
  BOOST_CHECK(!send.block_size);
  BOOST_CHECK(send.uplink_rate == 1'000'000'000U);
  const auto plain = command<SendOptions>({"-w", "a,b", "--insecure", "s", "d"});
  BOOST_CHECK(!plain.algorithm);
  BOOST_CHECK(!plain.block_size);
}

BOOST_AUTO_TEST_CASE(racks_come_from_a_file) {
  const auto with = [](const std::string& text, const std::string& hosts) {
    return parse_command_line({"-w", hosts, "--insecure", "--topology", "racks", "s", "d"},
                              [&](const std::string&) -> Result<std::string> { return text; });
  };
  const auto known = with("a n[1-2]\nb n3\n", "n[1-4]");
  BOOST_REQUIRE(known.has_value());
  const auto& topology = std::get<SendOptions>(*known).topology;
  BOOST_REQUIRE(topology.has_value());
  BOOST_CHECK(topology->rack_of({"n2"}) == 0U);
  BOOST_CHECK(topology->rack_of({"n3"}) == 1U);
  const auto wrong = with("a n1\nb\n", "n1");
  BOOST_REQUIRE(!wrong.has_value());
  BOOST_TEST(mentions(wrong.error().what, "--topology: racks line 2"));
}

BOOST_AUTO_TEST_CASE(files_named_like_a_subcommand_can_be_sent) {
  BOOST_TEST(command<SendOptions>({"./agent", "d", "--local", "1"}).source == "./agent");
  BOOST_TEST(command<SendOptions>({"s", "agent", "--local", "1"}).destination == "agent");
  BOOST_TEST(command<SendOptions>({"--local", "1", "--", "--json", "keygen"}).source == "--json");
}

BOOST_AUTO_TEST_CASE(odd_file_names_pass_through_untouched) {
  const auto send = command<SendOptions>({"a b\n\xff", "d e/\xc3", "--local", "1"});
  BOOST_TEST(send.source == "a b\n\xff");
  BOOST_TEST(send.destination == "d e/\xc3");
}

BOOST_AUTO_TEST_CASE(what_contradicts_or_is_missing_is_named) {
  const std::pair<std::vector<std::string>, std::string> cases[] = {
      {{}, "SRC"},
      {{"s"}, "DEST"},
      {{"s", "d"}, "-w HOSTLIST or --local N"},
      {{"s", "d", "more", "--local", "1"}, "more"},
      {{"", "d", "--local", "1"}, "SRC"},
      {{"s", "d", "--local", "1", "--algorithm", "ring"},
       "--algorithm: 'ring' is unknown; there are binomial"},
      {{"s", "d", "--local", "1", "--topology", "f"}, "--topology"},
      {{"s", "d", "-w", "n", "--insecure", "--topology", "f"}, "cannot open f"},
      {{"s", "", "--local", "1"}, "DEST"},
      {{"s", "d", "-w", "h"}, "--key-file FILE"},
      {{"s", "d", "-w", "h", "--key-file", "k", "--insecure"}, "contradict"},
      {{"s", "d", "-w", "h", "--certificate", "c", "--authority", "a"}, "go together"},
      {{"s", "d", "-w", "h", "--insecure", "--dscp", "64"}, "--dscp"},
      {{"s", "d", "-w", "h", "--encrypt", "--insecure"}, "--insecure leaves open"},
      {{"agent", "--listen", "::1", "--root", "/", "--encrypt", "--insecure"}, "--insecure leaves open"},
      {{"s", "d", "-w", "h[", "--insecure"}, "-w: hostlist, position 2"},
      {{"s", "d", "-w", "^no", "--insecure"}, "cannot open no"},
      {{"s", "d", "-w", "h", "--local", "2"}, "--local"},
      {{"s", "d", "--local", "0"}, "--local"},
      {{"s", "d", "--local", "257"}, "--local"},
      {{"s", "d", "--local", "-1"}, "--local"},
      {{"s", "d", "--local", "many"}, "--local"},
      {{"s", "d", "--local", "2", "--key-file", "k"}, "--local makes a key of its own"},
      {{"s", "d", "--local", "2", "--launch", "ssh"}, "--launch ssh is not supported yet"},
      {{"s", "d", "--local", "2", "--launch", "slurm"}, "it does not go with --launch"},
      {{"s", "d", "-w", "h", "--launch", "slurm"}, "--launch slurm finds the hosts"},
      {{"s", "d", "--launch", "pmix", "--key-file", "k", "--insecure"}, "contradict"},
      {{"s", "d", "--local", "2", "--launch", "magic"}, "'magic' is unknown"},
      {{"s", "d", "--local", "2", "--fabric", "pigeon"}, "--fabric: 'pigeon'"},
      {{"s", "d", "--local", "2", "--device", "vdev=net_tap0"}, "--local's receivers are on loopback"},
      {{"agent", "--listen", "10.0.0.1", "--root", "/", "--insecure", "--fabric", "pigeon"},
       "--fabric: 'pigeon'"},
      {{"s", "d", "--local", "2", "--block-size", "1000"}, "--block-size: 1000"},
      {{"s", "d", "--local", "2", "--block-size", "4M"}, "--block-size"},
      {{"s", "d", "--local", "2", "--block-size", "1x"}, "--block-size: '1x' is not a size"},
      {{"s", "d", "--local", "2", "--limit-rate", "0"}, "--limit-rate"},
      {{"s", "d", "--local", "2", "--suspect-after", "500"}, "--suspect-after: '500' is not between"},
      {{"s", "d", "--local", "2", "--connect-within", "61s"}, "--connect-within: '61s' is not between"},
      {{"s", "d", "--local", "2", "--resume"}, "--resume"},
      {{"agent", "--root", "/", "--insecure"}, "--listen"},
      {{"agent", "--listen", "nohost", "--root", "/", "--insecure"},
       "--listen: not a numeric address: 'nohost'"},
      {{"agent", "--listen", "10.0.0.1:99999", "--root", "/", "--insecure"},
       "--listen: '99999' is not a port, in '10.0.0.1:99999': 0 to 65535"},
      {{"agent", "--listen", "10.0.0.1:", "--root", "/", "--insecure"}, "--listen: '' is not a port"},
      {{"agent", "--listen", "10.0.0.1", "--insecure"}, "--root"},
      {{"agent", "--listen", "10.0.0.1", "--root", "/"}, "--key-file FILE"},
      {{"keygen", "x", "y"}, "y"},
  };
  for (const auto& [arguments, part] : cases) {
    const auto text = complaint(arguments);
    BOOST_TEST(mentions(text, part), "for " << part << " it said: " << text);
    BOOST_TEST(text != "accepted");
  }
}

BOOST_AUTO_TEST_CASE(help_lists_options_exit_codes_and_nothing_that_does_not_work) {
  const auto text = command<Information>({"--help"}).text;
  for (const auto* part : {"rdmc_bcast",
                           "SRC",
                           "DEST",
                           "-w",
                           "-x",
                           "--local",
                           "--fabric",
                           "--device",
                           "--key-file",
                           "--insecure",
                           "--overwrite",
                           "--connect-within",
                           "--suspect-after",
                           "--json",
                           "--dry-run",
                           "--block-size",
                           "--limit-rate",
                           "--version",
                           "agent",
                           "keygen",
                           "  0 ",
                           "  1 ",
                           "  2 ",
                           "  3 ",
                           "  4 ",
                           "  5 ",
                           "130"})
    BOOST_TEST(mentions(text, part), part << " is missing in the help");
  for (const auto* part : {"ssh", "slurm", "--resume", kLocalReceiverArgument})
    BOOST_TEST(!mentions(text, std::string(part) + " "), part);
  BOOST_TEST(mentions(command<Information>({"agent", "--help"}).text, "--root"));
  BOOST_TEST(mentions(command<Information>({"keygen", "--help"}).text, "key"));
}

BOOST_AUTO_TEST_CASE(version_is_the_projects) {
  for (const auto& arguments :
       {std::vector<std::string>{"--version"}, {"agent", "--version"}, {"keygen", "--version"}})
    BOOST_TEST(command<Information>(arguments).text == std::string("rdmc_bcast ") + RDMC_VERSION + "\n");
}

BOOST_AUTO_TEST_SUITE_END()
