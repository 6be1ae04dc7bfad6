#include "apps/bcast-cli/reporter.hpp"

#include <unistd.h>

#include "apps/program/output.hpp"

namespace rdmc::bcast {

Reporter::Reporter(bool json)
    : json_(json), json_on_terminal_(json && ::isatty(STDOUT_FILENO) == 1), line_(STDERR_FILENO) {}

Result<std::unique_ptr<Reporter>> Reporter::start(bool json) {
  std::unique_ptr<Reporter> reporter(new Reporter(json));
  auto printer = Printer::start();
  if (!printer) return std::unexpected(printer.error());
  reporter->printer_ = std::move(*printer);
  return reporter;
}

void Reporter::put(std::string json, std::string text) {
  const auto bytes = text.size() + (json_ ? json.size() : 0);
  printer_->post(bytes, [this, json = std::move(json), text = std::move(text)] {
    if (!text.empty()) line_.clear();
    write_text(STDERR_FILENO, text);
    if (json_) write_text(STDOUT_FILENO, json);
  });
}

void Reporter::progress(const ProgressEvent& event) {
  if (progress_waits_.exchange(true)) return;
  printer_->post(0, [this, event] {
    progress_waits_ = false;
    if (!json_on_terminal_) line_.show(event);
    if (json_) write_text(STDOUT_FILENO, json_line(event));
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
  put({}, complaint(error.what));
}
void Reporter::tell(std::string line) {
  put(std::move(line), {});
}

}  // namespace rdmc::bcast
