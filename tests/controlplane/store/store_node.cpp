// A node of the embedded store as a process of its own, for tests that kill it:
// store_node DIRECTORY SELF LISTEN KEY-FILE NODE... Runs until it is killed.
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <memory>

#include "controlplane/auth/cluster_key.hpp"
#include "controlplane/store/store_server.hpp"

using namespace rdmc;

namespace {

template <typename T>
T must(Result<T> result) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "store_node: %s\n", result.error().what.c_str());
  std::_Exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) return 1;
  store::RaftOptions options{.directory = argv[1], .self = std::stoul(argv[2])};
  for (int i = 5; i < argc; ++i) options.nodes.push_back(must(parse_address(argv[i], 0)));
  const auto loop = must(control::ControlLoop::create());
  const auto key = std::move(must(control::ClusterKey::load(std::filesystem::path(argv[4]))).front());
  std::atomic<store::StoreServer*> server = nullptr;
  const auto node = must(store::RaftNode::start(options, [&](const std::string& group, Epoch epoch) {
    if (store::StoreServer* const serving = server) serving->changed(group, epoch);
  }));
  const control::ListenOptions listen{.channel = {.security = must(control::TlsContext::create(key))}};
  const auto serving =
      must(store::StoreServer::listen(*loop, must(parse_address(argv[3], 0)), listen, *node));
  server = serving.get();
  for (;;) ::pause();
}
