// Whole transfers within this process: agents and a sender on loopback addresses, with the real control
// channels and the real data path. Tests that must kill processes are in tests/system.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <future>
#include <optional>
#include <thread>

#include "apps/bcast-cli/agent.hpp"
#include "apps/bcast-cli/commands.hpp"
#include "apps/bcast-cli/sender.hpp"
#include "controlplane/connect/connector.hpp"
#include "controlplane/session/messages.hpp"
#include "controlplane/session/takeover.hpp"
#include "tests/apps/bcast-cli/scratch_directory.hpp"
#include "tests/apps/bcast-cli/store_harness.hpp"

BOOST_AUTO_TEST_SUITE(transfer_test)

namespace fs = std::filesystem;
using namespace rdmc;
using namespace rdmc::bcast;

namespace {

control::Security with_new_key() {
  return control::TlsContext::create(control::ClusterKey::generate().value()).value();
}

/// Some agents, each with a receive directory, and the objects that a sender needs to send to them.
struct Cluster {
  ScratchDirectory scratch;
  control::Security security = with_new_key();
  std::unique_ptr<control::ControlLoop> loop = control::ControlLoop::create().value();
  std::unique_ptr<Reporter> reporter = Reporter::start(false).value();
  std::vector<std::unique_ptr<Agent>> agents;

  explicit Cluster(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) add(security);
  }
  void add(const control::Security& its_security, std::size_t max_receptions = kMaxReceptions,
           std::optional<Address> at = std::nullopt) {
    const auto number = agents.size();
    auto root = ReceiveDirectory::open(root_of(number), ReceiveDirectory::Missing::make);
    BOOST_REQUIRE(root.has_value());
    const auto address = at.value_or(Address::ipv4(127, 0, 7, static_cast<std::uint8_t>(number + 1), 0));
    auto agent = Agent::start(*loop, std::move(*root), address, its_security, {}, {}, max_receptions);
    BOOST_REQUIRE_MESSAGE(agent.has_value(), (agent ? "" : agent.error().what));
    agents.push_back(std::move(*agent));
  }
  fs::path root_of(std::size_t agent) const { return scratch / fmt::format("root{}", agent); }

  SenderConfig config(const SourceFile& source, const std::string& destination) const {
    SenderConfig result{.job = {.destination = destination,
                                .source_name = std::string(base_name(source.path())),
                                .shape = source.shape(),
                                .allocated_bytes = source.allocated_bytes(),
                                .mode = source.permissions()},
                        .targets = {},
                        .security = security,
                        .connect_within = seconds(10),
                        .wishes = {.suspect_after = seconds(5)}};
    for (const auto& agent : agents) {
      const auto& address = agent->address();
      result.targets.push_back({to_string(address), host_string(address), address.port});
    }
    return result;
  }

  /// A transfer that is running.
  struct Running {
    std::promise<SenderResult> ended;
    std::shared_ptr<Sender> sender;
  };
  std::unique_ptr<Running> begin(SourceFile& source, SenderConfig config) {
    auto running = std::make_unique<Running>();
    auto sender = Sender::start(
        *loop, source, *reporter, std::move(config), session::SessionId{},
        [raw = running.get()](SenderResult result) { raw->ended.set_value(std::move(result)); });
    BOOST_REQUIRE(sender.has_value());
    running->sender = std::move(*sender);
    return running;
  }
  SenderResult end(Running& running) {
    auto result = running.ended.get_future().get();
    loop->call([&] { running.sender.reset(); });
    return result;
  }
  /// Runs a transfer to its end. Calls `meanwhile` after the start, on the loop's thread, with the sender as
  /// its argument.
  SenderResult send(SourceFile& source, SenderConfig config,
                    const std::function<void(Sender&)>& meanwhile = {}) {
    const auto running = begin(source, std::move(config));
    if (meanwhile) loop->call([&] { meanwhile(*running->sender); });
    return end(*running);
  }
};

SourceFile source_of(const fs::path& path, std::string_view content,
                     std::optional<std::uint32_t> block_size = {}) {
  write_file(path, content);
  return SourceFile::open(path, block_size).value();
}

}  // namespace

BOOST_AUTO_TEST_CASE(files_of_every_size_reach_every_agent) {
  Cluster cluster(5);
  for (const std::size_t size : {0, 1, 4096, 65'536, 65'537, 3'000'000}) {
    const auto content = random_text(size, size);
    auto source = source_of(cluster.scratch / "source", content, 4096);
    auto config = cluster.config(source, fmt::format("size/{}", size));
    const auto result = cluster.send(source, std::move(config));
    BOOST_TEST(result.summary.ok == 5u);
    BOOST_TEST((exit_code(result, false) == ExitCode::success));
    for (std::size_t i = 0; i < 5; ++i)
      BOOST_TEST((file_content(cluster.root_of(i) / fmt::format("size/{}", size)) == content));
  }
}

BOOST_AUTO_TEST_CASE(a_copy_has_the_permissions_of_its_source_and_no_special_bits) {
  Cluster cluster(2);
  for (const mode_t mode : {0600, 0640, 0755, 04711}) {
    write_file(cluster.scratch / "source", "text");
    BOOST_REQUIRE(::chmod((cluster.scratch / "source").c_str(), mode) == 0);
    auto source = SourceFile::open(cluster.scratch / "source").value();
    const auto name = fmt::format("copy-{:o}", mode);
    BOOST_TEST(cluster.send(source, cluster.config(source, name)).summary.ok == 2u);
    for (std::size_t i = 0; i < 2; ++i) {
      struct stat status {};
      BOOST_REQUIRE(::stat((cluster.root_of(i) / name).c_str(), &status) == 0);
      BOOST_TEST((status.st_mode & 07777) == (mode & 0777));
    }
  }
}

BOOST_AUTO_TEST_CASE(an_agent_that_has_enough_to_do_says_so) {
  Cluster cluster(1);
  cluster.add(cluster.security, 0);
  auto source = source_of(cluster.scratch / "source", random_text(500'000, 1));
  const auto told = cluster.scratch / "told";
  const Descriptor errors(::dup(STDERR_FILENO));
  const Descriptor captured(::open(told.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  ::dup2(captured.get(), STDERR_FILENO);
  const auto result = cluster.send(source, cluster.config(source, "copy"));
  cluster.reporter.reset();  // waits until all text is written
  ::dup2(errors.get(), STDERR_FILENO);
  BOOST_TEST(result.summary.ok == 1u);
  BOOST_TEST(result.summary.failed == 1u);
  BOOST_TEST(file_content(told).find("failed: has 0 transfers under way") != std::string::npos,
             file_content(told));
}

BOOST_AUTO_TEST_CASE(an_agent_that_has_enough_to_do_still_listens_to_survivors_of_what_it_does) {
  Cluster cluster(0);
  cluster.add(cluster.security, 1);
  auto source = source_of(cluster.scratch / "source", random_text(1'000'000, 1), 65'536);
  auto config = cluster.config(source, "copy");
  const auto targets = config.targets;
  config.job.limit_rate = 1'000'000;  // the transfer would take eight seconds
  const auto running = cluster.begin(source, config);
  while (!fs::exists(cluster.root_of(0) / ".copy.rdmc-partial")) std::this_thread::yield();

  // An agent that is busy with one file refuses another file.
  auto other = source_of(cluster.scratch / "other", random_text(1000, 2));
  BOOST_TEST(cluster.send(other, cluster.config(other, "other")).summary.failed == 1u);

  // A second coordinator connects and names the session of the first transfer, as after a failover. The
  // agent's reception refuses, because the sender is alive.
  session::wire::Envelope hello;
  hello.mutable_hello()->set_version(session::kProtocolVersion);
  hello.mutable_hello()->set_session(std::string(session::SessionId{}.size(), '\0'));
  hello.mutable_hello()->set_leader(2);
  std::promise<std::vector<std::byte>> answered;
  std::optional<control::Channel> channel;
  const auto survivor = peer::Peers::create(*cluster.loop, {.security = cluster.security}).value();
  const auto opening = survivor->open(targets[0].host, targets[0].port, seconds(10), kService, {},
                                      [&](Result<control::Channel> opened, const peer::Offer&) {
                                        if (!opened) return answered.set_value({});
                                        channel.emplace(std::move(*opened));
                                        channel->start(
                                            [&, first = true](std::vector<std::byte> message) mutable {
                                              if (std::exchange(first, false))
                                                answered.set_value(std::move(message));
                                            },
                                            [](const Error&) {});
                                        (void)channel->send(session::serialize(hello));
                                      });
  BOOST_TEST((answered.get_future().get() == session::takeover_refusal()));
  cluster.loop->call([&] {
    channel.reset();
    running->sender->stop({Errc::cancelled, "enough"});
  });
  BOOST_TEST(cluster.end(*running).summary.failed == 1u);
}

BOOST_AUTO_TEST_CASE(hosts_of_two_address_families_are_refused_before_anything_is_sent) {
  for (const bool dry_run : {false, true}) {
    Cluster cluster(1);
    cluster.add(cluster.security, kMaxReceptions, parse_address("[::1]:0", 0).value());
    auto source = source_of(cluster.scratch / "source", random_text(500'000, 1));
    auto config = cluster.config(source, "copy");
    config.job.dry_run = dry_run;
    const auto result = cluster.send(source, std::move(config));
    BOOST_REQUIRE(result.interrupted.has_value());
    for (const auto* word : {"IPv4", "IPv6", "127.0.7.1", "[::1]"})
      BOOST_TEST(result.interrupted->what.find(word) != std::string::npos, result.interrupted->what);
    BOOST_TEST(result.summary.ok == 0u);
    BOOST_TEST((exit_code(result, false) == ExitCode::local_error));
  }
}

BOOST_AUTO_TEST_CASE(a_destination_that_is_taken_costs_only_its_own_receiver_the_copy) {
  Cluster cluster(3);
  write_file(cluster.root_of(1) / "copy", "precious");
  auto source = source_of(cluster.scratch / "source", random_text(500'000, 1));
  const auto result = cluster.send(source, cluster.config(source, "copy"));
  BOOST_TEST(result.summary.ok == 2u);
  BOOST_TEST(result.summary.failed == 1u);
  BOOST_TEST((result.statuses[1] == session::Status::failed));
  BOOST_TEST((exit_code(result, false) == ExitCode::some_failed));
  BOOST_TEST(file_content(cluster.root_of(1) / "copy") == "precious");
  BOOST_TEST(entries(cluster.root_of(1)) == 1u);
}

BOOST_AUTO_TEST_CASE(agents_with_another_key_are_refused_and_the_others_served) {
  Cluster cluster(1);
  cluster.add(with_new_key());
  auto source = source_of(cluster.scratch / "source", random_text(100'000, 2));
  const auto result = cluster.send(source, cluster.config(source, "copy"));
  BOOST_TEST((result.statuses[0] == session::Status::ok));
  BOOST_TEST((result.statuses[1] == session::Status::refused));
  BOOST_TEST((exit_code(result, false) == ExitCode::some_failed));
}

BOOST_AUTO_TEST_CASE(a_dry_run_tells_who_would_take_the_file_and_makes_nothing) {
  Cluster cluster(2);
  write_file(cluster.root_of(1) / "copy", "precious");
  auto source = source_of(cluster.scratch / "source", random_text(100'000, 3));
  auto config = cluster.config(source, "copy");
  config.job.dry_run = true;
  const auto result = cluster.send(source, std::move(config));
  BOOST_TEST((result.statuses[0] == session::Status::ok));
  BOOST_TEST((result.statuses[1] == session::Status::failed));
  BOOST_TEST(entries(cluster.root_of(0)) == 0u);
  BOOST_TEST(!result.interrupted.has_value());
}

BOOST_AUTO_TEST_CASE(an_agent_that_stops_in_the_middle_is_named_and_the_survivors_get_the_rest) {
  Cluster cluster(4);
  const auto content = random_text(4'000'000, 4);
  auto source = source_of(cluster.scratch / "source", content, 65'536);
  auto config = cluster.config(source, "copy");
  config.job.limit_rate = 40'000'000;  // the transfer takes 0.8 s
  std::thread stopper;
  const auto result = cluster.send(source, std::move(config), [&](Sender&) {
    stopper = std::thread([&] {
      // The agent is stopped when its partial file contains some bytes, so in the middle of the transfer.
      const auto partial = cluster.root_of(2) / ".copy.rdmc-partial";
      struct stat status {};
      while (::stat(partial.c_str(), &status) != 0 || status.st_blocks == 0) std::this_thread::yield();
      cluster.agents[2]->stop();
    });
  });
  stopper.join();
  BOOST_TEST(result.summary.ok == 3u);
  BOOST_TEST((result.statuses[2] == session::Status::failed));
  for (const std::size_t survivor : {0, 1, 3})
    BOOST_TEST((file_content(cluster.root_of(survivor) / "copy") == content));
  BOOST_TEST(entries(cluster.root_of(2)) == 0u);
}

BOOST_AUTO_TEST_CASE(a_sender_that_is_stopped_leaves_no_trace_anywhere) {
  Cluster cluster(3);
  auto source = source_of(cluster.scratch / "source", random_text(1'000'000, 5), 65'536);
  auto config = cluster.config(source, "copy");
  config.job.limit_rate = 1'000'000;  // the transfer would take eight seconds
  const auto result = cluster.send(source, std::move(config), [](Sender& sender) {
    sender.stop({Errc::cancelled, "enough"});
  });
  BOOST_REQUIRE(result.interrupted.has_value());
  BOOST_TEST(result.interrupted->what == "enough");
  BOOST_TEST(result.summary.failed == 3u);
  BOOST_TEST((exit_code(result, true) == ExitCode::interrupted));
  for (auto& agent : cluster.agents) agent->stop();
  for (std::size_t i = 0; i < 3; ++i) BOOST_TEST(entries(cluster.root_of(i)) == 0u);
}

BOOST_AUTO_TEST_CASE(a_source_that_changes_is_a_local_error_and_nobody_gets_it) {
  Cluster cluster(2);
  auto source = source_of(cluster.scratch / "source", random_text(1'000'000, 6), 65'536);
  fs::resize_file(cluster.scratch / "source", 500'000);
  const auto result = cluster.send(source, cluster.config(source, "copy"));
  BOOST_REQUIRE(result.interrupted.has_value());
  BOOST_TEST(result.interrupted->what.find((cluster.scratch / "source").string()) != std::string::npos);
  BOOST_TEST((exit_code(result, false) == ExitCode::local_error));
  for (auto& agent : cluster.agents) agent->stop();
  for (std::size_t i = 0; i < 2; ++i) BOOST_TEST(entries(cluster.root_of(i)) == 0u);
}

BOOST_AUTO_TEST_CASE(several_transfers_through_the_same_agents_do_not_disturb_each_other) {
  Cluster cluster(3);
  constexpr std::size_t kTransfers = 4;
  std::vector<std::string> contents;
  std::vector<SourceFile> sources;
  for (std::size_t i = 0; i < kTransfers; ++i) {
    contents.push_back(random_text(700'000 + i, i));
    sources.push_back(source_of(cluster.scratch / fmt::format("source{}", i), contents.back(), 16'384));
  }
  std::vector<std::unique_ptr<Cluster::Running>> running;
  for (std::size_t i = 0; i < kTransfers; ++i)
    running.push_back(cluster.begin(sources[i], cluster.config(sources[i], fmt::format("copy{}", i))));
  for (auto& transfer : running) BOOST_TEST(cluster.end(*transfer).summary.ok == 3u);
  for (std::size_t i = 0; i < kTransfers; ++i) {
    for (std::size_t agent = 0; agent < 3; ++agent)
      BOOST_TEST((file_content(cluster.root_of(agent) / fmt::format("copy{}", i)) == contents[i]));
  }
}

BOOST_AUTO_TEST_CASE(the_exit_code_follows_from_the_outcomes) {
  const auto code = [](std::uint32_t ok, std::uint32_t failed, std::uint32_t refused) {
    SenderResult result;
    result.summary.ok = ok;
    result.summary.failed = failed;
    result.summary.refused = refused;
    return static_cast<int>(exit_code(result, false));
  };
  BOOST_TEST(code(3, 0, 0) == 0);
  BOOST_TEST(code(2, 1, 0) == 3);
  BOOST_TEST(code(2, 0, 1) == 3);
  BOOST_TEST(code(0, 3, 0) == 4);
  BOOST_TEST(code(0, 1, 2) == 4);
  BOOST_TEST(code(0, 0, 3) == 5);
}

BOOST_AUTO_TEST_SUITE_END()
