#include "apps/replicated-kv/server/state_senders.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <iterator>
#include <utility>

#include "dataplane/base/signal_masked_thread.hpp"

namespace rdmc::kv {

namespace {

/// StateWriter does not copy pieces of at most this length.
constexpr std::size_t kPieceBytes = 256 << 10;
constexpr int kPipeBytes = 1 << 20;
/// While more than this waits for the other server, the pipe is not read, and the child waits.
constexpr std::size_t kMostWaiting = 4 << 20;
constexpr std::chrono::milliseconds kAskAgain{1};
/// A thread that waits for its child sees within this time that it must stop.
constexpr int kStopsWithin = 20;  // ms

/// In the child. Returns 0 or an errno.
int write_state(int pipe, const StateSenders::Save& save) {
  int error = 0;
  save([&](const std::vector<std::byte>& piece) {
    for (std::span<const std::byte> rest = piece; !rest.empty() && error == 0;) {
      const ssize_t count = ::write(pipe, rest.data(), rest.size());
      if (count > 0) rest = rest.subspan(static_cast<std::size_t>(count));
      if (count <= 0 && errno != EINTR) error = errno;
    }
  });
  return error;
}

/// Waits until the descriptor is readable. Returns false if the thread must stop.
bool wait_for(int descriptor, const std::atomic<bool>& must_stop) {
  for (pollfd readable{.fd = descriptor, .events = POLLIN, .revents = 0}; !must_stop;)
    if (::poll(&readable, 1, kStopsWithin) > 0) return true;
  return false;
}

/// Reads until the piece is full or the pipe has ended. Returns false after the end.
bool read_piece(int pipe, std::vector<std::byte>& piece, const std::atomic<bool>& must_stop) {
  piece.resize(kPieceBytes);
  std::size_t length = 0;
  while (length < piece.size() && wait_for(pipe, must_stop)) {
    const ssize_t count = ::read(pipe, piece.data() + length, piece.size() - length);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    length += static_cast<std::size_t>(count);
  }
  piece.resize(length);
  return length != 0;
}

/// The thread of a transfer. Returns why it has failed, or an empty string.
std::string send_state(ForkedChild& child, const Descriptor& pipe, StateWriter& to,
                       const std::atomic<bool>& must_stop) {
  std::vector<std::byte> piece;
  while (read_piece(pipe.get(), piece, must_stop)) {
    while (to.waiting_bytes() > kMostWaiting && !must_stop) std::this_thread::sleep_for(kAskAgain);
    to.write(std::move(piece));
  }
  if (!wait_for(child.descriptor(), must_stop)) return {};
  if (const auto finished = child.finished(); finished && !*finished) return finished->error().what;
  to.finish();
  return {};
}

}  // namespace

StateSenders::Sender::~Sender() {
  must_stop = true;
  if (thread.joinable()) thread.join();
}

Result<void> StateSenders::begin(const StateWriter& to, const Save& save) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return fail_errno("pipe", errno);
  Descriptor from(ends[0]), into(ends[1]);
  // A pipe that stays short is only slower.
  static_cast<void>(::fcntl(into.get(), F_SETPIPE_SZ, kPipeBytes));
  Sender& sender = senders_.emplace_back();
  const auto begun = sender.child.begin(into.get(), [&](int kept) { return write_state(kept, save); });
  if (!begun) {
    senders_.pop_back();
    return begun;
  }
  auto thread = start_signal_masked_thread(
      "that sends the data", [&sender, from = std::move(from), to = StateWriter(to)]() mutable {
        sender.failure = send_state(sender.child, from, to, sender.must_stop);
        sender.is_over = true;
      });
  if (!thread) {
    senders_.pop_back();
    return std::unexpected(thread.error());
  }
  sender.thread = std::move(*thread);
  return {};
}

std::vector<std::string> StateSenders::take_failures() {
  std::vector<std::string> failures;
  for (auto sender = senders_.begin(); sender != senders_.end();) {
    const auto next = std::next(sender);
    if (sender->is_over) {
      if (!sender->failure.empty()) failures.push_back(std::move(sender->failure));
      senders_.erase(sender);
    }
    sender = next;
  }
  return failures;
}

}  // namespace rdmc::kv
