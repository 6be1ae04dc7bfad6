// rdmc_store_loss: measures how much the loss of one node of three delays a compare-and-swap. Three nodes of
// the embedded store run as separate processes, with journals on a disk. One client does one compare-and-swap
// after the other. In each round one node is killed or stopped at a random moment. Prints one JSON object
// with two times: the time of a swap while all nodes run, and the time of the first swap that ends after the
// loss.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "controlplane/auth/cluster_key.hpp"
#include "controlplane/connect/connector.hpp"
#include "controlplane/connect/socket.hpp"
#include "controlplane/store/embedded_store.hpp"
#include "controlplane/store/store_node.hpp"
#include "dataplane/base/clock.hpp"
#include "dataplane/base/random.hpp"

extern char** environ;

namespace {

using namespace rdmc;

constexpr std::size_t kNodes = 3;
/// The number of swaps in each round before the loss, and again after the return of the node.
constexpr int kQuietSwaps = 100;

template <typename T>
T must(Result<T> result) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "rdmc_store_loss: %s\n", result.error().what.c_str());
  std::_Exit(1);
}

control::ChannelOptions channel_with(const std::string& key_file) {
  const auto key = std::move(must(control::ClusterKey::load(std::filesystem::path(key_file))).front());
  return {.security = must(control::TlsContext::create(key))};
}

/// Runs the process of one node. `words` has the arguments NUMBER DIRECTORY KEY-FILE ADDRESS ADDRESS ADDRESS.
[[noreturn]] void run_node(const std::vector<std::string>& words) {
  store::NodeOptions options{.directory = words[1],
                             .self = std::stoul(words[0]),
                             .nodes = {},
                             .listen = {},
                             .channel = {.channel = channel_with(words[2])}};
  for (std::size_t i = 3; i < words.size(); ++i) options.nodes.push_back(must(parse_address(words[i], 0)));
  options.listen = options.nodes[options.self];
  const auto loop = must(control::ControlLoop::create());
  const auto node = must(store::StoreNode::start(*loop, options));
  for (;;) ::pause();
}

class Nodes {
 public:
  explicit Nodes(std::filesystem::path directory) : directory_(std::move(directory)) {
    if (!must(control::ClusterKey::generate()).write(key_file())) std::_Exit(1);
    for (std::size_t i = 0; i < kNodes; ++i) {
      reserved_.push_back(must(control::reserve(Address::ipv4(127, 0, 0, 1, 0))));
      addresses_.push_back(control::local_address(reserved_.back().get()));
    }
    for (std::size_t i = 0; i < kNodes; ++i) start(i);
  }
  ~Nodes() {
    for (std::size_t i = 0; i < kNodes; ++i) kill(i);
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  void start(std::size_t node) {
    std::vector<std::string> words{"rdmc_store_loss", "node", std::to_string(node),
                                   directory_ / std::to_string(node), key_file()};
    for (const Address& address : addresses_) words.push_back(to_string(address));
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    if (::posix_spawn(&processes_[node], "/proc/self/exe", nullptr, nullptr, arguments.data(), environ) != 0)
      std::_Exit(1);
  }
  void send(std::size_t node, int number) { ::kill(processes_[node], number); }
  void kill(std::size_t node) {
    send(node, SIGKILL);
    ::waitpid(processes_[node], nullptr, 0);
  }
  std::string key_file() const { return directory_ / "key"; }
  const std::vector<Address>& addresses() const { return addresses_; }

 private:
  const std::filesystem::path directory_;
  std::vector<Descriptor> reserved_;
  std::vector<Address> addresses_;
  std::array<pid_t, kNodes> processes_{};
};

class Client {
 public:
  explicit Client(const Nodes& nodes)
      : loop_(must(control::ControlLoop::create())), channel_(channel_with(nodes.key_file())) {
    store_ = must(store::EmbeddedStore::create(*loop_, {.nodes = nodes.addresses(), .channel = channel_}));
    while (!swap()) {
    }
  }

  /// Makes one compare-and-swap. Returns its duration, or nullopt if it failed.
  std::optional<Duration> swap() {
    const view::View next{.epoch = Epoch{epoch_ + 1},
                          .members = {{.id = view::MemberId{1},
                                       .name = "bench",
                                       .address = Address::ipv4(127, 0, 0, 1, 1),
                                       .fabrics = {"udp"}}}};
    std::promise<bool> promise;
    const Time begin = monotonic_now();
    loop_->post([&] {
      store_->compare_and_swap("g", next, [&](const Result<view::SwapResult>& result) {
        promise.set_value(result && result->swapped);
      });
    });
    const bool swapped = promise.get_future().get();
    if (!swapped) return std::nullopt;
    ++epoch_;
    return monotonic_now() - begin;
  }

  /// Waits until a node listens again.
  void wait_for(const Address& node) {
    for (bool there = false; !there;) {
      std::promise<bool> promise;
      const auto attempt =
          control::connect(*loop_, host_string(node), node.port, channel_, seconds(1),
                           [&](Result<control::Channel> made) { promise.set_value(made.has_value()); });
      there = promise.get_future().get();
    }
  }

 private:
  std::unique_ptr<control::ControlLoop> loop_;
  control::ChannelOptions channel_;
  std::unique_ptr<view::ViewStore> store_;
  std::uint64_t epoch_ = 0;
};

nlohmann::json summary(std::vector<Duration> times) {
  std::ranges::sort(times);
  const auto ms = [](Duration time) { return static_cast<double>(time.ns / 1000) / 1000; };
  return {{"count", times.size()},
          {"median_ms", ms(times[times.size() / 2])},
          {"p99_ms", ms(times[(times.size() - 1) * 99 / 100])},
          {"max_ms", ms(times.back())}};
}

int measure(const std::string& directory, int rounds, bool stop) {
  std::string made = directory + "/rdmc-store-loss-XXXXXX";
  if (::mkdtemp(made.data()) == nullptr) {
    std::fprintf(stderr, "rdmc_store_loss: %s cannot be made\n", made.c_str());
    return 1;
  }
  Nodes nodes(made);
  Client client(nodes);
  Random random(1);
  std::vector<Duration> before, after;
  int failed = 0;
  for (int round = 0; round < rounds; ++round) {
    const std::size_t victim = static_cast<std::size_t>(round) % kNodes;
    for (int i = 0; i < kQuietSwaps; ++i) {
      const auto took = client.swap();
      took ? before.push_back(*took) : static_cast<void>(++failed);
    }
    std::atomic<bool> lost = false;
    const auto pause = std::chrono::microseconds(random.below(10'000));
    std::jthread killer([&] {
      std::this_thread::sleep_for(pause);
      nodes.send(victim, stop ? SIGSTOP : SIGKILL);
      lost = true;
    });
    for (bool seen = false; !seen;) {
      const auto took = client.swap();
      seen = lost;
      if (!took)
        ++failed;
      else if (seen)
        after.push_back(*took);
    }
    if (stop) {
      nodes.send(victim, SIGCONT);
    } else {
      nodes.kill(victim);
      nodes.start(victim);
    }
    client.wait_for(nodes.addresses()[victim]);
  }
  const nlohmann::json line{{"rounds", rounds},
                            {"loss", stop ? "stopped" : "killed"},
                            {"all_there", summary(before)},
                            {"first_after_loss", summary(after)},
                            {"failed", failed}};
  std::printf("%s\n", line.dump().c_str());
  return failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 4 && std::string(argv[1]) == "node") run_node({argv + 2, argv + argc});
  CLI::App app{"By how much the loss of one node of three delays a compare-and-swap."};
  std::string directory = "/tmp";
  int rounds = 100;
  bool stop = false;
  app.add_option("--directory", directory, "where the journals are")->capture_default_str();
  app.add_option("--rounds", rounds)->capture_default_str()->check(CLI::PositiveNumber);
  app.add_flag("--stop", stop, "the node is stopped (SIGSTOP), not killed");
  CLI11_PARSE(app, argc, argv);
  return measure(directory, rounds, stop);
}
