#include "apps/replicated-kv/server/metrics.hpp"

#include <sys/eventfd.h>

#include <cerrno>
#include <chrono>

#include "apps/program/exposition.hpp"

namespace rdmc::kv {

namespace {

/// A server that does not answer within this time hangs.
constexpr std::chrono::milliseconds kPatience{1000};

}  // namespace

Result<std::unique_ptr<Metrics>> Metrics::open(const std::string& where, std::string server) {
  if (where.empty()) return nullptr;
  std::unique_ptr<Metrics> metrics(new Metrics(std::move(server)));
  metrics->wake_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!metrics->wake_) return fail_errno("eventfd", errno);
  auto loop = control::ControlLoop::create();
  if (!loop) return std::unexpected(loop.error());
  metrics->loop_ = std::move(*loop);
  auto http = MetricsServer::open(*metrics->loop_, where, [self = metrics.get()] { return self->ask(); });
  if (!http) return std::unexpected(http.error());
  metrics->http_ = std::move(*http);
  return metrics;
}

Metrics::~Metrics() {
  {
    const std::lock_guard lock(mutex_);
    has_answer_ = true;
  }
  answered_.notify_all();
  http_.reset();
}

std::string Metrics::ask() {
  std::unique_lock lock(mutex_);
  is_asked_ = true;
  has_answer_ = false;
  ::eventfd_write(wake_.get(), 1);
  const bool has_answer = answered_.wait_for(lock, kPatience, [this] { return has_answer_; });
  is_asked_ = false;
  Exposition to({{"server", server_}});
  to.gauge("rdmc_kv_up", "0 while the server's loop does not answer", has_answer ? 1 : 0);
  return has_answer ? to.text() + text_ : to.text();
}

void Metrics::answer(const std::vector<Figure>& figures) {
  eventfd_t ignored;
  ::eventfd_read(wake_.get(), &ignored);
  Exposition to({{"server", server_}});
  for (const Figure& figure : figures) {
    const std::map<std::string, std::string> labels(figure.labels.begin(), figure.labels.end());
    if (figure.is_counter)
      to.counters(figure.name.c_str(), figure.help.c_str()).Add(labels).Increment(figure.value);
    else
      to.gauges(figure.name.c_str(), figure.help.c_str()).Add(labels).Set(figure.value);
  }
  {
    const std::lock_guard lock(mutex_);
    if (!is_asked_) return;
    text_ = to.text();
    has_answer_ = true;
  }
  answered_.notify_all();
}

}  // namespace rdmc::kv
