// Answers GET /metrics over HTTP, without a key. It must listen where only a monitor reaches it. By default
// it listens on loopback. The cost of unauthenticated clients is limited: each connection has a limit of
// bytes and of seconds, and the number of connections is limited. If a further connection comes, the oldest
// one is closed.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "controlplane/connect/control_loop.hpp"
#include "dataplane/base/address.hpp"

namespace rdmc {

class MetricsServer {
 public:
  static constexpr std::size_t kMostConnections = 8;
  static constexpr std::uint32_t kMostRequestBytes = 8192;
  static constexpr int kSeconds = 5;
  static constexpr std::uint16_t kPort = 9464;

  /// Starts to listen. `text` is called on the control loop's thread for each scrape. Errors: those of
  /// listening.
  static Result<std::unique_ptr<MetricsServer>> listen(control::ControlLoop& loop, const Address& address,
                                                       std::function<std::string()> text);
  /// Parses "[ADDR:]PORT". Errors: invalid_argument.
  static Result<Address> address_of(const std::string& where);
  /// Listens on "[ADDR:]PORT", by default on loopback and port 9464. Returns nullptr, without any effect, if
  /// `where` is empty. Errors: those of listen(), and invalid_argument if `where` is not an address.
  static Result<std::unique_ptr<MetricsServer>> open(control::ControlLoop& loop, const std::string& where,
                                                     std::function<std::string()> text);
  /// After this, `text` is not called any more. Must not be called on the control loop's thread.
  ~MetricsServer();

  const Address& address() const { return address_; }

 private:
  class Impl;
  MetricsServer(std::shared_ptr<Impl> impl, control::ControlLoop& loop, const Address& address)
      : impl_(std::move(impl)), loop_(loop), address_(address) {}
  std::shared_ptr<Impl> impl_;
  control::ControlLoop& loop_;
  const Address address_;
};

}  // namespace rdmc
