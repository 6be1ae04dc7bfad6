// A real node of the embedded store, for tests of processes with a membership.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "controlplane/connect/socket.hpp"
#include "controlplane/store/store_node.hpp"

namespace rdmc::testing {

/// One store node with its own control loop. A test can stop the node. If the node has a directory for its
/// state, the test can start it again.
class OneStore {
 public:
  explicit OneStore(std::string directory = {}) : directory_(std::move(directory)) { start(); }
  Address address() const { return control::local_address(port_.get()); }
  void start() {
    node_ = store::StoreNode::start(*loop_, {.directory = directory_,
                                             .nodes = {},
                                             .listen = address(),
                                             .channel = {.channel = {.security = control::Insecure{}}}})
                .value();
  }
  void stop() { node_.reset(); }

 private:
  const std::string directory_;
  const Descriptor port_ = control::reserve(Address::ipv4(127, 0, 0, 1, 0)).value();
  std::unique_ptr<control::ControlLoop> loop_ = control::ControlLoop::create().value();
  std::unique_ptr<store::StoreNode> node_;
};

}  // namespace rdmc::testing
