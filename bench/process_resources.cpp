// One of several processes that have groups, sockets and a membership with each other at the same time, and
// use all of them at the end. bench/process_resources.py starts the processes, makes them do the same step at
// the same time, and reads the resources of each process. The program prints a line of JSON for each step,
// and waits for a line on its input before the next step.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <iostream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "lib/include/rdmc/membership.hpp"
#include "lib/include/rdmc/mesh.hpp"
#include "lib/include/rdmc/socket.hpp"

namespace {

using namespace rdmc;
using Json = nlohmann::json;

struct Options {
  std::uint32_t rank = 0, count = 16, groups = 3, sockets = 10;
  // The port number of rank 0. The port numbers of the other ranks follow, and after them those of the
  // sockets.
  std::uint16_t port = 23000;
  std::string store, fabric = "udp", key_file;
};

// The bytes that each group and each socket carries in the last step.
constexpr std::size_t kUsedBytes = 1 << 20;

[[noreturn]] void give_up(const std::string& what) {
  std::cerr << what << '\n';
  std::exit(2);
}
template <typename Value>
Value must(std::expected<Value, Error> result) {
  if (!result) give_up(result.error().what);
  if constexpr (!std::is_void_v<Value>) return std::move(*result);
}
template <typename Value>
Value must(std::expected<Value, std::error_code> result) {
  if (!result) give_up(result.error().message());
  if constexpr (!std::is_void_v<Value>) return std::move(*result);
}

/// Ends a step. Prints the step's duration, and waits for the other processes.
class Steps {
 public:
  void end(const char* name) {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun_;
    std::cout << Json{{"step", name}, {"seconds", took.count()}} << std::endl;
    if (std::string line; !std::getline(std::cin, line)) std::exit(0);
    begun_ = std::chrono::steady_clock::now();
  }

 private:
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

std::vector<MeshMember> mesh_of(const Options& options) {
  std::vector<MeshMember> members;
  for (std::uint32_t rank = 0; rank < options.count; ++rank)
    members.push_back({NodeId{rank}, "127.0.0.1", static_cast<std::uint16_t>(options.port + rank)});
  return members;
}

sockaddr_in socket_address(const Options& options, std::uint32_t rank) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(options.port + options.count + rank));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

/// Makes the sockets. Half of them are connected to other processes, and half are accepted from other
/// processes.
std::vector<Socket> make_sockets(const Options& options, Socket& listener) {
  std::vector<Socket> sockets;
  for (std::uint32_t i = 0; i < options.sockets / 2; ++i) {
    sockets.push_back(must(Socket::open(SOCK_STREAM)));
    must(sockets.back().connect(socket_address(options, (options.rank + 1 + i) % options.count)));
  }
  for (std::uint32_t i = 0; i < options.sockets / 2; ++i) sockets.push_back(must(listener.accept()));
  return sockets;
}

class Joined {
 public:
  explicit Joined(const Options& options)
      : membership_(must(Membership::join({.group = "resources",
                                           .store = {.nodes = {must(parse_address(options.store, 0))}},
                                           .key_file = options.key_file,
                                           .insecure = options.key_file.empty(),
                                           .fabric = options.fabric},
                                          {.installed =
                                               [this](const View& view) {
                                                 const std::lock_guard lock(mutex_);
                                                 members_ = view.members.size();
                                                 changed_.notify_all();
                                               },
                                           .removed =
                                               [this](const View&) {
                                                 const std::lock_guard lock(mutex_);
                                                 is_removed_ = true;
                                                 changed_.notify_all();
                                               }}))) {}
  void wait(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return is_removed_ || members_ == count; });
    if (is_removed_) give_up(kRemoved);
  }
  /// Writes into the windows of all other members.
  void write() {
    const std::vector<std::byte> bytes(Membership::kMostBytes);
    if (!membership_->write(0, bytes)) give_up(kRemoved);
  }

 private:
  static constexpr const char* kRemoved =
      "the others have removed this process from the view, because they did not hear it for so long: the "
      "machine is too busy for this measurement";

  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t members_ = 0;
  bool is_removed_ = false;
  std::unique_ptr<Membership> membership_;
};

/// The groups. Each process is a member of all groups, and each group has another root.
class Groups {
 public:
  Groups(Node& node, const Options& options) : node_(node), options_(options) {
    std::vector<NodeId> ids;
    for (std::uint32_t rank = 0; rank < options.count; ++rank) ids.push_back(NodeId{rank});
    for (std::uint32_t i = 0; i < options.groups; ++i) {
      GroupCallbacks on;
      on.incoming = [this](std::uint64_t, std::uint64_t bytes) { return std::span(memory_).first(bytes); };
      if (i == options.rank)
        on.reusable = [this](std::uint64_t) { note_end(); };
      else
        on.delivered = [this](std::uint64_t, std::span<std::byte>) { note_end(); };
      must(node.create_group(GroupNumber{i + 1}, ids, NodeId{i}, {.epoch = 1}, on));
    }
  }
  /// Sends this process's message, if it has one. Waits until all groups have delivered their message to this
  /// process.
  void use() {
    if (options_.rank < options_.groups) must(node_.send(GroupNumber{options_.rank + 1}, memory_));
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_ == options_.groups; });
  }

 private:
  void note_end() {
    const std::lock_guard lock(mutex_);
    ++ended_;
    changed_.notify_all();
  }

  Node& node_;
  const Options& options_;
  // All groups use the same memory, because its content is not used.
  std::vector<std::byte> memory_ = std::vector<std::byte>(kUsedBytes);
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint32_t ended_ = 0;
};

/// Sends on the connected sockets, and receives on the accepted sockets.
void use(std::vector<Socket>& sockets) {
  const std::size_t half = sockets.size() / 2;
  std::vector<std::byte> sent(kUsedBytes), received(64 << 10);
  // Each socket has a thread, because the receivers take the sockets in another order.
  std::vector<std::jthread> senders;
  for (std::size_t i = 0; i < half; ++i) senders.emplace_back([&, i] { must(sockets[i].send(sent)); });
  for (std::size_t i = half; i < sockets.size(); ++i)
    for (std::size_t bytes = 0; bytes < kUsedBytes;) {
      const std::size_t more = must(sockets[i].receive(received));
      if (more == 0) give_up("a connection ended early");
      bytes += more;
    }
}

int run(const Options& options) {
  Steps steps;
  steps.end("begun");

  const auto members = mesh_of(options);
  const auto node = must(Node::create({.id = NodeId{options.rank}, .fabric = options.fabric}));
  must(connect_mesh(
      *node, members,
      {.key_file = options.key_file, .insecure = options.key_file.empty(), .timeout = seconds(120)}));
  steps.end("mesh");

  Groups groups(*node, options);
  steps.end("groups");

  Socket listener = must(Socket::open(SOCK_STREAM));
  must(listener.bind(socket_address(options, options.rank)));
  must(listener.listen());
  steps.end("listening");
  auto sockets = make_sockets(options, listener);
  steps.end("sockets");

  Joined joined(options);
  joined.wait(options.count);
  steps.end("membership");

  groups.use();
  use(sockets);
  joined.write();
  steps.end("used");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("one of several processes that have groups, sockets and a membership at once");
  app.add_option("--rank", options.rank)->required();
  app.add_option("--count", options.count)->check(CLI::Range(6, 64));
  app.add_option("--port", options.port);
  app.add_option("--store", options.store)->required();
  app.add_option("--fabric", options.fabric);
  app.add_option("--key-file", options.key_file, "none: without authentication");
  CLI11_PARSE(app, argc, argv);
  return run(options);
}
