#include "lib/socket/stack.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>

#include <cassert>
#include <cerrno>
#include <future>
#include <thread>
#include <utility>

#include "controlplane/connect/socket.hpp"
#include "dataplane/base/clock.hpp"
#include "lib/include/rdmc/socket.h"
#include "lib/socket/group_member.hpp"
#include "lib/socket/peering.hpp"

namespace rdmc::sockets {
namespace {

/// The size of one frame between the two ends of connections within this process. The lock stays held between
/// two frames.
constexpr std::size_t kOwnFrameBytes = 64 * 1024;

StackOptions with_context(StackOptions options) {
  if (options.context == nullptr) options.context = std::make_shared<peer::Context>();
  return options;
}

}  // namespace

Stack::Stack(StackOptions options)
    : options_(with_context(std::move(options))), own_near_(make_own(true)), own_far_(make_own(false)) {}

/// Makes one end of the connections of the process with itself.
std::shared_ptr<Mux> Stack::make_own(bool nearer) {
  auto mux = std::make_shared<Mux>(static_cast<Opens&>(*this), nearer);
  mux->on_kick([this] { own_ready_ = true; });
  mux->use_slots(nullptr);  // Within a process, no peer writes into slots.
  return mux;
}

std::size_t Stack::trunks() {
  const UnderWay counted(under_way_);
  control::ControlLoop* loop = nullptr;
  {
    const Lock lock(lock_);
    if (!is_over_) loop = loop_.get();
  }
  return loop == nullptr ? 0 : loop->call([this] { return peerings_.size(); });
}

void Stack::end() {
  std::vector<int> open;
  {
    const Lock lock(lock_);
    open = descriptors();
  }
  for (const int fd : open) close(fd, false);
  {  // Wakes the calls that are closing sockets on other threads.
    const Lock lock(lock_);
    is_over_ = true;
    for (const auto& [fd, socket] : sockets_) socket->on_change(false);
  }
  while (const auto calls = under_way_.load()) under_way_.wait(calls);
  if (!loop_) return;
  services_.clear();
  end_groups();
  drain(options_.farewell);
  std::map<Address, Dial> dials;
  {
    const Lock lock(lock_);
    dials.swap(dials_);
    for (auto& [at, dial] : dials) dial.waiting.clear();
  }
  dials.clear();  // This ends the dials. Their destructors wait for the control loop, so the lock must not be
                  // held here.
  const std::vector<Carrier*> last = loop_->call([this] {
    is_ending_ = true;
    for (const auto& [number, peering] : peerings_) peering->lose_trunk(ECONNRESET);
    return carriers();
  });
  // This must not run on the control loop, because a fabric thread may still post tasks to that loop.
  for (Carrier* const carrier : last) carrier->stop();
  loop_->call([this] {
    peerings_.clear();
    carriers_.clear();
  });
  ender_.finish();  // the ender's last tasks run on the control loop
  loop_->call([] {});
  peers_.reset();
  loop_.reset();
}

std::expected<Stack::Held, int> Stack::find(int fd) const {
  const auto found = sockets_.find(fd);
  if (found != sockets_.end() && found->second->is_closing) return std::unexpected(EBADF);
  if (found != sockets_.end()) return found->second;
  return std::unexpected(::fcntl(fd, F_GETFD) < 0 ? EBADF : ENOTSOCK);
}

bool Stack::has(int fd) {
  const Lock lock(lock_);
  const auto found = sockets_.find(fd);
  return found != sockets_.end() && !found->second->is_closing;
}

std::vector<int> Stack::descriptors() const {
  std::vector<int> all;
  for (const auto& [fd, socket] : sockets_) all.push_back(fd);
  return all;
}

Answer Stack::add(Descriptor kernel, bool ipv6, Socket socket, int flags, const Held& like) {
  const int fd = kernel.get();
  auto held = boost::make_local_shared<OpenSocket>(std::move(kernel), ipv6, std::move(socket));
  held->non_blocking = (flags & SOCK_NONBLOCK) != 0;
  if (like) {  // An accepted socket gets these settings from its listener.
    held->linger_seconds = like->linger_seconds;
    held->receive_timeout = like->receive_timeout;
    held->send_timeout = like->send_timeout;
  }
  sockets_[fd] = std::move(held);
  return static_cast<std::size_t>(fd);
}

Answer Stack::socket(int domain, int type, int protocol) {
  if (domain != AF_INET && domain != AF_INET6) return std::unexpected(EAFNOSUPPORT);
  const int flags = type & (SOCK_NONBLOCK | SOCK_CLOEXEC);
  const int kind = type & ~flags;
  if (kind != SOCK_STREAM && kind != SOCK_SEQPACKET && kind != RDMC_GROUP)
    return std::unexpected(ESOCKTNOSUPPORT);
  if (kind != SOCK_STREAM && protocol != 0) return std::unexpected(EPROTONOSUPPORT);
  Descriptor kernel(::socket(domain, SOCK_STREAM | SOCK_NONBLOCK | (flags & SOCK_CLOEXEC), protocol));
  if (!kernel) return std::unexpected(errno);
  if (domain == AF_INET6) {  // A socket's address belongs to one address family only.
    const int on = 1;
    ::setsockopt(kernel.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  }
  const Lock lock(lock_);
  if (kind == RDMC_GROUP) return make_group_socket(std::move(kernel), domain == AF_INET6, flags);
  return add(std::move(kernel), domain == AF_INET6,
             Socket(kind == SOCK_STREAM ? ConnectionKind::bytes : ConnectionKind::messages), flags);
}

/// Returns the peers, and makes them first if necessary. Must be called with the lock. This may wait for the
/// control loop, but no handler on that loop can wait for the lock yet.
Result<peer::Peers*> Stack::peers() {
  if (peers_) return peers_.get();
  if (options_.insecure && options_.encrypt)
    return fail(Errc::invalid_argument, "an insecure exchange would show the keys of what is encrypted");
  const auto loop = options_.context->loop();
  if (!loop) return std::unexpected(loop.error());
  auto peers = options_.context->peers(
      {.key_file = options_.key_file, .certificates = options_.certificates, .insecure = options_.insecure});
  if (!peers) return std::unexpected(peers.error());
  // This is set before the services start, because a request may come at once and uses both members.
  loop_ = *loop;
  peers_ = std::move(*peers);
  const auto serves = serve_peers();
  if (serves) return peers_.get();
  services_.clear();
  peers_.reset();
  loop_.reset();
  return std::unexpected(serves.error());
}

Result<void> Stack::serve_peers() {
  auto trunks = peers_->serve(
      Peering::kService, [this](peer::Request request) { Peering::on_request(*this, std::move(request)); });
  if (!trunks) return std::unexpected(trunks.error());
  auto groups = peers_->serve(GroupMember::kService,
                              [this](peer::Request request) { on_group_request(std::move(request)); });
  if (!groups) return std::unexpected(groups.error());
  services_.push_back(std::move(*trunks));
  services_.push_back(std::move(*groups));
  return {};
}

/// Delivers the records that the two ends of the process's own connections have for each other. If there is
/// no memory for them, these connections are lost, like connections with another process. The call that has
/// caused this still returns its own result.
void Stack::deliver_own() noexcept {
  try {
    exchange_own();
  } catch (const std::bad_alloc&) {
    own_ready_ = false;
    for (const auto& mux : {own_near_, own_far_}) mux->lose(ENOBUFS);
  }
}

void Stack::exchange_own() {
  std::vector<std::byte> frame;
  while (std::exchange(own_ready_, false)) {
    for (const bool nearer : {true, false}) {
      const auto& from = nearer ? own_near_ : own_far_;
      const auto& to = nearer ? own_far_ : own_near_;
      while (from->has_something()) {
        frame.resize(kOwnFrameBytes);
        frame.resize(from->fill(frame));
        [[maybe_unused]] const auto heard = to->on_frame(frame);
        assert(heard);  // Both ends are this process, so the records are valid.
      }
    }
  }
}

std::vector<Carrier*> Stack::carriers() const {
  std::vector<Carrier*> all;
  for (const auto& [at, carrier] : carriers_)
    if (carrier) all.push_back(carrier.get());
  return all;
}

void Stack::before_fork() {
  fork_.emplace(under_way_);
  control::ControlLoop* loop = nullptr;
  {
    const Lock lock(lock_);
    if (!is_over_) loop = loop_.get();
  }
  const auto park = [this] {
    is_parked_ = true;
    is_parked_.notify_all();
    is_parked_.wait(true);
  };
  if (loop != nullptr && loop->post(park)) is_parked_.wait(false);
  lock_.lock();
}

void Stack::after_fork() {
  lock_.unlock();
  is_parked_ = false;
  is_parked_.notify_all();
  fork_.reset();
}

void Stack::drain(Duration longest) {
  const Time latest = monotonic_now() + longest;
  for (;;) {
    bool quiet = true;
    for (Carrier* const carrier : loop_->call([this] { return carriers(); })) {
      std::promise<bool> answer;
      carrier->post([&] {
        const Lock lock(lock_);
        answer.set_value(carrier->is_quiet());
      });
      quiet = answer.get_future().get() && quiet;
    }
    if (quiet || monotonic_now() >= latest) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

Time Stack::deadline_of(Duration timeout) {
  return timeout == Duration{} ? Time::never() : monotonic_now() + timeout;
}

Answer Stack::control(int fd, int command, int argument) {
  const Lock lock(lock_);
  const auto socket = find(fd);
  if (!socket) return std::unexpected(socket.error());
  if (command == F_GETFL)
    return static_cast<std::size_t>(O_RDWR | ((*socket)->non_blocking ? O_NONBLOCK : 0));
  if (command != F_SETFL) return std::unexpected(EINVAL);
  (*socket)->non_blocking = (argument & O_NONBLOCK) != 0;
  return 0;
}

}  // namespace rdmc::sockets
