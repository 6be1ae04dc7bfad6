// Random programs of socket calls, each run on the kernel's TCP and on ours, side by side: every result,
// every errno, every byte and every state that poll() shows must be the same. RDMC_SEED=N runs other
// programs, a failure prints the program.
#include <poll.h>
#include <sys/ioctl.h>

#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <random>
#include <sstream>

#include "dataplane/base/clock.hpp"
#include "tests/lib/socket/two_stacks.hpp"

using namespace rdmc;
using namespace rdmc::sockets;

namespace {

constexpr int kPrograms = 10'000, kSlots = 5, kMostCalls = 24;
constexpr Duration kPatience = seconds(5);  // of a failing test: the kernel is quick, and not always at once

long of(Answer answer) {
  return answer ? static_cast<long>(*answer) : -static_cast<long>(answer.error());
}
long of(long result) {
  return result >= 0 ? result : -static_cast<long>(errno);
}

/// The same socket on both sides; -1: none.
struct Slot {
  int kernels = -1, ours = -1;
};

class Program {
 public:
  /// `seen`: how often a call ended in which way; 1: with a count.
  Program(Stack& stack, std::map<long, int>& seen, std::uint64_t seed, int number)
      : stack_(stack), seen_(seen), random_(seed * 1'000'003 + static_cast<std::uint64_t>(number)) {
    // Each program has an address of its own, so that none meets what another has left behind.
    host_ = htonl(0x7F'00'00'00 | (static_cast<unsigned>(number) % 60'000 + 0x1'00'00));
  }
  ~Program() {
    for (const Slot& slot : slots_) {
      if (slot.kernels >= 0) ::close(slot.kernels);
      if (slot.ours >= 0) (void)stack_.close(slot.ours);
    }
  }

  /// Empty, or what differed, and after what.
  std::string run() {
    if (any(0, 1) == 0) begin_connected();
    for (int calls = any(4, kMostCalls); calls > 0 && failure_.empty(); --calls) {
      step();
      if (failure_.empty()) settle();
    }
    return failure_.empty() ? "" : trace_.str() + failure_;
  }

 private:
  int any(int least, int most) { return std::uniform_int_distribution(least, most)(random_); }
  /// More often than others the ends of the connection with which half of the programs begin.
  Slot& slot() { return slots_[static_cast<std::size_t>(any(0, 1) == 0 ? any(1, 2) : any(0, kSlots - 1))]; }

  /// Half of the programs: slots 1 and 2 are the ends of a connection.
  void begin_connected() {
    open(slots_[0]);
    bind(slots_[0]);
    listen(slots_[0]);
    open(slots_[1]);
    connect(slots_[1], slots_[0]);
    settle();
    accept(slots_[0], slots_[2]);
  }

  void compare(long kernels, long ours) {
    ++seen_[std::min(kernels, 1L)];
    trace_ << " = " << kernels << "\n";
    if (kernels != ours) failure_ = "but ours: " + std::to_string(ours) + "\n";
  }

  sockaddr_in name_of(bool ours, const Slot& slot) {
    sockaddr_in address{};
    socklen_t length = sizeof address;
    auto* const to = reinterpret_cast<sockaddr*>(&address);
    if (ours)
      (void)stack_.get_name(slot.ours, to, &length, false);
    else
      ::getsockname(slot.kernels, to, &length);
    if (address.sin_addr.s_addr == 0) address.sin_addr.s_addr = host_;
    return address;
  }

  void step() {
    Slot& at = slot();
    const int what = any(0, 19);
    trace_ << "call " << what << " slot " << &at - slots_.data();
    if (at.kernels < 0) return open(at);
    switch (what) {
      case 0:
      case 1: return bind(at);
      case 2:
      case 3: return listen(at);
      case 4:
      case 5:
      case 6:
      case 7: return connect(at, slot());
      case 8:
      case 9:
      case 10: return accept(at, slot());
      case 11:
      case 12: return send(at);
      case 13:
      case 14: return receive(at);
      case 15: return shutdown(at);
      case 16: return close(at);
      case 17: return option(at);
      case 18: return names(at);
      default: return linger_at_once(at);
    }
  }

  void open(Slot& at) {
    at.kernels = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    at.ours = static_cast<int>(of(stack_.socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)));
    trace_ << " socket\n";
  }

  void bind(Slot& at) {
    const sockaddr_in address{.sin_family = AF_INET, .sin_addr = {host_}};
    const auto* const to = reinterpret_cast<const sockaddr*>(&address);
    trace_ << " bind";
    compare(of(::bind(at.kernels, to, sizeof address)), of(stack_.bind(at.ours, to, sizeof address)));
  }

  void listen(Slot& at) {
    trace_ << " listen";
    compare(of(::listen(at.kernels, 8)), of(stack_.listen(at.ours, 8)));
  }

  void connect(Slot& at, const Slot& to) {
    if (&to == &at || to.kernels < 0) return void(trace_ << " connect to nothing\n");
    const sockaddr_in kernels = name_of(false, to), ours = name_of(true, to);
    if ((kernels.sin_port == 0) != (ours.sin_port == 0)) return void(failure_ = "one has no name\n");
    trace_ << " connect to slot " << &to - slots_.data();
    const long result =
        of(::connect(at.kernels, reinterpret_cast<const sockaddr*>(&kernels), sizeof kernels));
    compare(result, of(stack_.connect(at.ours, reinterpret_cast<const sockaddr*>(&ours), sizeof ours)));
    // By chance it was given the very port, free again, that it connects to: TCP then connects it to itself.
    if (name_of(false, at).sin_port == kernels.sin_port && result == -EINPROGRESS) close(at);
  }

  void accept(Slot& at, Slot& to) {
    if (to.kernels >= 0) return void(trace_ << " no room to accept\n");
    trace_ << " accept into " << &to - slots_.data();
    const long kernels = of(::accept4(at.kernels, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    const long ours = of(stack_.accept(at.ours, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (kernels >= 0) to.kernels = static_cast<int>(kernels);
    if (ours >= 0) to.ours = static_cast<int>(ours);
    compare(std::min(kernels, 0L), std::min(ours, 0L));
  }

  void send(Slot& at) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(any(0, 3) == 0 ? 0 : any(1, 3000)));
    for (auto& byte : bytes) byte = static_cast<std::byte>(random_());
    trace_ << " send " << bytes.size();
    compare(of(::send(at.kernels, bytes.data(), bytes.size(), MSG_NOSIGNAL)),
            of(stack_.send(at.ours, bytes, MSG_NOSIGNAL)));
  }

  void receive(Slot& at) {
    std::vector<std::byte> kernels(static_cast<std::size_t>(any(0, 3) == 0 ? 0 : any(1, 5000)));
    auto ours = kernels;
    const int flags =
        std::array<int, 4>{0, MSG_PEEK, MSG_DONTWAIT, MSG_WAITALL}[static_cast<std::size_t>(any(0, 3))];
    trace_ << " receive " << ours.size() << " flags " << flags;
    compare(of(::recv(at.kernels, kernels.data(), kernels.size(), flags)),
            of(stack_.receive(at.ours, ours, flags)));
    if (kernels != ours) failure_ += "other bytes\n";
  }

  void shutdown(Slot& at) {
    const int how = any(0, 3);
    trace_ << " shutdown " << how;
    compare(of(::shutdown(at.kernels, how)), of(stack_.shutdown(at.ours, how)));
  }

  void close(Slot& at) {
    trace_ << " close";
    const Slot old = std::exchange(at, {});
    compare(of(::close(old.kernels)), of(stack_.close(old.ours)));
  }

  void option(Slot& at) {
    const int name =
        std::array{SO_ERROR, SO_ACCEPTCONN, SO_TYPE, SO_DOMAIN}[static_cast<std::size_t>(any(0, 3))];
    int kernels = -1, ours = -1;
    socklen_t length = sizeof kernels, our_length = sizeof ours;
    trace_ << " option " << name;
    compare(of(::getsockopt(at.kernels, SOL_SOCKET, name, &kernels, &length)),
            of(stack_.get_option(at.ours, SOL_SOCKET, name, &ours, &our_length)));
    if (kernels != ours)
      failure_ += "option is " + std::to_string(kernels) + ", ours " + std::to_string(ours) + "\n";
  }

  void names(Slot& at) {
    sockaddr_in kernels{}, ours{};
    socklen_t length = sizeof kernels, our_length = sizeof ours;
    trace_ << " getpeername";
    compare(of(::getpeername(at.kernels, reinterpret_cast<sockaddr*>(&kernels), &length)),
            of(stack_.get_name(at.ours, reinterpret_cast<sockaddr*>(&ours), &our_length, true)));
    if (kernels.sin_addr.s_addr != ours.sin_addr.s_addr) failure_ += "another peer\n";
  }

  void linger_at_once(Slot& at) {
    const linger none{.l_onoff = any(0, 1), .l_linger = 0};
    trace_ << " linger " << none.l_onoff;
    compare(of(::setsockopt(at.kernels, SOL_SOCKET, SO_LINGER, &none, sizeof none)),
            of(stack_.set_option(at.ours, SOL_SOCKET, SO_LINGER, &none, sizeof none)));
  }

  /// All that was sent to it has come, on both sides.
  bool has_the_same(const Slot& slot) {
    int kernels = 0;
    if (::ioctl(slot.kernels, FIONREAD, &kernels) != 0) return true;  // it listens
    static std::vector<std::byte> room(256 * 1024);
    const auto ours = stack_.receive(slot.ours, room, MSG_PEEK);
    return static_cast<std::size_t>(kernels) == ours.value_or(0);
  }

  /// Both show the same of every socket, at once or soon.
  void settle() {
    const Time latest = monotonic_now() + kPatience;
    for (;;) {
      std::array<pollfd, kSlots> kernels;
      std::array<short, kSlots> ours{};
      for (std::size_t i = 0; i < kSlots; ++i) {
        kernels[i] = {.fd = slots_[i].kernels, .events = kAllEvents};
      }
      ::poll(kernels.data(), kernels.size(), 0);
      std::size_t differs = kSlots;
      for (std::size_t i = 0; i < kSlots; ++i) {
        if (slots_[i].ours >= 0) ours[i] = stack_.events(slots_[i].ours, kAllEvents);
        const bool has_bytes = (ours[i] & (POLLIN | POLLERR)) == POLLIN;
        if (kernels[i].revents != ours[i] || (has_bytes && !has_the_same(slots_[i]))) differs = i;
      }
      if (differs == kSlots) return;
      if (monotonic_now() < latest) continue;
      failure_ = "slot " + std::to_string(differs) + " shows " + std::to_string(kernels[differs].revents) +
                 ", ours " + std::to_string(ours[differs]) + "\n";
      return;
    }
  }

  static constexpr short kAllEvents = POLLIN | POLLOUT | POLLRDHUP | POLLPRI;
  Stack& stack_;
  std::map<long, int>& seen_;
  std::mt19937_64 random_;
  in_addr_t host_ = 0;
  std::array<Slot, kSlots> slots_;
  std::ostringstream trace_;
  std::string failure_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(random_programs_do_the_same_on_the_kernels_tcp_and_on_ours) {
  const char* const wanted = std::getenv("RDMC_SEED");
  const std::uint64_t seed = wanted == nullptr ? 1 : std::strtoull(wanted, nullptr, 10);
  BOOST_TEST_MESSAGE("RDMC_SEED=" << seed);
  Stack stack({.fabric = "udp", .insecure = true});
  std::map<long, int> seen;
  int failed = 0;
  for (int number = 0; number < kPrograms && failed < 3; ++number) {
    const std::string failure = Program(stack, seen, seed, number).run();
    failed += !failure.empty();
    BOOST_CHECK_MESSAGE(failure.empty(), "RDMC_SEED=" << seed << ", program " << number << ":\n" << failure);
  }
  for (const int error : {EAGAIN, ECONNREFUSED, ECONNRESET, EINPROGRESS, EINVAL, EISCONN, ENOTCONN, EPIPE})
    BOOST_CHECK_MESSAGE(seen[-error] > 20, "errno " << error << " was met " << seen[-error] << " times");
  BOOST_TEST(seen[1] > 2'000);
}
