// rdmc_receive_pages: measures what a member of a group socket gains if it receives messages by their pages
// (MSG_ZEROCOPY) in place of a copy. First prints one JSON object for each length with two times: of a copy,
// and of a hand-off of pages. Both go from fresh memory to a buffer that begins at a multiple of 2 MB, and
// include the reading of all bytes that follows.
// Then prints one JSON object for each length with the times of rdmc_recv into such a buffer, in both ways.
// The ways alternate. Each time is printed without and with the reading of all bytes. A root in a second
// process sends the messages over loopback. Each message is complete before the call begins.
// All times are medians in microseconds.
#include <arpa/inet.h>
#include <poll.h>
#include <rdmc/socket.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <vector>

#include "dataplane/base/clock.hpp"
#include "dataplane/memory/arena.hpp"
#include "dataplane/memory/page_hand_off.hpp"

namespace {

using namespace rdmc;

/// Prints why the measurement has ended, and ends it.
[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(2);
}

int group_socket() {
  const int fd = rdmc_socket(AF_INET, RDMC_GROUP, 0);
  if (fd < 0 || rdmc_setsockopt(fd, RDMC_SOL_SOCKET, RDMC_SO_GROUP, "pages", 5) != 0) die("rdmc_socket");
  return fd;
}

/// Sends `count` messages of `bytes` bytes to one member. Writes the port number of the group to `report`.
[[noreturn]] void send_all(std::size_t bytes, int count, int report) {
  const int fd = group_socket();
  sockaddr_in address{
      .sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  socklen_t length = sizeof address;
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  if (rdmc_bind(fd, name, length) != 0 || rdmc_listen(fd, 1) != 0 || rdmc_getsockname(fd, name, &length) != 0)
    die("rdmc_listen");
  if (write(report, &address.sin_port, sizeof address.sin_port) != sizeof address.sin_port) die("write");
  for (int members = 1; members != 2; usleep(1000)) {
    length = sizeof members;
    if (rdmc_getsockopt(fd, RDMC_SOL_SOCKET, RDMC_SO_MEMBERS, &members, &length) != 0) die("rdmc_getsockopt");
  }
  const std::vector<std::byte> message(bytes, std::byte{7});
  for (int i = 0; i < count; ++i)
    if (rdmc_send(fd, message.data(), bytes, 0) != static_cast<ssize_t>(bytes)) die("rdmc_send");
  for (;;) pause();  // measure() ends this process.
}

double us_since(Time start) {
  return static_cast<double>((monotonic_now() - start).ns) / 1e3;
}

double median(std::vector<double> times) {
  std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
  return times[times.size() / 2];
}

/// Reads a word of each cache line. Returns false if one is not 7.
bool are_right(std::span<const std::byte> bytes) {
  bool right = true;
  for (std::size_t at = 0; at < bytes.size(); at += 64) right &= bytes[at] == std::byte{7};
  return right;
}

/// Measures a copy and a hand-off of fresh memory, each with the reading that follows.
void measure_alone(std::size_t bytes, int count) {
  std::array<std::vector<double>, 2> times;
  auto buffer = memory::Arena::make(bytes);
  if (!buffer) die("no memory");
  for (int i = 0; i < 2 * count + 2; ++i) {
    auto fresh = memory::Arena::make(bytes, memory::Touch::when_used);
    if (!fresh) die("no memory");
    std::ranges::fill(fresh->bytes(), std::byte{7});
    const Time start = monotonic_now();
    memory::hand_off(fresh->bytes(), buffer->bytes(), i % 2 == 0 ? SIZE_MAX : memory::kHugePageBytes);
    if (!are_right(buffer->bytes())) die("wrong bytes");
    if (i >= 2) times[static_cast<std::size_t>(i % 2)].push_back(us_since(start));
  }
  const nlohmann::json line{
      {"bytes", bytes}, {"copy_and_read_us", median(times[0])}, {"hand_off_and_read_us", median(times[1])}};
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

struct Times {
  std::vector<double> call, with_reading;
};

/// Receives messages alternately as copies and by their pages. The first one of each kind does not count.
std::array<Times, 2> receive_all(std::size_t bytes, int count, std::uint16_t port) {
  const int fd = group_socket();
  const sockaddr_in address{
      .sin_family = AF_INET, .sin_port = port, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  if (rdmc_connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) die("rdmc_connect");
  auto buffer = memory::Arena::make(bytes);
  if (!buffer) die("no memory");
  std::array<Times, 2> times;
  for (int i = 0; i < count; ++i) {
    pollfd arrived{.fd = fd, .events = POLLIN, .revents = 0};
    if (rdmc_poll(&arrived, 1, 60'000) != 1) die("rdmc_poll");
    const Time start = monotonic_now();
    if (rdmc_recv(fd, buffer->bytes().data(), bytes, i % 2 == 0 ? 0 : MSG_ZEROCOPY) !=
        static_cast<ssize_t>(bytes))
      die("rdmc_recv");
    const double call = us_since(start);
    if (!are_right(buffer->bytes().first(bytes))) die("wrong bytes");
    if (i < 2) continue;
    times[static_cast<std::size_t>(i % 2)].call.push_back(call);
    times[static_cast<std::size_t>(i % 2)].with_reading.push_back(us_since(start));
  }
  rdmc_close(fd);
  return times;
}

void measure(std::size_t bytes, int count) {
  std::array<int, 2> report;
  if (pipe(report.data()) != 0) die("pipe");
  const pid_t child = fork();
  if (child < 0) die("fork");
  if (child == 0) send_all(bytes, count, report[1]);
  std::uint16_t port = 0;
  if (read(report[0], &port, sizeof port) != sizeof port) die("read");
  // The member is a process of its own, too, because a process has one set of sockets.
  const pid_t member = fork();
  if (member < 0) die("fork");
  if (member == 0) {
    const auto [copied, handed_off] = receive_all(bytes, count, port);
    const nlohmann::json line{{"bytes", bytes},
                              {"recv_us", median(copied.call)},
                              {"recv_by_pages_us", median(handed_off.call)},
                              {"recv_and_read_us", median(copied.with_reading)},
                              {"recv_by_pages_and_read_us", median(handed_off.with_reading)}};
    std::printf("%s\n", line.dump().c_str());
    std::fflush(stdout);
    _exit(0);
  }
  int status = 0;
  waitpid(member, &status, 0);
  kill(child, SIGTERM);
  waitpid(child, nullptr, 0);
  close(report[0]);
  close(report[1]);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"rdmc_receive_pages: the time to receive a group's messages, by a copy and by their pages"};
  int messages = 20;
  app.add_option("--messages", messages, "messages of each length and each kind")->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);
  setenv("RDMC_INSECURE", "1", 0);
  for (std::size_t bytes = 2 << 20; bytes <= 256u << 20; bytes *= 2) measure_alone(bytes, messages);
  for (std::size_t bytes = 2 << 20; bytes <= 256u << 20; bytes *= 2) measure(bytes, 2 * messages + 2);
}
