// A client of the embedded store (StoreNode). It sends each proposal to all nodes at once, and needs the
// answers of a majority. So the loss of one of three nodes delays nothing. It connects to the nodes with the
// first request. It connects again by itself while a request waits for an answer or a group is watched.
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
  /// The addresses of all nodes of the store, one or three, in the order in which the nodes themselves know
  /// them.
  std::vector<Address> nodes;
  /// For the connections to the nodes. The store replaces the limit of the message length by its own.
  control::ChannelOptions channel;
  Duration answer_within = milliseconds(900);  ///< See Requester::Options::answer_within.
};

class EmbeddedStore final : public view::ViewStore {
 public:
  /// `loop` must outlive the store. It may have stopped before. Errors: invalid_argument if there are neither
  /// one nor three nodes, and those of SystemRandom::open.
  static Result<std::unique_ptr<EmbeddedStore>> create(control::ControlLoop& loop,
                                                       const EmbeddedOptions& wanted);
  /// Any thread. No handler is called afterwards.
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
