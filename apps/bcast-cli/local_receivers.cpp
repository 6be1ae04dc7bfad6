#include "apps/bcast-cli/local_receivers.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "apps/bcast-cli/events.hpp"
#include "apps/bcast-cli/options.hpp"
#include "apps/program/output.hpp"
#include "dataplane/base/clock.hpp"

namespace rdmc::bcast {
namespace {

constexpr int kFirstFreeDescriptor = 10;  // This is above the descriptors that a receiver inherits.
constexpr std::size_t kMaxReport = 4096;
constexpr std::string_view kListens = "listens ";
constexpr char kGiveUp = '!';  // This is the only message from the sender.

/// Runs in the child between fork and exec. It makes only system calls, because another thread of the parent
/// may have held any lock at the fork.
[[noreturn]] void become_receiver(pid_t parent, int link, int key, const char* program,
                                  char* const* arguments) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(1);  // The parent died before prctl().
  const int null = ::open("/dev/null", O_RDWR);
  if (null < 0 || ::dup2(null, STDIN_FILENO) < 0 || ::dup2(null, STDOUT_FILENO) < 0) ::_exit(1);
  if (::dup2(link, kLinkDescriptor) < 0 || ::dup2(key, kKeyDescriptor) < 0) ::_exit(1);
  // Ctrl-C reaches the whole foreground process group, and the sender then ends its receivers. So a receiver
  // ignores SIGINT. This also discards a SIGINT that arrived while the signal was blocked.
  ::signal(SIGINT, SIG_IGN);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execv(program, arguments);
  ::_exit(127);
}

/// Returns a copy of `fd` with a higher number, which no dup2() of the child overwrites.
Result<Descriptor> moved_up(int fd) {
  Descriptor copy(::fcntl(fd, F_DUPFD_CLOEXEC, kFirstFreeDescriptor));
  if (!copy) return fail_errno("cannot pass a descriptor to a receiver", errno);
  return copy;
}

int poll_ms(Time now, Time deadline) {
  return deadline <= now ? 0 : static_cast<int>((deadline - now).ns / 1'000'000 + 1);
}

std::string exit_words(int status) {
  if (WIFSIGNALED(status)) return fmt::format("was ended by signal {}", WTERMSIG(status));
  if (WEXITSTATUS(status) == 127) return "could not be started";
  return fmt::format("ended with exit code {}", WEXITSTATUS(status));
}

/// Waits until the process ends or `deadline`. Returns true if the process has ended. The caller must still
/// reap it.
bool ends_before(pid_t pid, Time deadline) {
  const Descriptor process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  pollfd ended{process.get(), POLLIN, 0};
  int polled = -1;
  do polled = process ? ::poll(&ended, 1, poll_ms(monotonic_now(), deadline)) : 0;
  while (polled < 0 && errno == EINTR);
  return polled > 0;
}

/// Waits until the process ends, and kills it after `deadline`. Returns a text about how the process ended.
std::string reap(pid_t pid, Time deadline) {
  if (!ends_before(pid, deadline)) ::kill(pid, SIGKILL);
  int status = 0;
  pid_t reaped = 0;
  do reaped = ::waitpid(pid, &status, 0);
  while (reaped < 0 && errno == EINTR);
  return reaped == pid ? exit_words(status) : "is gone";
}

/// Reads one line from `link`. Errors: cancelled if `interrupt` became readable, timed_out, peer_failed if
/// the link ended before the line, protocol_error if the line is too long.
Result<std::string> read_line(int link, int interrupt, Time deadline) {
  std::string line;
  while (line.size() < kMaxReport) {
    pollfd ready[] = {{link, POLLIN, 0}, {interrupt, POLLIN, 0}};
    const int polled = ::poll(ready, 2, poll_ms(monotonic_now(), deadline));
    if (polled < 0 && errno == EINTR) continue;
    if (polled == 0) return fail(Errc::timed_out, "did not come up in time");
    if (ready[1].revents != 0) return fail(Errc::cancelled, "interrupted");
    char piece[512];
    const auto n = ::recv(link, piece, sizeof piece, 0);
    if (n <= 0) return fail(Errc::peer_failed, "ended");
    line.append(piece, static_cast<std::size_t>(n));
    if (const auto end = line.find('\n'); end != std::string::npos) return line.substr(0, end);
  }
  return fail(Errc::protocol_error, "says what cannot be understood");
}

Result<void> report(int link, std::string_view line) {
  const auto n = ::send(link, line.data(), line.size(), MSG_NOSIGNAL);
  if (n == static_cast<ssize_t>(line.size())) return {};
  return fail_errno("the sender is gone", n < 0 ? errno : EPIPE);
}

}  // namespace

Address local_receiver_address(std::uint32_t index) {
  constexpr std::uint32_t kPerNetwork = 250;
  return Address::ipv4(127, 0, static_cast<std::uint8_t>(1 + index / kPerNetwork),
                       static_cast<std::uint8_t>(1 + index % kPerNetwork), 0);
}

Result<LocalReceivers> LocalReceivers::start(std::uint32_t count, const std::string& destination,
                                             const control::ClusterKey& key, int interrupt, Duration patience,
                                             const std::string& program) {
  const auto shared = key.share();
  if (!shared) return std::unexpected(shared.error());
  const auto key_descriptor = moved_up(shared->get());
  if (!key_descriptor) return std::unexpected(key_descriptor.error());
  LocalReceivers all;
  for (std::uint32_t index = 0; index < count; ++index) {
    auto directory = fmt::format("{}{}{}", destination, destination.ends_with('/') ? "" : "/", index);
    if (auto launched = all.launch(index, directory, key_descriptor->get(), program); !launched)
      return std::unexpected(launched.error());
  }
  if (auto awaited = all.await_addresses(interrupt, patience); !awaited)
    return std::unexpected(awaited.error());
  return all;
}

Result<void> LocalReceivers::launch(std::uint32_t index, const std::string& directory, int key,
                                    const std::string& program) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return fail_errno("cannot start a receiver", errno);
  Descriptor ours(ends[0]);
  const Descriptor its(ends[1]);
  const auto theirs = moved_up(its.get());
  if (!theirs) return std::unexpected(theirs.error());
  std::array<std::string, 4> words{"rdmc_bcast", kLocalReceiverArgument,
                                   to_string(local_receiver_address(index)), directory};
  char* const arguments[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return fail_errno("cannot start a receiver", errno);
  if (pid == 0) become_receiver(parent, theirs->get(), key, program.c_str(), arguments);
  receivers_.push_back({.directory = directory,
                        .address = local_receiver_address(index),
                        .pid = pid,
                        .link = std::move(ours)});
  return {};
}

Result<void> LocalReceivers::await_addresses(int interrupt, Duration patience) {
  const Time deadline = monotonic_now() + patience;
  for (auto& receiver : receivers_) {
    const auto line = read_line(receiver.link.get(), interrupt, deadline);
    if (!line) {
      if (line.error().code == Errc::cancelled) return std::unexpected(line.error());
      receiver.cause = line.error().what;
      if (line.error().code == Errc::peer_failed)
        receiver.cause = reap(std::exchange(receiver.pid, -1), deadline);
      continue;
    }
    const auto address = line->starts_with(kListens) ? parse_address(line->substr(kListens.size()), 0)
                                                     : Result<Address>(fail(Errc::io_error, *line));
    if (address)
      receiver.address = *address;
    else
      receiver.cause = address.error().what;
  }
  return {};
}

void LocalReceivers::abandon() const {
  for (const auto& receiver : receivers_) {
    if (receiver.pid <= 0) continue;
    (void)::send(receiver.link.get(), &kGiveUp, sizeof kGiveUp, MSG_NOSIGNAL | MSG_DONTWAIT);
    ::kill(receiver.pid, SIGCONT);
  }
}

void LocalReceivers::stop(Duration patience) {
  for (auto& receiver : receivers_) {
    receiver.link.reset();  // The receiver sees the end of file and ends.
    if (receiver.pid <= 0) continue;
    ::kill(receiver.pid, SIGTERM);
    ::kill(receiver.pid, SIGCONT);  // A receiver that was stopped by a signal then also cleans up.
  }
  const Time deadline = monotonic_now() + patience;
  for (auto& receiver : receivers_) {
    if (receiver.pid > 0) (void)reap(std::exchange(receiver.pid, -1), deadline);
  }
}

bool is_abandoned(int link) {
  char word = 0;
  return ::recv(link, &word, sizeof word, MSG_DONTWAIT) == sizeof word && word == kGiveUp;
}

Result<void> report_address(int link, const Address& address) {
  return report(link, fmt::format("{}{}\n", kListens, to_string(address)));
}

Result<void> report_failure(int link, const Error& error) {
  return report(link, fmt::format("{}\n", printable(error.what).substr(0, kMaxReport / 2)));
}

}  // namespace rdmc::bcast
