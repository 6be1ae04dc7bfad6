// The calls that need both ends of a connection, and the comparison that follows every call.
#include "tests/lib/socket/side_by_side.hpp"

#include <netinet/tcp.h>

#include <algorithm>
#include <utility>

namespace rdmc::sockets::testing {
namespace {

using Bytes = std::vector<std::byte>;
constexpr int kNow = MSG_DONTWAIT | MSG_NOSIGNAL;
constexpr std::size_t kRoom = 256 * 1024;

/// Sends `bytes`, and receives at the same time. Ends when all bytes are sent, and these bytes and `expected`
/// further bytes have arrived. Returns the number of sent bytes (or a negative errno) and the received bytes.
template <typename Send, typename Receive>
std::pair<long, Bytes> carry(std::span<const std::byte> bytes, std::size_t expected, Duration patience,
                             Send send, Receive receive) {
  Bytes come;
  std::size_t sent = 0;
  for (const Time latest = monotonic_now() + patience; monotonic_now() < latest;) {
    const long count = sent < bytes.size() ? send(bytes.subspan(sent)) : 0;
    if (count < 0 && count != -EAGAIN) return {count, come};
    if (count > 0) sent += static_cast<std::size_t>(count);
    const std::size_t before = come.size();
    come.resize(before + kRoom);
    const long got = receive(std::span(come).subspan(before));
    come.resize(before + static_cast<std::size_t>(std::max(got, 0L)));
    if (got < 0 && got != -EAGAIN) return {got, come};
    if (sent == bytes.size() && come.size() >= expected + sent) return {static_cast<long>(sent), come};
    if (got <= 0) std::this_thread::yield();
  }
  return {-ETIME, come};
}

}  // namespace

sockaddr_in SideBySide::name_of(bool ours, const Slot& slot) const {
  sockaddr_in address{};
  socklen_t length = sizeof address;
  auto* const to = reinterpret_cast<sockaddr*>(&address);
  if (ours)
    (void)slot.stack->get_name(slot.ours, to, &length, false);
  else
    ::getsockname(slot.kernels, to, &length);
  if (address.sin_addr.s_addr == 0) address.sin_addr.s_addr = host_;
  return address;
}

/// Returns the other end of `at`'s connection if bytes can be sent to this end now. Otherwise returns null.
Slot* SideBySide::reader_of(const Slot& at) {
  sockaddr_in peer{};
  socklen_t length = sizeof peer;
  if (::getpeername(at.kernels, reinterpret_cast<sockaddr*>(&peer), &length) != 0) return nullptr;
  const auto found = std::ranges::find_if(slots_, [&](const Slot& slot) {
    if (&slot == &at || slot.kernels < 0) return false;
    sockaddr_in back{};
    length = sizeof back;
    const bool is_connected = ::getpeername(slot.kernels, reinterpret_cast<sockaddr*>(&back), &length) == 0;
    return is_connected && back.sin_port == name_of(false, at).sin_port &&
           name_of(false, slot).sin_port == peer.sin_port;
  });
  if (found == slots_.end()) return nullptr;
  std::array<pollfd, 2> ends{
      {{.fd = at.kernels, .events = kAllEvents}, {.fd = found->kernels, .events = kAllEvents}}};
  ::poll(ends.data(), ends.size(), 0);
  const bool is_open = (ends[0].revents & (POLLOUT | POLLERR | POLLHUP)) == POLLOUT &&
                       (ends[1].revents & (POLLRDHUP | POLLERR | POLLHUP)) == 0;
  return is_open ? &*found : nullptr;
}

std::size_t SideBySide::waiting(const Slot& slot) {
  int bytes = 0;
  return ::ioctl(slot.kernels, FIONREAD, &bytes) == 0 ? static_cast<std::size_t>(bytes) : 0;
}

void SideBySide::pump(Slot& at, std::span<const std::byte> bytes) {
  Slot* const to = reader_of(at);
  if (to == nullptr) return;
  const std::size_t before = waiting(*to);
  trace(at) << "pump " << bytes.size();
  const auto kernels = carry(
      bytes, before, kPatience,
      [&](auto part) { return of(::send(at.kernels, part.data(), part.size(), kNow)); },
      [&](auto room) { return of(::recv(to->kernels, room.data(), room.size(), kNow)); });
  const auto ours = carry(
      bytes, before, kPatience, [&](auto part) { return of(at.stack->send(at.ours, part, kNow)); },
      [&](auto room) { return of(to->stack->receive(to->ours, room, kNow)); });
  compare(kernels.first, ours.first);
  if (kernels.second != ours.second) failure_ += "other bytes\n";
  met_.pumped += kernels.first > 0;
}

void SideBySide::overfill(Slot& at, std::span<const std::byte> bytes) {
  Slot* const to = reader_of(at);
  if (to == nullptr || !blocks_) return;
  const std::size_t before = waiting(*to);
  set(at, SO_SNDTIMEO, kShortly);
  trace(at) << "overfill " << bytes.size();
  const long kernels = of(::send(at.kernels, bytes.data(), bytes.size(), MSG_NOSIGNAL));
  const long ours = of(at.stack->send(at.ours, bytes, MSG_NOSIGNAL));
  compare(std::min(kernels, 1L), std::min(ours, 1L));
  if (kernels > 0 && !has_failed()) {
    const auto all = static_cast<long>(bytes.size());
    if (kernels == all || ours == all) failure_ += "there was room for all\n";
    const auto read = [&](long sent, auto receive) {
      return carry(
                 {}, before + static_cast<std::size_t>(sent), kPatience, [](auto) { return 0L; }, receive)
          .second;
    };
    const Bytes theirs =
        read(kernels, [&](auto room) { return of(::recv(to->kernels, room.data(), room.size(), kNow)); });
    const Bytes here = read(ours, [&](auto room) { return of(to->stack->receive(to->ours, room, kNow)); });
    if (!std::ranges::equal(std::span(here).first(std::min(here.size(), theirs.size())),
                            std::span(theirs).first(std::min(here.size(), theirs.size()))) ||
        here.size() != before + static_cast<std::size_t>(ours))
      failure_ += "other bytes\n";
    ++met_.overfilled;
  }
  set(at, SO_SNDTIMEO, kLong);
}

/// Returns true if the kernel's socket and this library's socket of the slot have the same unread bytes.
bool SideBySide::has_the_same(const Slot& slot) {
  static Bytes kernels(kRoom), ours(kRoom);
  const long count = of(::recv(slot.kernels, kernels.data(), kernels.size(), MSG_PEEK | MSG_DONTWAIT));
  if (count != of(slot.stack->receive(slot.ours, ours, MSG_PEEK | MSG_DONTWAIT))) return false;
  return count <= 0 || std::equal(kernels.begin(), kernels.begin() + count, ours.begin());
}

/// Compares whether both sockets of the slot have a peer. poll() does not report this: a connection may still
/// have a peer when both halves are closed.
bool SideBySide::has_peer_alike(const Slot& slot) {
  if (slot.kernels < 0) return true;
  sockaddr_storage name;
  socklen_t length = sizeof name, our_length = sizeof name;
  auto* const to = reinterpret_cast<sockaddr*>(&name);
  return of(::getpeername(slot.kernels, to, &length)) ==
         of(slot.stack->get_name(slot.ours, to, &our_length, true));
}

/// Returns true if nothing that the kernel's socket has sent is still on its way. On a busy machine, the
/// kernel delivers packets of the loopback device late. Both sockets of a slot can then be in the same old
/// state.
bool SideBySide::has_delivered(const Slot& slot) {
  tcp_info info{};
  socklen_t length = sizeof info;
  if (slot.kernels < 0 || ::getsockopt(slot.kernels, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return true;
  switch (info.tcpi_state) {
    case TCP_SYN_SENT:
    case TCP_SYN_RECV:
    case TCP_FIN_WAIT1:
    case TCP_CLOSING:
    case TCP_LAST_ACK: return false;
    case TCP_LISTEN: return true;  // Here, tcpi_unacked is the number of connections that wait for accept().
    default: return info.tcpi_unacked == 0;
  }
}

void SideBySide::settle() {
  const Time begun = monotonic_now(), latest = begun + kPatience;
  // Between two sockets of one stack, this library delivers at once. So only the kernel can be late then, and
  // the comparison below waits for it.
  while (!is_on_one_stack() && !std::ranges::all_of(slots_, has_delivered) &&
         monotonic_now() < begun + kLatestDelivery)
    std::this_thread::yield();
  for (;;) {
    std::array<pollfd, kSlots> kernels;
    std::array<short, kSlots> ours{};
    for (std::size_t i = 0; i < kSlots; ++i) kernels[i] = {.fd = slots_[i].kernels, .events = kAllEvents};
    ::poll(kernels.data(), kernels.size(), 0);
    std::size_t differs = kSlots;
    for (std::size_t i = 0; i < kSlots; ++i) {
      if (slots_[i].ours >= 0) ours[i] = slots_[i].stack->events(slots_[i].ours, kAllEvents);
      const bool has_bytes = (ours[i] & (POLLIN | POLLERR)) == POLLIN;
      if (kernels[i].revents != ours[i] || (has_bytes && !has_the_same(slots_[i])) ||
          (!is_on_one_stack() && !has_peer_alike(slots_[i])))
        differs = i;
    }
    if (differs == kSlots) return;
    if (monotonic_now() < latest) {
      std::this_thread::yield();  // lets the other threads finish their work
      continue;
    }
    failure_ = "slot " + std::to_string(differs) + " shows " + std::to_string(kernels[differs].revents) +
               ", ours " + std::to_string(ours[differs]) + "\n";
    return;
  }
}

}  // namespace rdmc::sockets::testing
