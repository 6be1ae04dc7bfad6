// Answers a monitor's questions for the figures of a server. The monitor asks on a thread of its own, and the
// figures belong to the thread of the server. So a question waits until the server's loop answers it.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "apps/program/metrics_server.hpp"
#include "apps/replicated-kv/service/figures.hpp"
#include "controlplane/connect/control_loop.hpp"
#include "dataplane/base/descriptor.hpp"

namespace rdmc::kv {

class Metrics {
 public:
  /// Listens on `where`, which is "[ADDR:]PORT". Returns null if it is empty. Errors: those of MetricsServer.
  static Result<std::unique_ptr<Metrics>> open(const std::string& where, std::string server);
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  const Address& address() const { return http_->address(); }
  /// Is readable while a question waits.
  int descriptor() const { return wake_.get(); }
  /// Answers the question. The server's loop calls it.
  void answer(const std::vector<Figure>& figures);

 private:
  explicit Metrics(std::string server) : server_(std::move(server)) {}
  std::string ask();

  const std::string server_;
  Descriptor wake_;
  std::mutex mutex_;
  std::condition_variable answered_;
  bool is_asked_ = false, has_answer_ = false;  // protected by mutex_
  std::string text_;                            // protected by mutex_
  std::unique_ptr<control::ControlLoop> loop_;
  std::unique_ptr<MetricsServer> http_;
};

}  // namespace rdmc::kv
