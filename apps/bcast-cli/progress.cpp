#include "apps/bcast-cli/progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "apps/program/output.hpp"
#include "apps/units/units.hpp"

namespace rdmc::bcast {
namespace {

constexpr std::size_t kUsualColumns = 80;
constexpr std::size_t kBarColumns = 20;
constexpr const char* kEraseLine = "\r\x1b[K";

double share(std::uint64_t bytes, std::uint64_t total) {
  return total == 0 ? 1 : static_cast<double>(bytes) / static_cast<double>(total);
}

/// Errors are ignored, because the line is only a convenience.
void write_text(int fd, std::string_view text) {
  if (::write(fd, text.data(), text.size()) < 0) return;
}

}  // namespace

Progress::Progress(std::vector<std::string> hosts, std::uint64_t total_bytes, Time start)
    : total_bytes_(total_bytes), start_(start) {
  for (auto& host : hosts) receivers_.push_back({std::move(host)});
}

void Progress::has(std::size_t receiver, std::uint64_t bytes) {
  auto& entry = receivers_.at(receiver);
  const auto believed = std::min(bytes, total_bytes_);
  if (believed <= entry.bytes) return;
  entry.bytes = believed;
  news_ = true;
}

void Progress::done(std::size_t receiver) {
  has(receiver, total_bytes_);
  receivers_.at(receiver).done = news_ = true;
}

void Progress::failed(std::size_t receiver) {
  receivers_.at(receiver).failed = news_ = true;
}

std::optional<ProgressEvent> Progress::due(Time now) {
  if (last_told_ && now < *last_told_ + (news_ ? kProgressInterval : kLongestSilence)) return std::nullopt;
  last_told_ = now;
  news_ = false;
  ProgressEvent event;
  event.total_bytes = total_bytes_;
  event.seconds = (now - start_).seconds();
  double sum = 0;  // The sum is a double, because the sum of many huge files can exceed 64 bits.
  const Receiver* slowest = nullptr;
  for (const auto& receiver : receivers_) {
    if (receiver.failed) continue;
    ++event.receivers;
    event.done += receiver.done;
    sum += static_cast<double>(receiver.bytes);
    if (!receiver.done && (slowest == nullptr || receiver.bytes < slowest->bytes)) slowest = &receiver;
  }
  if (event.receivers > 0) event.bytes = static_cast<std::uint64_t>(sum / event.receivers);
  if (slowest != nullptr) {
    event.slowest_host = slowest->host;
    event.slowest_bytes = slowest->bytes;
  }
  // One sample that is older than the window is kept, so that the samples cover the whole window.
  samples_.push_back({now, event.bytes});
  while (samples_.size() > 2 && samples_[1].at <= now - kRateWindow) samples_.pop_front();
  const auto& oldest = samples_.front();
  if (oldest.at < now && event.bytes > oldest.bytes)
    event.bits_per_second = static_cast<double>(event.bytes - oldest.bytes) * 8 / (now - oldest.at).seconds();
  return event;
}

std::string progress_text(const ProgressEvent& event, std::size_t columns) {
  const auto part = share(event.bytes, event.total_bytes);
  const auto filled = static_cast<std::size_t>(part * kBarColumns);
  const auto bar = fmt::format(" [{:=<{}}{:<{}}]", "", filled, "", kBarColumns - filled);
  const auto percent = fmt::format("{:3.0f}%", part * 100);
  const auto amount = fmt::format("  {} of {}", size_words(event.bytes), size_words(event.total_bytes));
  std::string rate;
  std::string rest;
  if (event.bits_per_second > 0) {
    const auto left = static_cast<double>(event.total_bytes - event.bytes) * 8 / event.bits_per_second;
    rate = fmt::format("  {}", rate_words(event.bits_per_second));
    rest = fmt::format("  {} left", duration_words(left));
  }
  rest += fmt::format("  {}/{} done", event.done, event.receivers);
  if (!event.slowest_host.empty() && event.slowest_bytes < event.bytes) {
    rest += fmt::format("  slowest {} at {:.0f}%", printable(event.slowest_host),
                        share(event.slowest_bytes, event.total_bytes) * 100);
  }
  // If the terminal is narrow, parts are left out. Parts that can be derived from other parts are left out
  // first.
  auto text = percent + bar + amount + rate + rest;
  if (text.size() > columns) text = percent + amount + rate + rest;
  if (text.size() > columns) text = percent + amount + rest;
  if (text.size() > columns) text.resize(columns);  // Host names are ASCII, so no character is cut in two.
  return text;
}

ProgressLine::ProgressLine(int fd) : fd_(fd) {
  const auto* const kind = std::getenv("TERM");
  const auto* const no_colour = std::getenv("NO_COLOR");
  terminal_ = ::isatty(fd) == 1 && kind != nullptr && std::string_view(kind) != "dumb";
  colour_ = no_colour == nullptr || *no_colour == '\0';
}

void ProgressLine::show(const ProgressEvent& event) {
  if (!terminal_) return;
  winsize size{};
  const bool known = ::ioctl(fd_, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  // The last column stays free, because some terminals wrap a line that fills it.
  const auto text = progress_text(event, (known ? size.ws_col : kUsualColumns) - 1);
  write_text(fd_, colour_ ? fmt::format("{}\x1b[36m{}\x1b[0m", kEraseLine, text)
                          : fmt::format("{}{}", kEraseLine, text));
  shown_ = true;
}

void ProgressLine::clear() {
  if (shown_) write_text(fd_, kEraseLine);
  shown_ = false;
}

}  // namespace rdmc::bcast
