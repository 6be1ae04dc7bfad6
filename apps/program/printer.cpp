#include "apps/program/printer.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace rdmc {

void write_text(int fd, std::string_view text) {
  while (!text.empty()) {
    const auto n = ::write(fd, text.data(), text.size());
    if (n < 0 && errno != EINTR) return;
    if (n > 0) text.remove_prefix(static_cast<std::size_t>(n));
  }
}

Result<std::unique_ptr<Printer>> Printer::start() {
  std::unique_ptr<Printer> printer(new Printer);
  auto worker = Worker::start();
  if (!worker) return std::unexpected(worker.error());
  printer->worker_ = std::move(*worker);
  return printer;
}

void Printer::print(int fd, std::string text) {
  const auto bytes = text.size();
  post(bytes, [fd, text = std::move(text)] { write_text(fd, text); });
}

void Printer::post(std::size_t bytes, Worker::Task write) {
  if (bytes > 0 && waiting_ + bytes > kMostBytes) {
    ++dropped_;
    return;
  }
  waiting_ += bytes;
  worker_->post([this, bytes, write = std::move(write)]() mutable {
    write();
    waiting_ -= bytes;
    const std::uint64_t dropped = dropped_, before = std::exchange(reported_, dropped);
    if (dropped > before)
      write_text(STDERR_FILENO,
                 fmt::format("{} lines were dropped here: nobody read them\n", dropped - before));
  });
}

}  // namespace rdmc
