#include "apps/bcast-cli/reporter.hpp"

#include <unistd.h>

#include <cstdio>

namespace rdmc::bcast {
namespace {

/// What cannot be written has no reader; the transfer's outcome is in the exit code too.
void write_line(std::FILE* stream, const std::string& text) {
  if (text.empty()) return;
  std::fwrite(text.data(), 1, text.size(), stream);
  std::fflush(stream);
}

}  // namespace

Reporter::Reporter(bool json) : json_(json), line_(STDERR_FILENO) {}

Result<std::unique_ptr<Reporter>> Reporter::start(bool json) {
  std::unique_ptr<Reporter> reporter(new Reporter(json));
  auto worker = Worker::start();
  if (!worker) return std::unexpected(worker.error());
  reporter->worker_ = std::move(*worker);
  return reporter;
}

void Reporter::put(std::string json, std::string text) {
  worker_->post([this, json = std::move(json), text = std::move(text)] {
    if (!text.empty()) line_.clear();
    write_line(stderr, text);
    if (json_) write_line(stdout, json);
  });
}

void Reporter::progress(const ProgressEvent& event) {
  worker_->post([this, event] {
    line_.show(event);
    if (json_) write_line(stdout, json_line(event));
  });
}

void Reporter::fabric(const FabricEvent& event) {
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
void Reporter::tell(std::string line) {
  put(std::move(line), {});
}

}  // namespace rdmc::bcast
