// rdmc_one_copy_limit: what a UDP socket can carry between two processes when nothing is done but the copies
// that cannot be avoided. It is the yardstick of the udp fabric: UDP_SEGMENT on one side, UDP_GRO on the
// other, headers scattered aside, payload straight into place, the ICRC's CRC-32 on both, and no protocol at
// all. A byte counter in shared memory keeps the sender from overflowing the receiver's socket.
#include <arpa/inet.h>
#include <isa-l/crc.h>
#include <liburing.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <vector>

#include "dataplane/base/random.hpp"

namespace {

// BTH, RETH and our own offset extension, as bulk packets carry them.
constexpr std::size_t kHeaderBytes = 36;
constexpr std::size_t kIcrcBytes = 4;
constexpr std::size_t kSegmentsMax = 64;  // UDP_MAX_SEGMENTS of the older kernels
constexpr int kWarmUps = 2;

struct Options {
  std::size_t payload = 4096;
  std::size_t size = std::size_t{256} << 20;
  int iterations = 7;
  bool icrc = true;
  std::size_t window = std::size_t{1} << 20;
  std::size_t train_bytes = 65'000;
  std::size_t batch = 1;
  bool uring = false;
  bool block = true;
  int receive_buffer = 8 << 20;
  bool pin = false;
};

/// Lives in memory that both processes map.
struct Shared {
  alignas(64) std::atomic<std::uint64_t> consumed;  // bytes of memory filled, over all iterations
  alignas(64) std::atomic<std::uint32_t> sender_sleeps;
  alignas(64) std::atomic<std::int32_t> sender_phase, receiver_phase;
  alignas(64) double receiver_cpu_seconds;
  std::uint64_t receiver_calls, corrupt;
};

[[noreturn]] void die(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](timeval t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::byte* map_memory(std::size_t size, int sharing) {
  void* at = mmap(nullptr, size, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) die("mmap");
  return static_cast<std::byte*>(at);
}

sockaddr_in loopback(std::uint8_t host, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(0x7F00'0000U | host);
  return address;
}

/// One side's socket, its memory, and the scatter lists of up to `batch` trains.
class Side {
 public:
  Side(const Options& options, std::uint8_t host)
      : options_(options),
        memory_(map_memory(options.size, MAP_PRIVATE)),
        segments_(std::clamp<std::size_t>(options.train_bytes / datagram(), 1, kSegmentsMax)),
        messages_(options.batch),
        pieces_(options.batch * (2 * segments_ + 1)),
        aside_(options.batch * (segments_ + 1) * kAside),
        control_(options.batch) {
    socket_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (socket_ < 0) die("socket");
    address_ = loopback(host, 0);
    set(SOL_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
    if (bind(socket_, reinterpret_cast<sockaddr*>(&address_), sizeof address_) != 0) die("bind");
    socklen_t length = sizeof address_;
    getsockname(socket_, reinterpret_cast<sockaddr*>(&address_), &length);
    if (options.uring && io_uring_queue_init(256, &ring_, 0) != 0) die("io_uring_queue_init");
  }

  void set(int level, int option, int value) const {
    if (setsockopt(socket_, level, option, &value, sizeof value) != 0) die("setsockopt");
  }

  std::size_t datagram() const { return options_.payload + kHeaderBytes + kIcrcBytes; }
  std::size_t payload_per_train() const { return segments_ * options_.payload; }

  /// Lays out train `slot` of a batch so that its payload is memory [at, at + bytes): header, payload, ICRC
  /// with the next header, payload, …
  void lay_out(std::size_t slot, std::size_t at, std::size_t bytes) {
    iovec* piece = &pieces_[slot * (2 * segments_ + 1)];
    std::byte* aside = &aside_[slot * (segments_ + 1) * kAside];
    msghdr& message = messages_[slot].msg_hdr;
    message.msg_iov = piece;
    *piece++ = {aside + kIcrcBytes, kHeaderBytes};
    for (std::size_t done = 0; done < bytes;) {
      const std::size_t now = std::min(options_.payload, bytes - done);
      *piece++ = {memory_ + at + done, now};
      aside += kAside;
      done += now;
      *piece++ = {aside, done < bytes ? kIcrcBytes + kHeaderBytes : kIcrcBytes};
    }
    message.msg_iovlen = static_cast<std::size_t>(piece - message.msg_iov);
  }

  /// Calls use(crc of payload, where its ICRC lies) for each datagram of a train.
  template <typename Use>
  void for_each_icrc(std::size_t slot, Use use) {
    const msghdr& message = messages_[slot].msg_hdr;
    for (std::size_t i = 1; i < message.msg_iovlen; i += 2) {
      const iovec& payload = message.msg_iov[i];
      use(crc32_gzip_refl(0, static_cast<const unsigned char*>(payload.iov_base), payload.iov_len),
          static_cast<std::byte*>(message.msg_iov[i + 1].iov_base));
    }
  }

  /// Moves `count` trains in one system call if it can; returns how many moved before the first that would
  /// block.
  std::size_t move(bool send, std::size_t count) {
    ++calls_;
    if (options_.uring) return move_by_uring(send, count);
    if (count == 1) {
      const ssize_t moved = send ? sendmsg(socket_, &messages_[0].msg_hdr, 0)
                                 : recvmsg(socket_, &messages_[0].msg_hdr, MSG_DONTWAIT);
      if (moved >= 0) return 1;
    } else {
      const int moved =
          send ? sendmmsg(socket_, messages_.data(), static_cast<unsigned>(count), 0)
               : recvmmsg(socket_, messages_.data(), static_cast<unsigned>(count), MSG_DONTWAIT, nullptr);
      if (moved >= 0) return static_cast<std::size_t>(moved);
    }
    if (errno != EAGAIN) die(send ? "sendmsg" : "recvmsg");
    return 0;
  }

 protected:
  static constexpr std::size_t kAside = 64;

  std::size_t move_by_uring(bool send, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      io_uring_sqe* entry = io_uring_get_sqe(&ring_);
      if (send)
        io_uring_prep_sendmsg(entry, socket_, &messages_[i].msg_hdr, 0);
      else
        io_uring_prep_recvmsg(entry, socket_, &messages_[i].msg_hdr, MSG_DONTWAIT);
      // A chain stops at the first that finds nothing: train i must not land where train i-1 belongs.
      if (i + 1 < count) entry->flags |= IOSQE_IO_LINK;
    }
    io_uring_submit_and_wait(&ring_, static_cast<unsigned>(count));
    std::size_t moved = 0;
    for (std::size_t i = 0; i < count; ++i) {
      io_uring_cqe* done = nullptr;
      if (io_uring_wait_cqe(&ring_, &done) != 0) die("io_uring_wait_cqe");
      if (done->res >= 0)
        ++moved;
      else if (done->res != -EAGAIN && done->res != -ECANCELED) {
        errno = -done->res;
        die("io_uring");
      }
      io_uring_cqe_seen(&ring_, done);
    }
    return moved;
  }

  Options options_;
  std::byte* memory_;
  std::size_t segments_;
  int socket_ = -1;
  sockaddr_in address_{};
  std::vector<mmsghdr> messages_;
  std::vector<iovec> pieces_;
  std::vector<std::byte> aside_;
  struct alignas(cmsghdr) Control {
    std::byte bytes[CMSG_SPACE(sizeof(std::uint16_t))];
  };
  std::vector<Control> control_;
  io_uring ring_{};
  std::uint64_t calls_ = 0;
};

class Receiver : public Side {
 public:
  explicit Receiver(const Options& options) : Side(options, 2) {
    set(SOL_UDP, UDP_GRO, 1);
    if (setsockopt(socket_, SOL_SOCKET, SO_RCVBUFFORCE, &options.receive_buffer, sizeof(int)) != 0)
      set(SOL_SOCKET, SO_RCVBUF, options.receive_buffer);
    std::memset(memory_, 1, options_.size);
  }

  const sockaddr_in& address() const { return address_; }

  void run(Shared& shared) {
    double cpu_before = 0;
    std::uint64_t calls_before = 0;
    for (int iteration = 0; iteration < kWarmUps + options_.iterations; ++iteration) {
      if (iteration == kWarmUps) cpu_before = cpu_seconds(), calls_before = calls_;
      shared.receiver_phase.store(iteration + 1);
      while (shared.sender_phase.load() <= iteration) sched_yield();
      receive_all(shared);
    }
    shared.receiver_cpu_seconds = cpu_seconds() - cpu_before;
    shared.receiver_calls = calls_ - calls_before;
    shared.corrupt = corrupt_ + !intact();
    shared.receiver_phase.store(kWarmUps + options_.iterations + 1);
  }

 private:
  void receive_all(Shared& shared) {
    for (std::size_t at = 0; at < options_.size;) {
      std::size_t count = 0;
      for (std::size_t next = at; count < options_.batch && next < options_.size; ++count) {
        const std::size_t bytes = std::min(payload_per_train(), options_.size - next);
        lay_out(count, next, bytes);
        next += bytes;
      }
      const std::size_t got = move(false, count);
      for (std::size_t i = 0; i < got; ++i) {
        if (options_.icrc)
          for_each_icrc(i, [&](std::uint32_t crc, const std::byte* icrc) {
            corrupt_ += std::memcmp(&crc, icrc, sizeof crc) != 0;
          });
        const std::size_t bytes = std::min(payload_per_train(), options_.size - at);
        at += bytes;
        shared.consumed.fetch_add(bytes);
      }
      if (got > 0)
        wake_sender(shared);
      else if (options_.block)
        await_data();
    }
  }

  void await_data() {
    pollfd readable{socket_, POLLIN, 0};
    ++calls_;
    poll(&readable, 1, -1);
  }

  void wake_sender(Shared& shared) {
    if (options_.block && shared.sender_sleeps.exchange(0) != 0) {
      ++calls_;
      syscall(SYS_futex, &shared.sender_sleeps, FUTEX_WAKE, 1, nullptr, nullptr, 0);
    }
  }

  /// The sender's memory is a function of a seed, so that the last iteration can be checked.
  bool intact() const {
    rdmc::Random random(1);
    for (std::size_t i = 0; i + 8 <= options_.size; i += 8) {
      const std::uint64_t expected = random.next();
      if (std::memcmp(memory_ + i, &expected, sizeof expected) != 0) return false;
    }
    return true;
  }

  std::uint64_t corrupt_ = 0;
};

class Sender : public Side {
 public:
  Sender(const Options& options, const sockaddr_in& destination)
      : Side(options, 1), destination_(destination) {
    rdmc::Random random(1);
    for (std::size_t i = 0; i + 8 <= options_.size; i += 8) {
      const std::uint64_t word = random.next();
      std::memcpy(memory_ + i, &word, sizeof word);
    }
    for (std::size_t i = 0; i < options_.batch; ++i) {
      msghdr& message = messages_[i].msg_hdr;
      message.msg_name = &destination_;
      message.msg_namelen = sizeof destination_;
      message.msg_control = &control_[i];
      message.msg_controllen = sizeof control_[i];
      cmsghdr* segment = CMSG_FIRSTHDR(&message);
      segment->cmsg_len = CMSG_LEN(sizeof(std::uint16_t));
      segment->cmsg_level = SOL_UDP;
      segment->cmsg_type = UDP_SEGMENT;
      const auto bytes = static_cast<std::uint16_t>(datagram());
      std::memcpy(CMSG_DATA(segment), &bytes, sizeof bytes);
    }
  }

  nlohmann::json run(Shared& shared) {
    std::vector<double> times;
    double cpu_before = 0;
    std::uint64_t calls_before = 0;
    for (int iteration = 0; iteration < kWarmUps + options_.iterations; ++iteration) {
      while (shared.receiver_phase.load() <= iteration) sched_yield();
      if (iteration == kWarmUps) cpu_before = cpu_seconds(), calls_before = calls_;
      const auto start = std::chrono::steady_clock::now();
      shared.sender_phase.store(iteration + 1);
      send_all(shared);
      await_consumed(shared, sent_);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      if (iteration >= kWarmUps) times.push_back(took.count());
    }
    const double cpu = cpu_seconds() - cpu_before;
    while (shared.receiver_phase.load() <= kWarmUps + options_.iterations) sched_yield();
    std::ranges::sort(times);
    const double median = times[times.size() / 2];
    return {{"payload", options_.payload},
            {"icrc", options_.icrc},
            {"size_bytes", options_.size},
            {"segments_per_train", segments_},
            {"window_bytes", options_.window},
            {"batch", options_.batch},
            {"iterations", options_.iterations},
            {"median_seconds", median},
            {"goodput_gbps", static_cast<double>(options_.size) * 8 / median / 1e9},
            {"best_gbps", static_cast<double>(options_.size) * 8 / times.front() / 1e9},
            {"sender_cpu_seconds", cpu},
            {"receiver_cpu_seconds", shared.receiver_cpu_seconds},
            {"sender_system_calls", calls_ - calls_before},
            {"receiver_system_calls", shared.receiver_calls},
            {"corrupt", shared.corrupt}};
  }

 private:
  void send_all(Shared& shared) {
    for (std::size_t at = 0; at < options_.size;) {
      std::size_t count = 0;
      std::size_t bytes = 0;
      for (; count < options_.batch && at < options_.size; ++count) {
        const std::size_t now = std::min(payload_per_train(), options_.size - at);
        lay_out(count, at, now);
        if (options_.icrc)
          for_each_icrc(count,
                        [](std::uint32_t crc, std::byte* icrc) { std::memcpy(icrc, &crc, sizeof crc); });
        at += now;
        bytes += now;
      }
      if (sent_ + bytes > options_.window) await_consumed(shared, sent_ + bytes - options_.window);
      if (move(true, count) != count) die("send");
      sent_ += bytes;
    }
  }

  void await_consumed(Shared& shared, std::uint64_t bytes) {
    while (shared.consumed.load() < bytes) {
      if (!options_.block) {
        __builtin_ia32_pause();
        continue;
      }
      shared.sender_sleeps.store(1);
      if (shared.consumed.load() >= bytes) break;
      ++calls_;
      syscall(SYS_futex, &shared.sender_sleeps, FUTEX_WAIT, 1, nullptr, nullptr, 0);
    }
  }

  sockaddr_in destination_;
  std::uint64_t sent_ = 0;
};

void pin_to(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  sched_setaffinity(0, sizeof cores, &cores);
}

void run(const Options& options) {
  auto& shared = *new (map_memory(sizeof(Shared), MAP_SHARED)) Shared{};
  Receiver receiver(options);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) die("fork");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    if (options.pin) pin_to(1);
    receiver.run(shared);
    _exit(0);
  }
  if (options.pin) pin_to(0);
  Sender sender(options, receiver.address());
  const auto figures = sender.run(shared);
  waitpid(child, nullptr, 0);
  printf("%s\n", figures.dump().c_str());
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app{"What a UDP socket carries between two processes with one copy on each side and no protocol"};
  const auto on_off = CLI::CheckedTransformer(std::map<std::string, bool>{{"on", true}, {"off", false}});
  app.add_option("--payload", options.payload, "payload bytes of each datagram")
      ->check(CLI::Range(64, 65'400));
  app.add_option("--size", options.size, "bytes of memory on each side")->transform(CLI::AsSizeValue(false));
  app.add_option("--iterations", options.iterations)->check(CLI::Range(1, 1000));
  app.add_option("--icrc", options.icrc, "CRC-32 on both sides: on, off")->transform(on_off);
  app.add_option("--window", options.window, "bytes in flight at most")->transform(CLI::AsSizeValue(false));
  app.add_option("--train-bytes", options.train_bytes, "bytes in one call at most")
      ->check(CLI::Range(100, 65'507));
  app.add_option("--batch", options.batch, "trains in one system call")->check(CLI::Range(1, 64));
  app.add_option("--uring", options.uring, "calls through io_uring: on, off")->transform(on_off);
  app.add_option("--block", options.block, "block in the kernel rather than spin: on, off")
      ->transform(on_off);
  app.add_option("--receive-buffer", options.receive_buffer, "SO_RCVBUF bytes");
  app.add_option("--pin", options.pin, "sender on core 0, receiver on core 1: on, off")->transform(on_off);
  CLI11_PARSE(app, argc, argv);
  options.window = std::max(options.window, options.batch * std::size_t{65'536});
  try {
    run(options);
  } catch (const std::system_error& error) {
    fprintf(stderr, "rdmc_one_copy_limit: %s\n", error.what());
    return 2;
  }
}
