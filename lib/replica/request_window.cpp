#include "lib/replica/request_window.hpp"

#include <cassert>
#include <functional>

namespace rdmc::replica::collectives {

namespace {

bool have_common_bytes(std::span<const std::byte> a, std::span<const std::byte> b) {
  const std::less<> less;
  return !a.empty() && !b.empty() && less(a.data(), b.data() + b.size()) &&
         less(b.data(), a.data() + a.size());
}

}  // namespace

RequestWindow::RequestWindow(Exchange& exchange, Kind kind, std::size_t most_sends)
    : exchange_(exchange), tag_(static_cast<int>(kind)), most_sends_(most_sends) {
  assert(most_sends >= 1 && most_sends <= kMost);
}

RequestWindow::~RequestWindow() {
  static_cast<void>(finish());
}

void RequestWindow::Ring::add(std::uint64_t number, std::span<const std::byte> bytes) {
  ++count;
  at(count - 1) = {.number = number, .bytes = bytes};
}

void RequestWindow::Ring::drop_finished() {
  while (count > 0 && at(0).is_finished) {
    first = (first + 1) % kMost;
    --count;
  }
}

Result<void> RequestWindow::make_space(Ring& ring, std::size_t most) {
  ring.drop_finished();
  if (ring.count < most) return {};
  const std::uint64_t oldest = ring.at(0).number;
  ring.at(0).is_finished = true;
  ring.drop_finished();
  return exchange_.finish({&oldest, 1});
}

Result<void> RequestWindow::send(std::span<const std::byte> bytes, int to) {
  if (auto done = wait_for(bytes); !done) return done;
  if (auto done = make_space(sends_, most_sends_); !done) return done;
  const auto request = exchange_.begin_send(bytes, to, tag_);
  if (!request) return std::unexpected(request.error());
  sends_.add(*request, bytes);
  return {};
}

Result<void> RequestWindow::receive(std::span<std::byte> bytes, int from) {
  if (auto done = make_space(receives_, kMost); !done) return done;
  const auto request = exchange_.begin_receive(bytes, from, tag_);
  if (!request) return std::unexpected(request.error());
  receives_.add(*request, bytes);
  return {};
}

Result<void> RequestWindow::wait_for(std::span<const std::byte> bytes) {
  std::array<std::uint64_t, kMost> numbers;
  std::size_t count = 0;
  for (std::size_t index = 0; index < receives_.count; ++index) {
    Request& request = receives_.at(index);
    if (request.is_finished || !have_common_bytes(request.bytes, bytes)) continue;
    request.is_finished = true;
    numbers[count++] = request.number;
  }
  receives_.drop_finished();
  if (count == 0) return {};
  return exchange_.finish({numbers.data(), count});
}

Result<void> RequestWindow::finish() {
  std::array<std::uint64_t, 2 * kMost> numbers;
  std::size_t count = 0;
  for (Ring* const ring : {&receives_, &sends_}) {
    for (std::size_t index = 0; index < ring->count; ++index)
      if (!ring->at(index).is_finished) numbers[count++] = ring->at(index).number;
    ring->count = 0;
  }
  if (count == 0) return {};
  return exchange_.finish({numbers.data(), count});
}

Result<void> send_and_receive(Exchange& exchange, Kind kind, std::span<const std::byte> bytes, int to,
                              std::span<std::byte> into, int from) {
  RequestWindow window(exchange, kind);
  if (auto done = window.receive(into, from); !done) return done;
  if (auto done = window.send(bytes, to); !done) return done;
  return window.finish();
}

}  // namespace rdmc::replica::collectives
