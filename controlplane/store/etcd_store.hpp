// Views in etcd, through the HTTP/JSON gateway of its client port: a key for each group, replaced by a
// transaction that compares the revision of the key's last change. One of several endpoints is asked,
// beginning with the one that answered last, and the next one as well when it hesitates; nothing is kept open
// but watches, which come back by themselves. Made for etcd 3.4, whose watches may miss events: they are
// hints. No TLS and no password towards etcd: let it listen where only the cluster can reach it
// (docs/security.md).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "controlplane/connect/control_loop.hpp"
#include "controlplane/view/view_store.hpp"
#include "dataplane/base/address.hpp"

namespace rdmc::store {

struct EtcdOptions {
  std::vector<Address> endpoints;            ///< at least one; the client port is 2379 as a rule
  std::string prefix = "/rdmc/views/";       ///< of the keys; groups follow
  Duration attempt = milliseconds(400);      ///< for one endpoint to answer
  Duration hedge = milliseconds(50);         ///< before the next one is asked as well
  Duration watch_silence = seconds(60);      ///< a watch that says nothing for so long is begun anew
  Duration watch_pause = milliseconds(200);  ///< before one that broke is begun anew
};

class EtcdStore final : public view::ViewStore {
 public:
  /// `loop` outlives the store, or has stopped. Errors: invalid_argument (no endpoint, no prefix).
  static Result<std::unique_ptr<EtcdStore>> create(control::ControlLoop& loop, const EtcdOptions& options);
  /// Any thread; no handler is called any more.
  ~EtcdStore() override;

  void read(const std::string& group, ReadDone done) override;
  void compare_and_swap(const std::string& group, const view::View& next, SwapDone done) override;
  void watch(const std::string& group, Hint hint) override;
  void list(ListDone done) override;

 private:
  class Impl;
  explicit EtcdStore(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

}  // namespace rdmc::store
