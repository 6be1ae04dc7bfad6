// Makes the same socket calls on the kernel's TCP and on this library's sockets. Every result, every errno,
// every byte and every state that poll() reports must be equal. A difference ends the program of calls. The
// calls up to the difference are then printed.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>

#include <array>
#include <cerrno>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "dataplane/base/clock.hpp"
#include "tests/lib/socket/two_stacks.hpp"

namespace rdmc::sockets::testing {

inline long of(Answer answer) {
  return answer ? static_cast<long>(*answer) : -static_cast<long>(answer.error());
}
inline long of(long result) {
  return result >= 0 ? result : -static_cast<long>(errno);
}

/// A socket of the kernel and the same socket of this library. -1 means none. `ours` belongs to `stack`.
struct Slot {
  Stack* stack = nullptr;
  int kernels = -1, ours = -1;
};

/// Counts how often each result has occurred, and how often rare calls were made. The result 1 stands for all
/// positive results.
struct Met {
  std::map<long, int> results;
  int pumped = 0, overfilled = 0;
};

class SideBySide {
 public:
  static constexpr std::size_t kSlots = 5;
  static constexpr short kAllEvents = POLLIN | POLLOUT | POLLRDHUP | POLLPRI;

  /// Every second slot belongs to `far`, which may be the same stack as `near`. All sockets have the address
  /// `host`. If `blocks` is true, calls wait. Some of them wait only for a short time.
  SideBySide(Stack& near, Stack& far, in_addr_t host, bool blocks, Met& met)
      : met_(met), host_(host), type_flags_(SOCK_CLOEXEC | (blocks ? 0 : SOCK_NONBLOCK)), blocks_(blocks) {
    for (std::size_t i = 0; i < kSlots; ++i) slots_[i].stack = i % 2 == 0 ? &far : &near;
  }
  ~SideBySide() {
    for (const Slot& slot : slots_) {
      if (slot.kernels >= 0) ::close(slot.kernels);
      if (slot.ours >= 0) (void)slot.stack->close(slot.ours);
    }
  }
  SideBySide(const SideBySide&) = delete;
  SideBySide& operator=(const SideBySide&) = delete;

  bool has_failed() const { return !failure_.empty(); }
  /// Returns an empty string, or the difference and the calls before it.
  std::string story() const { return has_failed() ? trace_.str() + failure_ : ""; }
  Slot& slot(int number) { return slots_[static_cast<std::size_t>(number)]; }
  bool blocks() const { return blocks_; }
  bool is_on_one_stack() const { return slots_[0].stack == slots_[1].stack; }

  void open(Slot& at) {
    trace(at) << "socket\n";
    at.kernels = ::socket(AF_INET, SOCK_STREAM | type_flags_, 0);
    at.ours = static_cast<int>(of(at.stack->socket(AF_INET, SOCK_STREAM | type_flags_, 0)));
    if (!blocks_) return;
    set(at, SO_RCVTIMEO, kShortly);
    // SO_SNDTIMEO also limits the time of connect(). In this library, connect() may have to wait until the
    // process at the address has been dialled, which can take longer than kShortly.
    set(at, SO_SNDTIMEO, kLong);
  }

  void bind(Slot& at) {
    const sockaddr_in address{.sin_family = AF_INET, .sin_addr = {host_}};
    const auto* const to = reinterpret_cast<const sockaddr*>(&address);
    trace(at) << "bind";
    compare(of(::bind(at.kernels, to, sizeof address)), of(at.stack->bind(at.ours, to, sizeof address)));
  }

  void listen(Slot& at) {
    trace(at) << "listen";
    compare(of(::listen(at.kernels, 8)), of(at.stack->listen(at.ours, 8)));
  }

  void connect(Slot& at, const Slot& to) {
    if (&to == &at || to.kernels < 0) return;
    const sockaddr_in kernels = name_of(false, to), ours = name_of(true, to);
    if ((kernels.sin_port == 0) != (ours.sin_port == 0)) return void(failure_ = "one has no name\n");
    trace(at) << "connect to " << number_of(to);
    const long result =
        of(::connect(at.kernels, reinterpret_cast<const sockaddr*>(&kernels), sizeof kernels));
    compare(result, of(at.stack->connect(at.ours, reinterpret_cast<const sockaddr*>(&ours), sizeof ours)));
    // By chance, the socket may have got the same port number to which it connects. Then TCP connects the
    // socket to itself.
    if (name_of(false, at).sin_port == kernels.sin_port && (result == -EINPROGRESS || result == 0)) close(at);
  }

  void accept(Slot& at, Slot& to) {
    if (to.kernels >= 0 || to.stack != at.stack) return;
    trace(at) << "accept into " << number_of(to);
    const long kernels = of(::accept4(at.kernels, nullptr, nullptr, type_flags_));
    const long ours = of(at.stack->accept(at.ours, nullptr, nullptr, type_flags_));
    if (kernels >= 0) to.kernels = static_cast<int>(kernels);
    if (ours >= 0) to.ours = static_cast<int>(ours);
    compare(std::min(kernels, 0L), std::min(ours, 0L));
  }

  void send(Slot& at, std::span<const std::byte> bytes, int flags) {
    trace(at) << "send " << bytes.size() << " flags " << flags;
    flags |= MSG_NOSIGNAL;
    compare(of(::send(at.kernels, bytes.data(), bytes.size(), flags)),
            of(at.stack->send(at.ours, bytes, flags)));
  }

  void send_pieces(Slot& at, std::span<const std::byte> bytes, const std::vector<std::size_t>& sizes) {
    trace(at) << "sendmsg of " << sizes.size() << " pieces";
    Pieces pieces(const_cast<std::byte*>(bytes.data()), sizes);
    compare(of(::sendmsg(at.kernels, &pieces.header, MSG_NOSIGNAL)),
            of(at.stack->send_message(at.ours, pieces.header, MSG_NOSIGNAL)));
  }

  void receive(Slot& at, std::size_t most, int flags) {
    std::vector<std::byte> kernels(most), ours(most);
    trace(at) << "receive " << most << " flags " << flags;
    compare(of(::recv(at.kernels, kernels.data(), most, flags)), of(at.stack->receive(at.ours, ours, flags)));
    if (kernels != ours) failure_ += "other bytes\n";
  }

  void receive_pieces(Slot& at, const std::vector<std::size_t>& sizes, int flags) {
    std::size_t most = 0;
    for (const std::size_t size : sizes) most += size;
    std::vector<std::byte> kernels(most), ours(most);
    Pieces into(kernels.data(), sizes), ours_into(ours.data(), sizes);
    trace(at) << "recvmsg of " << sizes.size() << " pieces, " << most << " bytes, flags " << flags;
    compare(of(::recvmsg(at.kernels, &into.header, flags)),
            of(at.stack->receive_message(at.ours, ours_into.header, flags)));
    if (kernels != ours) failure_ += "other bytes\n";
    if (into.header.msg_flags != ours_into.header.msg_flags) failure_ += "other flags\n";
  }

  void shutdown(Slot& at, int how) {
    trace(at) << "shutdown " << how;
    compare(of(::shutdown(at.kernels, how)), of(at.stack->shutdown(at.ours, how)));
  }

  void close(Slot& at) {
    trace(at) << "close";
    const int kernels = std::exchange(at.kernels, -1), ours = std::exchange(at.ours, -1);
    compare(of(::close(kernels)), of(at.stack->close(ours)));
  }

  void option(Slot& at, int name) {
    int kernels = -1, ours = -1;
    socklen_t length = sizeof kernels, our_length = sizeof ours;
    trace(at) << "option " << name;
    compare(of(::getsockopt(at.kernels, SOL_SOCKET, name, &kernels, &length)),
            of(at.stack->get_option(at.ours, SOL_SOCKET, name, &ours, &our_length)));
    if (kernels != ours)
      failure_ += "option is " + std::to_string(kernels) + ", ours " + std::to_string(ours) + "\n";
  }

  void names(Slot& at) {
    sockaddr_in kernels{}, ours{};
    socklen_t length = sizeof kernels, our_length = sizeof ours;
    trace(at) << "getpeername";
    compare(of(::getpeername(at.kernels, reinterpret_cast<sockaddr*>(&kernels), &length)),
            of(at.stack->get_name(at.ours, reinterpret_cast<sockaddr*>(&ours), &our_length, true)));
    if (kernels.sin_addr.s_addr != ours.sin_addr.s_addr) failure_ += "another peer\n";
  }

  void linger_for(Slot& at, linger how) {
    trace(at) << "linger " << how.l_onoff << ", " << how.l_linger << " s";
    set(at, SO_LINGER, how);
  }

  /// Polls those sockets of `at`'s stack that `wanted` selects. Also polls their descriptors with the
  /// kernel's poll().
  void poll(const Slot& at, const std::array<short, kSlots>& wanted) {
    std::array<pollfd, kSlots> kernels, ours;
    trace(at) << "poll";
    for (std::size_t i = 0; i < kSlots; ++i) {
      const bool is_wanted = slots_[i].stack == at.stack && wanted[i] >= 0;
      kernels[i] = {.fd = is_wanted ? slots_[i].kernels : -1, .events = wanted[i], .revents = 0};
      ours[i] = {.fd = is_wanted ? slots_[i].ours : -1, .events = wanted[i], .revents = 0};
    }
    compare(of(::poll(kernels.data(), kSlots, 0)), of(at.stack->poll(ours, 0)));
    for (std::size_t i = 0; i < kSlots; ++i)
      if (kernels[i].revents != ours[i].revents)
        failure_ += "poll differs in slot " + std::to_string(i) + "\n";
    ::poll(ours.data(), kSlots, 0);
    // A descriptor reports errors and hang-ups differently (see rdmc_pollfd), and a hang-up lasts. So these
    // are not compared.
    for (std::size_t i = 0; i < kSlots; ++i)
      if (((kernels[i].revents | ours[i].revents) & (POLLERR | POLLHUP)) == 0 &&
          kernels[i].revents != ours[i].revents)
        failure_ += "the descriptor of slot " + std::to_string(i) + " differs\n";
  }

  // The next functions are defined in side_by_side.cpp.

  /// Sends to the other end of `at`'s connection, which reads at the same time. Sends more bytes than the
  /// windows have space for.
  void pump(Slot& at, std::span<const std::byte> bytes);
  /// Sends to a peer that does not read. Sends more bytes than all buffers have space for. Only a part of the
  /// bytes is accepted, and this whole part must arrive.
  void overfill(Slot& at, std::span<const std::byte> bytes);
  /// Waits until both sockets of every slot are in the same state.
  void settle();

 private:
  // The time limit of a failing test. It is long, because this process may get no processor time for seconds.
  static constexpr Duration kPatience = seconds(60);
  // Bytes stay undelivered for longer than this only if the receiver has no space for them.
  static constexpr Duration kLatestDelivery = milliseconds(200);
  static constexpr timeval kShortly{.tv_sec = 0, .tv_usec = 1000}, kLong{.tv_sec = 60, .tv_usec = 0};

  /// Consecutive parts of one memory.
  struct Pieces {
    Pieces(std::byte* memory, const std::vector<std::size_t>& sizes) {
      for (const std::size_t size : sizes) {
        vectors.push_back({.iov_base = memory, .iov_len = size});
        memory += size;
      }
      header.msg_iov = vectors.data();
      header.msg_iovlen = vectors.size();
    }
    std::vector<iovec> vectors;
    msghdr header{};
  };

  std::ostream& trace(const Slot& at) { return trace_ << "slot " << number_of(at) << " "; }
  long number_of(const Slot& slot) const { return &slot - slots_.data(); }
  void compare(long kernels, long ours) {
    ++met_.results[std::min(kernels, 1L)];
    trace_ << " = " << kernels << "\n";
    if (kernels != ours) failure_ = "but ours: " + std::to_string(ours) + "\n";
  }
  template <typename Value>
  void set(Slot& at, int name, const Value& value) {
    compare(of(::setsockopt(at.kernels, SOL_SOCKET, name, &value, sizeof value)),
            of(at.stack->set_option(at.ours, SOL_SOCKET, name, &value, sizeof value)));
  }
  sockaddr_in name_of(bool ours, const Slot& slot) const;
  Slot* reader_of(const Slot& at);
  static std::size_t waiting(const Slot& slot);
  static bool has_the_same(const Slot& slot);
  static bool has_peer_alike(const Slot& slot);
  static bool has_delivered(const Slot& slot);

  Met& met_;
  const in_addr_t host_;
  const int type_flags_;
  const bool blocks_;
  std::array<Slot, kSlots> slots_;
  std::ostringstream trace_;
  std::string failure_;
};

}  // namespace rdmc::sockets::testing
