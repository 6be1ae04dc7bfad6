// A client of the embedded store (StoreNode). It sends each proposal to all nodes at once, and needs the
// answers of a majority. So the loss of one of three nodes delays nothing. The client connects to the nodes
// at the first request. While a request waits for an answer or a group is watched, it connects again by
// itself.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "controlplane/connect/channel_options.hpp"
#include "controlplane/connect/control_loop.hpp"
#include "controlplane/view/view_store.hpp"
#include "dataplane/base/address.hpp"

namespace rdmc::store {

struct EmbeddedOptions {
  /// The addresses of all nodes of the store, which are one or three. They must be in the order that the
  /// nodes themselves use.
  std::vector<Address> nodes;
  /// The options for the connections to the nodes. The store uses its own limit of the message length.
  control::ChannelOptions channel;
  Duration answer_within = milliseconds(900);  ///< See Requester::Options::answer_within.
};

class EmbeddedStore final : public view::ViewStore {
 public:
  /// `loop` must exist longer than the store, but it may be stopped before the store is destroyed. Errors:
  /// invalid_argument if the number of nodes is neither one nor three, and those of SystemRandom::open.
  static Result<std::unique_ptr<EmbeddedStore>> create(control::ControlLoop& loop,
                                                       const EmbeddedOptions& wanted);
  /// Any thread. After the destructor, no handler is called.
  ~EmbeddedStore() override;

  void read(const std::string& group, ReadDone done) override;
  void compare_and_swap(const std::string& group, const view::View& next, SwapDone done) override;
  void watch(const std::string& group, Hint hint) override;
  void list(ListDone done) override;

 private:
  class Impl;
  explicit EmbeddedStore(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

}  // namespace rdmc::store
