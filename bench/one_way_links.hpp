// The links of rdmc_one_copy_limit:
// - Direct system calls. This is the limit itself.
// - The udp driver. This shows the driver's cost.
// - Kernel TCP.
#pragma once

#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/socket.h>

#include "bench/one_way.hpp"
#include "dataplane/port/udp_port.hpp"

namespace rdmc::bench {

class BareLink {
 public:
  BareLink(const OneWayOptions& options, std::uint8_t host)
      : options_(options), messages_(options.batch), control_(options.batch) {
    socket_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (socket_ < 0) die("socket");
    set(SOL_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
    set(SOL_UDP, UDP_GRO, 1);
    const auto buffer = static_cast<int>(options.receive_buffer);
    if (setsockopt(socket_, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer) != 0)
      set(SOL_SOCKET, SO_RCVBUF, buffer);
    sockaddr_in address = loopback(host, 0);
    if (bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) die("bind");
    socklen_t length = sizeof address;
    getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &length);
    address_ = Address::ipv4(127, 0, 0, host, ntohs(address.sin_port));
  }

  Address address() const { return address_; }
  std::uint64_t calls() const { return calls_; }

  void send_to(const Address& destination) {
    destination_ = loopback(destination.bytes[3], destination.port);
    for (std::size_t i = 0; i < options_.batch; ++i) {
      msghdr& message = messages_[i].msg_hdr;
      message.msg_name = &destination_;
      message.msg_namelen = sizeof destination_;
      message.msg_control = &control_[i];
      message.msg_controllen = sizeof control_[i];
      cmsghdr* const segment = CMSG_FIRSTHDR(&message);
      segment->cmsg_len = CMSG_LEN(sizeof(std::uint16_t));
      segment->cmsg_level = SOL_UDP;
      segment->cmsg_type = UDP_SEGMENT;
      const auto bytes = static_cast<std::uint16_t>(options_.datagram());
      std::memcpy(CMSG_DATA(segment), &bytes, sizeof bytes);
    }
  }

  void send(const Layout& layout, std::size_t count) {
    if (move(true, layout, count) != count) die("sendmsg");
  }
  std::size_t receive(const Layout& layout, std::size_t count) { return move(false, layout, count); }

  void wait() {
    pollfd readable{socket_, POLLIN, 0};
    ++calls_;
    poll(&readable, 1, -1);
  }

 private:
  static sockaddr_in loopback(std::uint8_t host, std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(0x7F00'0000U | host);
    return address;
  }

  void set(int level, int option, int value) const {
    if (setsockopt(socket_, level, option, &value, sizeof value) != 0) die("setsockopt");
  }

  /// Sends or receives trains in one system call. Returns the number of trains before the first one that
  /// would block.
  std::size_t move(bool send, const Layout& layout, std::size_t count) {
    ++calls_;
    for (std::size_t i = 0; i < count; ++i) {
      messages_[i].msg_hdr.msg_iov = layout.train(i).pieces.data();
      messages_[i].msg_hdr.msg_iovlen = layout.train(i).pieces.size();
    }
    const int moved =
        send ? sendmmsg(socket_, messages_.data(), static_cast<unsigned>(count), 0)
             : recvmmsg(socket_, messages_.data(), static_cast<unsigned>(count), MSG_DONTWAIT, nullptr);
    if (moved < 0 && errno != EAGAIN) die(send ? "sendmmsg" : "recvmmsg");
    return moved < 0 ? 0 : static_cast<std::size_t>(moved);
  }

  struct alignas(cmsghdr) Control {
    std::byte bytes[CMSG_SPACE(sizeof(std::uint16_t))];
  };

  OneWayOptions options_;
  int socket_ = -1;
  Address address_;
  sockaddr_in destination_{};
  std::vector<mmsghdr> messages_;
  std::vector<Control> control_;
  std::uint64_t calls_ = 0;
};

/// Kernel TCP, with the same pieces of memory on both sides as the other links. Listens until it gets the
/// address to which it must send.
class TcpLink {
 public:
  TcpLink(const OneWayOptions&, std::uint8_t host) : socket_(stream()) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(0x7F00'0000U | host);
    if (bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) die("bind");
    if (listen(socket_, 1) != 0) die("listen");
    socklen_t length = sizeof address;
    getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &length);
    address_ = Address::ipv4(127, 0, 0, host, ntohs(address.sin_port));
  }

  Address address() const { return address_; }
  std::uint64_t calls() const { return calls_; }

  void send_to(const Address& destination) {
    close(std::exchange(socket_, stream()));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(destination.port);
    address.sin_addr.s_addr = htonl(0x7F00'0000U | destination.bytes[3]);
    if (connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) die("connect");
    connected_ = true;
  }

  void send(const Layout& layout, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) move(layout.train(i), sendmsg, MSG_NOSIGNAL);
  }
  std::size_t receive(const Layout& layout, std::size_t count) {
    if (!std::exchange(connected_, true)) {
      const int accepted = accept(socket_, nullptr, nullptr);
      if (accepted < 0) die("accept");
      close(std::exchange(socket_, accepted));
    }
    for (std::size_t i = 0; i < count; ++i) move(layout.train(i), recvmsg, MSG_WAITALL);
    return count;
  }
  void wait() {}  // This does nothing, because receive() blocks.

 private:
  static int stream() {
    const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) die("socket");
    return descriptor;
  }

  template <typename Call>
  void move(const Layout::Train& train, Call call, int flags) {
    msghdr message{};
    message.msg_iov = train.pieces.data();
    message.msg_iovlen = train.pieces.size();
    ++calls_;
    if (call(socket_, &message, flags) != static_cast<ssize_t>(train.total_bytes)) die("TCP");
  }

  int socket_;
  Address address_;
  bool connected_ = false;
  std::uint64_t calls_ = 0;
};

class PortLink : private port::ScatterPlanner {
 public:
  PortLink(const OneWayOptions& options, std::uint8_t host) : options_(options), trains_(options.batch) {
    auto opened = port::open_udp_port(
        {.address = Address::ipv4(127, 0, 0, host, 0), .receive_buffer_bytes = options.receive_buffer});
    if (!opened) throw std::runtime_error(opened.error().what);
    port_ = std::move(*opened);
  }

  Address address() const { return port_->info().address; }
  std::uint64_t calls() const { return port_->counters().system_calls; }
  void send_to(const Address& destination) { destination_ = destination; }

  void send(const Layout& layout, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      trains_[i] = {.destination = destination_,
                    .pieces = layout.train(i).pieces,
                    .segment_bytes = static_cast<std::uint32_t>(options_.datagram()),
                    .total_bytes = static_cast<std::uint32_t>(layout.train(i).total_bytes)};
    }
    for (std::size_t sent = 0; sent < count;)
      sent += port_->send_burst(std::span(trains_).subspan(sent, count - sent));
  }

  std::size_t receive(const Layout& layout, std::size_t count) {
    layout_ = &layout;
    planned_ = count;
    std::array<port::RxTrain, 16> got;
    const std::size_t received =
        port_->receive_burst(*this, std::span(got).first(std::min(count, got.size())));
    for (std::size_t i = 0; i < received; ++i) {
      if (got[i].total_bytes != layout.train(i).total_bytes) throw std::runtime_error("a train was cut");
    }
    return received;
  }

  void wait() { port_->wait(Time::never()); }

 private:
  std::size_t plan(port::FlowId, std::uint32_t ahead, std::span<iovec> pieces) override {
    if (ahead >= planned_ || layout_->train(ahead).pieces.size() > pieces.size()) return 0;
    std::ranges::copy(layout_->train(ahead).pieces, pieces.begin());
    return layout_->train(ahead).pieces.size();
  }

  OneWayOptions options_;
  std::unique_ptr<port::Port> port_;
  Address destination_;
  std::vector<port::TxTrain> trains_;
  const Layout* layout_ = nullptr;
  std::size_t planned_ = 0;
};

}  // namespace rdmc::bench
