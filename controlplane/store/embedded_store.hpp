// A client of the embedded store: its nodes (RaftNode behind a StoreServer), of which one leads, over one
// channel with the cluster key. A node that does not answer, or does not lead, is left for the next one; it
// reconnects by itself when it is next asked.
#pragma once

#include <memory>
#include <vector>

#include "controlplane/connect/channel_options.hpp"
#include "controlplane/connect/control_loop.hpp"
#include "controlplane/view/view_store.hpp"
#include "dataplane/base/address.hpp"

namespace rdmc::store {

struct EmbeddedOptions {
  std::vector<Address> nodes;  ///< of their StoreServers; at least one
  control::ChannelOptions channel;
  Duration answer_within = milliseconds(900);  ///< a request, over all nodes
};

class EmbeddedStore final : public view::ViewStore {
 public:
  /// `loop` outlives the store, or has stopped. Errors: invalid_argument (no nodes).
  static Result<std::unique_ptr<EmbeddedStore>> create(control::ControlLoop& loop,
                                                       const EmbeddedOptions& options);
  /// Any thread; no handler is called any more.
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
