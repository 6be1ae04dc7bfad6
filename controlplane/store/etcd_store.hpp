// A store of views in etcd, which uses the HTTP/JSON gateway at etcd's client port. Each group has a key. A
// view is replaced by a transaction that compares the revision of the key's last change. If there are several
// endpoints, a request is first sent to the endpoint that gave the last answer. If this endpoint does not
// answer soon, the request is also sent to the next endpoint. Only the connections of watches stay open. A
// watch that breaks is begun again. The store is made for etcd 3.4, whose watches may miss events, so it uses
// watches only for watch notifications. It uses no TLS and no password, so etcd must listen at an address
// that only the cluster can reach (docs/security.md).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "controlplane/connect/control_loop.hpp"
#include "controlplane/view/view_store.hpp"
#include "dataplane/base/address.hpp"

namespace rdmc::store {

struct EtcdOptions {
  std::vector<Address> endpoints;        ///< At least one endpoint. The usual port number is 2379.
  std::string prefix = "/rdmc/views/";   ///< The beginning of each key. The group's name follows the prefix.
  Duration attempt = milliseconds(400);  ///< The time limit for the answer of one endpoint.
  Duration hedge = milliseconds(50);  ///< The time after which the request is also sent to the next endpoint.
  /// If a watch reports nothing for this time, it is begun again.
  Duration watch_silence = seconds(60);
  /// The pause before a watch that has ended is begun again.
  Duration watch_pause = milliseconds(200);
};

class EtcdStore final : public view::ViewStore {
 public:
  /// `loop` must exist longer than the store, with one exception: if the loop has stopped, it may be
  /// destroyed before the store. Errors: invalid_argument if there is no endpoint or if the prefix is empty.
  static Result<std::unique_ptr<EtcdStore>> create(control::ControlLoop& loop, const EtcdOptions& options);
  /// Any thread. After the destructor, no handler is called.
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
