// Answers GET /metrics over HTTP, without a key: it is to listen where only a monitor reaches it, and does so
// on loopback unless told otherwise. What strangers can cost is bounded: so many connections at a time, of
// which the oldest gives way to one too many, so many bytes and seconds each.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "controlplane/connect/control_loop.hpp"
#include "dataplane/base/address.hpp"

namespace rdmc::control_app {

class MetricsServer {
 public:
  static constexpr std::size_t kMostConnections = 8;
  static constexpr std::uint32_t kMostRequestBytes = 8192;
  static constexpr int kSeconds = 5;
  static constexpr std::uint16_t kPort = 9464;

  /// `text` is called on the loop's thread for each scrape. Errors: those of listening.
  static Result<std::unique_ptr<MetricsServer>> listen(control::ControlLoop& loop, const Address& address,
                                                       std::function<std::string()> text);
  /// On "[ADDR:]PORT", by default loopback and 9464; empty: nothing, as nobody asked for it. Errors: those,
  /// and invalid_argument.
  static Result<std::unique_ptr<MetricsServer>> open(control::ControlLoop& loop, const std::string& where,
                                                     std::function<std::string()> text);
  /// `text` is not called any more. Not on the loop's thread.
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

}  // namespace rdmc::control_app
