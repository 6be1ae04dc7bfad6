// One process of several that has everything at once with each of the others: groups, sockets and a
// membership. bench/process_resources.py starts them, lets them go from step to step together, and reads what
// each one holds. It prints a line of JSON for each step, and waits for a line on its input before the next.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <iostream>
#include <mutex>
#include <nlohmann/json.hpp>

#include "lib/include/rdmc/membership.hpp"
#include "lib/include/rdmc/mesh.hpp"
#include "lib/include/rdmc/socket.hpp"

namespace {

using namespace rdmc;
using Json = nlohmann::json;

struct Options {
  std::uint32_t rank = 0, count = 16, groups = 3, sockets = 10;
  std::uint16_t port = 23000;  // of rank 0: the next ones follow, and then those of the sockets
  std::string store, fabric = "udp";
};

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

/// Ends a step: says how long it took, and waits for the others.
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

/// Half of them connected to others, half accepted.
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
                                           .insecure = true,
                                           .fabric = options.fabric},
                                          {.installed = [this](const View& view) {
                                            const std::lock_guard lock(mutex_);
                                            members_ = view.members.size();
                                            changed_.notify_all();
                                          }}))) {}
  void wait(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return members_ == count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t members_ = 0;
  std::unique_ptr<Membership> membership_;
};

int run(const Options& options) {
  Steps steps;
  steps.end("begun");

  const auto members = mesh_of(options);
  const auto node = must(Node::create({.id = NodeId{options.rank}, .fabric = options.fabric}));
  must(connect_mesh(*node, members, {.insecure = true, .timeout = seconds(120)}));
  steps.end("mesh");

  std::vector<NodeId> ids;
  for (const MeshMember& member : members) ids.push_back(member.node);
  for (std::uint32_t i = 0; i < options.groups; ++i)
    must(node->create_group(GroupNumber{i + 1}, ids, ids[i], {.epoch = 1}, {}));
  steps.end("groups");

  Socket listener = must(Socket::open(SOCK_STREAM));
  must(listener.bind(socket_address(options, options.rank)));
  must(listener.listen());
  steps.end("listening");
  const auto sockets = make_sockets(options, listener);
  steps.end("sockets");

  Joined joined(options);
  joined.wait(options.count);
  steps.end("membership");
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
  CLI11_PARSE(app, argc, argv);
  return run(options);
}
