#include "bench/perf/sockets.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "bench/perf/account.hpp"
#include "bench/perf/payload.hpp"
#include "dataplane/base/bytes.hpp"
#include "dataplane/base/clock.hpp"
#include "dataplane/memory/arena.hpp"
#include "lib/include/rdmc/socket.h"

namespace rdmc::perf {
namespace {

/// The calls of one kind of sockets.
struct Calls {
  int (*socket)(int, int, int);
  int (*bind)(int, const sockaddr*, socklen_t);
  int (*listen)(int, int);
  int (*accept)(int, sockaddr*, socklen_t*);
  int (*connect)(int, const sockaddr*, socklen_t);
  int (*getsockname)(int, sockaddr*, socklen_t*);
  int (*setsockopt)(int, int, int, const void*, socklen_t);
  ssize_t (*send)(int, const void*, size_t, int);
  ssize_t (*recv)(int, void*, size_t, int);
  int (*close)(int);
};
constexpr Calls kOurs{rdmc_socket,      rdmc_bind,       rdmc_listen, rdmc_accept, rdmc_connect,
                      rdmc_getsockname, rdmc_setsockopt, rdmc_send,   rdmc_recv,   rdmc_close};
constexpr Calls kKernels{::socket,      ::bind,       ::listen, ::accept, ::connect,
                         ::getsockname, ::setsockopt, ::send,   ::recv,   ::close};

/// One end of a run: its socket and its figures.
class End {
 public:
  End(const Options& options, Rendezvous& meet, std::uint32_t rank)
      : options_(options),
        meet_(meet),
        rank_(rank),
        calls_(options.api == "tcp" ? kKernels : kOurs),
        patience_(options.busy_poll ? MSG_DONTWAIT : 0) {}
  ~End() {
    for (const int each : {listener_, socket_})
      if (each >= 0) calls_.close(each);
  }
  End(const End&) = delete;
  End& operator=(const End&) = delete;

  /// Member 1 listens, and member 0 connects.
  Result<void> connect();
  Result<void> unicast();
  Result<void> latency();

 private:
  bool barrier() {
    return meet_.barrier([] { usleep(20); });
  }
  Result<void> failed(const char* call) const { return fail_errno(call, errno); }
  Result<void> send_all(std::span<const std::byte> bytes);
  Result<void> receive_all(std::span<std::byte> bytes);
  Result<void> transfer(std::span<std::byte> message);
  Result<void> send_in_place(std::span<const std::byte> message);
  Result<void> receive_in_place(std::span<std::byte> message, std::uint32_t iteration);
  void tell_fabric();
  void tell_copies();

  const Options& options_;
  Rendezvous& meet_;
  std::uint32_t rank_;
  const Calls& calls_;
  int patience_;
  int listener_ = -1, socket_ = -1;
};

Result<void> End::connect() {
  sockaddr_in at{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  const auto* const name = reinterpret_cast<const sockaddr*>(&at);
  const bool listens = rank_ == 1;
  int& first = listens ? listener_ : socket_;
  first = calls_.socket(AF_INET, SOCK_STREAM, 0);
  if (first < 0) return failed("socket");
  if (listens) {
    socklen_t length = sizeof at;
    if (calls_.bind(first, name, sizeof at) != 0) return failed("bind");
    if (calls_.listen(first, 1) != 0) return failed("listen");
    if (calls_.getsockname(first, reinterpret_cast<sockaddr*>(&at), &length) != 0)
      return failed("getsockname");
    meet_.receiver_key = at.sin_port;
  }
  if (!barrier()) return fail(Errc::peer_failed, "the other member failed");
  if (listens) {
    socket_ = calls_.accept(listener_, nullptr, nullptr);
    if (socket_ < 0) return failed("accept");
  } else {
    at.sin_port = static_cast<in_port_t>(meet_.receiver_key.load());
    if (calls_.connect(socket_, name, sizeof at) != 0) return failed("connect");
  }
  const int on = 1;
  if (calls_.setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) return failed("TCP_NODELAY");
  tell_fabric();
  return {};
}

void End::tell_fabric() {
  auto& driver = meet_.figures[rank_].driver;
  auto length = static_cast<socklen_t>(driver.size() - 1);
  if (options_.api == "tcp")
    std::strcpy(driver.data(), "tcp");
  else
    rdmc_getsockopt(socket_, RDMC_SOL_SOCKET, RDMC_SO_FABRIC, driver.data(), &length);
  meet_.figures[rank_].icrc = false;
  if (rank_ == 0) fmt::print(stderr, "sockets through: {}\n", driver.data());
}

Result<void> End::send_all(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto sent = calls_.send(socket_, bytes.data(), bytes.size(), patience_ | MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) return failed("send");
    if (sent > 0) bytes = bytes.subspan(static_cast<std::size_t>(sent));
  }
  return {};
}

Result<void> End::receive_all(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const auto got = calls_.recv(socket_, bytes.data(), bytes.size(), patience_);
    if (got < 0 && errno != EAGAIN) return failed("recv");
    if (got == 0) return fail(Errc::peer_failed, "the other member has closed its socket");
    if (got > 0) bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

Result<void> End::unicast() {
  const bool sends = rank_ == 0, in_place = options_.api == "socket-zc";
  memory::Arena arena;
  std::span<std::byte> message;
  if (in_place && sends) {
    auto* const memory = static_cast<std::byte*>(rdmc_alloc(options_.size_bytes));
    if (memory == nullptr) return failed("rdmc_alloc");
    message = {memory, options_.size_bytes};
  } else {
    auto memory = memory::Arena::make(options_.size_bytes);
    if (!memory) return std::unexpected(memory.error());
    arena = std::move(*memory);
    message = arena.bytes().first(options_.size_bytes);
  }
  Account account(meet_.figures[rank_]);
  for (std::uint32_t i = 0; i < kWarmUpIterations + options_.iterations; ++i) {
    if (sends) stamp(meet_, message, i, 0, [] {});
    if (!barrier()) break;
    const bool is_timed = i >= kWarmUpIterations;
    if (is_timed) account.start();
    if (sends) meet_.started_ns[i] = monotonic_now().ns;
    auto done = in_place ? sends ? send_in_place(message) : receive_in_place(message, i) : transfer(message);
    if (!done) return done;
    if (!sends) record_finish(meet_, i);
    if (is_timed) account.end();
    // If bytes are read in place, the received bytes are already released. The warm-up has kept its bytes. In
    // the other iterations only the stamps of the pages were checked.
    if (!sends && !(in_place && is_timed) && !matches_digest(meet_, message, 0, [] {}))
      return fail(Errc::corrupt, "the received bytes differ from the sent ones");
    if (!barrier()) break;
  }
  tell_copies();
  barrier();
  return {};
}

Result<void> End::transfer(std::span<std::byte> message) {
  for (auto rest = message; !rest.empty();) {
    const auto block = rest.first(std::min<std::size_t>(rest.size(), options_.block_bytes));
    if (auto done = rank_ == 0 ? send_all(block) : receive_all(block); !done) return done;
    rest = rest.subspan(block.size());
  }
  return {};
}

Result<void> End::send_in_place(std::span<const std::byte> message) {
  std::uint64_t number = 0;
  for (auto rest = message; !rest.empty();) {
    const auto sent =
        rdmc_send_zc(socket_, rest.data(), std::min<std::size_t>(rest.size(), options_.block_bytes),
                     MSG_NOSIGNAL, &number);
    if (sent < 0) return failed("rdmc_send_zc");
    rest = rest.subspan(static_cast<std::size_t>(sent));
  }
  return rdmc_sent(socket_, number, 0) == 0 ? Result<void>{} : failed("rdmc_sent");
}

Result<void> End::receive_in_place(std::span<std::byte> message, std::uint32_t iteration) {
  bool is_intact = true;
  for (std::size_t at = 0; at < message.size();) {
    void* where = nullptr;
    const auto got = rdmc_recv_zc(socket_, &where, 0);
    if (got < 0) return failed("rdmc_recv_zc");
    if (got == 0) return fail(Errc::peer_failed, "the other member has closed its socket");
    const std::span piece(static_cast<const std::byte*>(where), static_cast<std::size_t>(got));
    if (iteration < kWarmUpIterations)
      std::ranges::copy(piece, message.begin() + static_cast<std::ptrdiff_t>(at));
    const std::size_t first = (4096 - at % 4096) % 4096;  // This is the first byte of a page.
    for (std::size_t i = first; i + 8 <= piece.size(); i += 4096)
      is_intact = is_intact && load_be<std::uint64_t>(&piece[i]) == stamp_of(at + i, iteration, 0);
    at += piece.size();
    if (rdmc_release(where) != 0) return failed("rdmc_release");
  }
  if (!is_intact) return fail(Errc::corrupt, "the received bytes differ from the sent ones");
  return {};
}

void End::tell_copies() {
  auto& figures = meet_.figures[rank_];
  const std::string_view fabric(figures.driver.data());
  // Over shm, only the API socket-zc makes a copy that RDMC_SO_COPIED does not count: one copy from process
  // to process. Over every other fabric, and over the kernel's TCP, the kernel copies each byte twice.
  figures.carrier_copies_per_byte = fabric.starts_with("shm") ? (options_.api == "socket-zc" ? 1 : 0) : 2;
  socklen_t length = sizeof figures.bytes_copied;
  if (options_.api != "tcp")
    rdmc_getsockopt(socket_, RDMC_SOL_SOCKET, RDMC_SO_COPIED, &figures.bytes_copied, &length);
}

Result<void> End::latency() {
  const bool asks = rank_ == 0;
  std::vector<std::byte> message(std::max<std::size_t>(options_.size_bytes, 1));
  Account account(meet_.figures[rank_]);
  if (!barrier()) return {};
  for (std::uint32_t i = 0; i < kWarmUpIterations + options_.iterations; ++i) {
    if (i == kWarmUpIterations) account.start();
    if (asks) meet_.started_ns[i] = monotonic_now().ns;
    if (auto done = asks ? send_all(message) : receive_all(message); !done) return done;
    if (auto done = asks ? receive_all(message) : send_all(message); !done) return done;
    if (asks) meet_.finished_ns[i] = monotonic_now().ns;
  }
  account.end();
  barrier();
  return {};
}

}  // namespace

bool is_of_sockets(const Options& options) {
  return options.api == "socket" || options.api == "socket-zc" || options.api == "tcp";
}

Result<void> run_sockets(const Options& options, Rendezvous& meet, std::uint32_t rank) {
  ::setenv("RDMC_FABRIC", options.fabric.c_str(), 1);
  ::setenv("RDMC_INSECURE", "1", 1);
  End end(options, meet, rank);
  if (auto connected = end.connect(); !connected) return connected;
  return options.test == Test::latency ? end.latency() : end.unicast();
}

}  // namespace rdmc::perf
