#include "apps/bcast-cli/reporter.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

namespace rdmc::bcast {
namespace {

/// Writes a line. Errors are ignored, because they mean that the text has no reader. The exit code also gives
/// the result.
void write_line(int fd, std::string_view text) {
  while (!text.empty()) {
    const auto n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno != EINTR) return;
    if (n > 0) text.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace

Reporter::Reporter(bool json)
    : json_(json), json_on_terminal_(json && ::isatty(STDOUT_FILENO) == 1), line_(STDERR_FILENO) {}

Result<std::unique_ptr<Reporter>> Reporter::start(bool json) {
  std::unique_ptr<Reporter> reporter(new Reporter(json));
  auto worker = Worker::start();
  if (!worker) return std::unexpected(worker.error());
  reporter->worker_ = std::move(*worker);
  return reporter;
}

void Reporter::put(std::string json, std::string text) {
  const auto bytes = text.size() + (json_ ? json.size() : 0);
  if (unread_ + bytes > kMaxUnread) {
    ++dropped_;
    return;
  }
  unread_ += bytes;
  worker_->post([this, bytes, json = std::move(json), text = std::move(text)] {
    if (!text.empty()) line_.clear();
    write_line(STDERR_FILENO, text);
    if (json_) write_line(STDOUT_FILENO, json);
    unread_ -= bytes;
    if (const auto dropped = dropped_.exchange(0); dropped > 0)
      write_line(STDERR_FILENO, fmt::format("{} lines were dropped here: nobody read them\n", dropped));
  });
}

void Reporter::progress(const ProgressEvent& event) {
  if (progress_waits_.exchange(true)) return;
  worker_->post([this, event] {
    progress_waits_ = false;
    if (!json_on_terminal_) line_.show(event);
    if (json_) write_line(STDOUT_FILENO, json_line(event));
  });
}

void Reporter::fabric(const FabricEvent& event) {
  put(json_line(event), text_line(event));
}
void Reporter::plan(const PlanEvent& event) {
  put(json_line(event), text_line(event));
}
void Reporter::straggler(const StragglerEvent& event) {
  put(json_line(event), text_line(event));
}
void Reporter::receiver(const ReceiverEvent& event) {
  put(json_line(event), text_line(event));
}
void Reporter::summary(const SummaryEvent& event) {
  put(json_line(event), text_line(event));
}
void Reporter::say(std::string text) {
  put({}, printable(text) + "\n");
}
void Reporter::complain(const Error& error) {
  say(complaint(error));
}
void Reporter::tell(std::string line) {
  put(std::move(line), {});
}

}  // namespace rdmc::bcast
