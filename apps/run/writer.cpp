#include "apps/run/writer.hpp"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

namespace rdmc::run {

Result<std::unique_ptr<Writer>> Writer::start(int fd, std::function<void()> changed) {
  std::unique_ptr<Writer> writer(new Writer(fd, std::move(changed)));
  auto worker = Worker::start();
  if (!worker) return std::unexpected(std::move(worker.error()));
  writer->worker_ = std::move(*worker);
  return writer;
}

void Writer::print(std::string text) {
  if (text.empty() || is_broken_) return;
  waiting_ += text.size();
  worker_->post([this, text = std::move(text)] { write(text); });
}

void Writer::write(const std::string& text) {
  for (std::string_view rest = text; !rest.empty() && !is_broken_;) {
    const ssize_t written = ::write(fd_, rest.data(), rest.size());
    if (written > 0) {
      rest.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {  // Another program has made this file non-blocking.
      pollfd ready{fd_, POLLOUT, 0};
      ::poll(&ready, 1, -1);
    } else if (errno != EINTR) {
      is_broken_ = true;
      changed_();
    }
  }
  const std::size_t before = waiting_.fetch_sub(text.size());
  if (before >= kMostBytes / 2 && before - text.size() < kMostBytes / 2) changed_();
}

}  // namespace rdmc::run
