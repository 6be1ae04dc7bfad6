// A program that runs one node of the embedded store, for tests that kill the node.
// Usage: store_node DIRECTORY|- SELF LISTEN KEY-FILE NODE...
// If DIRECTORY is "-", the node keeps its state in memory. The process runs until a signal kills it.
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>

#include "controlplane/auth/cluster_key.hpp"
#include "controlplane/store/store_node.hpp"

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
  const auto key = std::move(must(control::ClusterKey::load(std::filesystem::path(argv[4]))).front());
  store::NodeOptions options{.directory = std::string(argv[1]) == "-" ? "" : argv[1],
                             .self = std::stoul(argv[2]),
                             .nodes = {},
                             .listen = must(parse_address(argv[3], 0)),
                             .channel = {.channel = {.security = must(control::TlsContext::create(key))}}};
  for (int i = 5; i < argc; ++i) options.nodes.push_back(must(parse_address(argv[i], 0)));
  const auto loop = must(control::ControlLoop::create());
  const auto node = must(store::StoreNode::start(*loop, options));
  for (;;) ::pause();
}
