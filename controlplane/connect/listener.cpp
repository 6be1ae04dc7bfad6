#include "controlplane/connect/listener.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/steady_timer.hpp>
#include <cassert>
#include <chrono>
#include <cstddef>
#include <list>
#include <new>

#include "controlplane/connect/connection.hpp"

namespace rdmc::control {
namespace {

using boost::system::error_code;

/// The number of connections that are accepted in one turn of the loop. Other operations of the loop run
/// between two turns.
constexpr int kAcceptsPerTurn = 32;
/// The pause after a failed accept(). If descriptors or memory are missing, accept() fails at once until some
/// are freed.
constexpr auto kAcceptPause = std::chrono::milliseconds(100);

/// Memory that is reserved for one asio operation. So waiting for the next connection never fails for lack of
/// memory.
struct Room {
  alignas(std::max_align_t) std::array<std::byte, 256> bytes;
  bool is_taken = false;
};

template <typename T>
struct InRoom {
  using value_type = T;

  explicit InRoom(Room& place) : room(&place) {}
  template <typename Other>
  InRoom(const InRoom<Other>& other) : room(other.room) {}

  T* allocate(std::size_t count) {
    static_assert(sizeof(T) <= sizeof(Room::bytes) && alignof(T) <= alignof(std::max_align_t));
    if (count != 1 || std::exchange(room->is_taken, true)) throw std::bad_alloc();
    return reinterpret_cast<T*>(room->bytes.data());
  }
  void deallocate(T*, std::size_t) { room->is_taken = false; }
  template <typename Other>
  bool operator==(const InRoom<Other>& other) const {
    return room == other.room;
  }

  Room* room;
};

/// A handler that allocates its asio operation in a Room. The handler keeps the owner of the Room alive.
template <typename Handler>
struct Roomed {
  using allocator_type = InRoom<std::byte>;
  allocator_type get_allocator() const { return InRoom<std::byte>(room); }
  void operator()(error_code error) { handler(error); }

  Handler handler;
  Room& room;
};
template <typename Handler>
Roomed(Handler, Room&) -> Roomed<Handler>;

}  // namespace

class Listener::Impl final : public LoopMember, public std::enable_shared_from_this<Impl> {
 public:
  Impl(std::shared_ptr<LoopCore> loop, Descriptor socket, const ListenOptions& options,
       ListenHandlers handlers)
      : core(std::move(loop)),
        address(local_address(socket.get())),
        options_(options),
        on_channel_(std::move(handlers.on_channel)),
        on_refused_(std::move(handlers.on_refused)),
        pending_socket_(std::move(socket)),
        socket_(*core),
        pause_(core->context()) {}

  void begin() {
    if (closed_) return;
    core->add(shared_from_this());
    if (socket_.take(pending_socket_)) {
      // epoll cannot watch one more socket now (max_user_watches). This is tried again after a pause.
      ++counters.accept_failures;
      return pause([this] { begin(); });
    }
    arm();
  }

  void close() {
    closed_ = true;
    core->remove(this);
    pause_.cancel();
    socket_.close();
    pending_socket_.reset();
    for (const auto& connection : std::exchange(handshakes_, {})) connection->abandon();
    if (in_handler_ == 0) release_handlers();
  }

  void on_loop_stop() override { close(); }

  const std::shared_ptr<LoopCore> core;
  const Address address;
  Counters counters;

 private:
  void arm() {
    const auto on_readable = [self = shared_from_this()](error_code error) {
      if (!error && !self->closed_) self->on_readable();
    };
    socket_.async_wait(LoopSocket::Wait::wait_read, Roomed{on_readable, arming_});
  }

  template <typename Function>
  void pause(Function then) {
    const auto on_time = [self = shared_from_this(), then](error_code error) {
      if (!error && !self->closed_) then();
    };
    pause_.expires_after(kAcceptPause);
    pause_.async_wait(Roomed{on_time, pausing_});
  }

  /// Waits for the next connection after a pause. If there is no memory for the timer, waits for it at once.
  void arm_later() {
    try {
      pause([this] { arm(); });
    } catch (const std::bad_alloc&) {
      arm();
    }
  }

  /// Accepts connections. A connection that arrives while there is no memory is lost. Later connections are
  /// accepted as soon as there is memory again.
  void on_readable() {
    try {
      accept_some();
    } catch (const std::bad_alloc&) {
      ++counters.accept_failures;
      if (!closed_) arm_later();
    }
  }

  void accept_some() {
    for (int i = 0; i < kAcceptsPerTurn && !closed_; ++i) {
      Address peer;
      auto socket = accept_one(socket_.get(), peer);
      if (!socket && socket.error().code == Errc::would_block) break;
      if (!socket) {
        ++counters.accept_failures;
        // Dropping an unauthenticated client frees a descriptor.
        drop_oldest();
        return arm_later();
      }
      if (handshakes_.size() >= std::max<std::size_t>(options_.max_unauthenticated, 1)) drop_oldest();
      if (!closed_) admit(std::move(*socket), peer);
    }
    if (!closed_) arm();
  }

  void drop_oldest() {
    if (handshakes_.empty()) return;
    const auto oldest = handshakes_.front();
    oldest->refuse({Errc::resource_limit, "dropped, too many connections had not finished the handshake"});
  }

  void admit(Descriptor socket, const Address& peer) {
    const auto connection =
        std::make_shared<Connection>(core, std::move(socket), peer, Role::server, options_.channel);
    const auto place = handshakes_.insert(handshakes_.end(), connection);
    connection->handshake(options_.channel.handshake_deadline,
                          [self = shared_from_this(), place](Result<void> done) {
                            const auto finished = *place;
                            self->handshakes_.erase(place);
                            self->on_handshake(finished, done);
                          });
  }

  void on_handshake(const std::shared_ptr<Connection>& connection, const Result<void>& done) {
    const InHandler inside(*this);
    if (done) {
      ++counters.accepted;
      on_channel_(Channel(connection));
    } else {
      ++counters.refused;
      if (on_refused_) on_refused_(connection->peer(), done.error());
    }
  }

  /// Counts the handlers that run. While a handler runs, the handlers are not released. A handler may destroy
  /// the listener, and it may throw.
  struct InHandler {
    explicit InHandler(Impl& listener) : impl(listener) { ++impl.in_handler_; }
    ~InHandler() {
      if (--impl.in_handler_ == 0 && impl.closed_) impl.release_handlers();
    }
    InHandler(const InHandler&) = delete;
    InHandler& operator=(const InHandler&) = delete;
    Impl& impl;
  };

  void release_handlers() {
    on_channel_ = nullptr;
    on_refused_ = nullptr;
  }

  const ListenOptions options_;
  std::move_only_function<void(Channel)> on_channel_;
  std::move_only_function<void(const Address&, const Error&)> on_refused_;
  Descriptor pending_socket_;  // Set until the loop watches the socket.
  LoopSocket socket_;
  boost::asio::steady_timer pause_;
  Room arming_, pausing_;
  std::list<std::shared_ptr<Connection>> handshakes_;  // The oldest connection is first.
  int in_handler_ = 0;
  bool closed_ = false;
};

Result<Listener> Listener::listen(ControlLoop& loop, const Address& address, const ListenOptions& options,
                                  ListenHandlers handlers) {
  auto socket = listen_on(address);
  if (!socket) return std::unexpected(socket.error());
  return adopt(loop, std::move(*socket), options, std::move(handlers));
}

Result<Listener> Listener::adopt(ControlLoop& loop, Descriptor listening, const ListenOptions& options,
                                 ListenHandlers handlers) {
  assert(handlers.on_channel);
  auto impl = std::make_shared<Impl>(loop.core(), std::move(listening), options, std::move(handlers));
  if (!loop.post([impl] { impl->begin(); })) {
    return fail(Errc::cancelled,
                "cannot listen on " + to_string(impl->address) + ": the control loop has stopped");
  }
  return Listener(std::move(impl));
}

const Address& Listener::address() const {
  return impl_->address;
}

Listener::Counters Listener::counters() const {
  Counters counters;
  impl_->core->run_and_wait([&] { counters = impl_->counters; });
  return counters;
}

void Listener::close() {
  if (!impl_) return;
  const auto impl = std::move(impl_);
  const auto core = impl->core;
  core->run_and_wait([&] { impl->close(); });
}

Listener::~Listener() {
  close();
}

Listener& Listener::operator=(Listener&& other) noexcept {
  if (this != &other) {
    close();
    impl_ = std::move(other.impl_);
  }
  return *this;
}

}  // namespace rdmc::control
