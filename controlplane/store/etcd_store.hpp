// A store of views in etcd, through the HTTP/JSON gateway of etcd's client port. Each group has a key. A view
// is replaced by a transaction that compares the revision of the key's last change. If there are several
// endpoints, a request goes first to the one that answered last. If that endpoint hesitates, the next one
// gets the request as well. Only the connections of watches stay open. A watch that breaks is begun anew. The
// store is made for etcd 3.4, whose watches may miss events, so watches give only hints. It uses no TLS and
// no password, so etcd must listen where only the cluster can reach it (docs/security.md).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "controlplane/connect/control_loop.hpp"
#include "controlplane/view/view_store.hpp"
#include "dataplane/base/address.hpp"

namespace rdmc::store {

struct EtcdOptions {
  std::vector<Address> endpoints;        ///< At least one. etcd's usual client port is 2379.
  std::string prefix = "/rdmc/views/";   ///< The beginning of each key. The group's name follows it.
  Duration attempt = milliseconds(400);  ///< The time limit for the answer of one endpoint.
  Duration hedge = milliseconds(50);     ///< After this time the next endpoint is asked as well.
  /// A watch that reports nothing for this time is begun anew.
  Duration watch_silence = seconds(60);
  /// The pause before a watch that has ended is begun anew.
  Duration watch_pause = milliseconds(200);
};

class EtcdStore final : public view::ViewStore {
 public:
  /// `loop` must outlive the store, unless it has stopped. Errors: invalid_argument if there is no endpoint
  /// or no prefix.
  static Result<std::unique_ptr<EtcdStore>> create(control::ControlLoop& loop, const EtcdOptions& options);
  /// Any thread. No handler is called afterwards.
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
