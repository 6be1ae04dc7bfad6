// A client of the embedded store (StoreNode): it proposes views to all nodes at once, and a majority of them
// is enough. So the loss of one node of three delays nothing. It reaches nodes when it is first asked, and
// reaches them again by itself while somebody waits for an answer or watches a group.
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
  std::vector<Address> nodes;  ///< all of the store's, in the order in which each knows them: one or three
  control::ChannelOptions channel;             ///< the longest message is the store's own
  Duration answer_within = milliseconds(900);  ///< as Requester's
};

class EmbeddedStore final : public view::ViewStore {
 public:
  /// `loop` outlives the store, or has stopped. Errors: invalid_argument (no nodes, or too many), and those
  /// of SystemRandom::open.
  static Result<std::unique_ptr<EmbeddedStore>> create(control::ControlLoop& loop,
                                                       const EmbeddedOptions& wanted);
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
