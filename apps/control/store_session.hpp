// A store that a command line names, with blocking requests. Owns its control loop and the store. Only one
// thread may use an object.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "controlplane/connect/control_loop.hpp"
#include "controlplane/connect/identity.hpp"
#include "controlplane/view/view_store.hpp"

namespace rdmc::control_app {

/// The port number of a store node whose address contains no port number.
inline constexpr std::uint16_t kStorePort = 7701;

struct StoreChoice {
  std::string store = "127.0.0.1:7701";  ///< The addresses as "ADDR,…" of embedded nodes, or as
                                         ///< "etcd:ADDR,…".
  control::Identity identity;            ///< Used for embedded nodes.
};

/// Parses "ADDR[:PORT],…". Errors: invalid_argument if the text is not such a list.
Result<std::vector<Address>> parse_addresses(const std::string& text, std::uint16_t default_port);

class StoreSession {
 public:
  /// Opens the store. Errors: invalid_argument, and those of the key file.
  static Result<std::unique_ptr<StoreSession>> open(const StoreChoice& choice);
  ~StoreSession();

  /// Returns the control loop, for a caller that uses the store itself on the loop's thread.
  control::ControlLoop& loop() { return *loop_; }
  view::ViewStore& store() { return *store_; }

  Result<std::vector<view::GroupView>> list();
  Result<view::View> read(const std::string& group);
  Result<view::SwapResult> swap(const std::string& group, const view::View& next);
  /// Watches the view of `group`. `hint` is called on another thread.
  void watch(const std::string& group, view::ViewStore::Hint hint);

 private:
  explicit StoreSession(std::unique_ptr<control::ControlLoop> loop) : loop_(std::move(loop)) {}

  std::unique_ptr<control::ControlLoop> loop_;
  std::unique_ptr<view::ViewStore> store_;
};

}  // namespace rdmc::control_app
