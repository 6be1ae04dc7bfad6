// The sockets of a process, and what they share: one lock, the control loop and the peers of
// the process, an engine for each address that is used, and one trunk to each process that any of them talks
// to. Connections of a process with itself need none of that: their records go from hand to hand. The C
// functions of rdmc/socket.h call the one Stack that a process commonly has; there may be several. Any thread
// may call anything.
//
// Calls answer with a count or an errno, as the kernel's do (see Stream, Socket); what they block on, they do
// not hold the lock for.
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <boost/smart_ptr/make_local_shared.hpp>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "controlplane/connect/identity.hpp"
#include "dataplane/base/clock.hpp"
#include "lib/socket/callers_memory.hpp"
#include "lib/socket/carrier.hpp"
#include "lib/socket/node_ender.hpp"
#include "lib/socket/open_socket.hpp"

struct pollfd;

namespace rdmc::sockets {

struct StackOptions {
  std::string fabric = "auto";
  std::string device;                           ///< of the fabric, where it has to be named
  std::string key_file;                         ///< the cluster key, which both ends of a connection hold
  bool insecure = false;                        ///< none; must be said
  bool encrypt = false;                         ///< what leaves the host
  control::CertificateFiles certificates = {};  ///< in the key's place
  /// How long another process has to make a trunk, and who joins a group to say whom it joins.
  Duration introduction = seconds(10);
  /// How long what was sent may take to arrive after the close of its socket, when the process ends or a
  /// group's root was closed. The kernel would end a process without it.
  Duration farewell = seconds(2);
  /// With whom the sockets share their threads and their connections. Null: with nobody.
  std::shared_ptr<peer::Context> context = nullptr;
};

/// A call that uses what end() ends.
class UnderWay {
 public:
  explicit UnderWay(std::atomic<std::uint32_t>& calls) : calls_(calls) { ++calls_; }
  ~UnderWay() {
    --calls_;
    calls_.notify_all();
  }
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;

 private:
  std::atomic<std::uint32_t>& calls_;
};

class Peering;

class Stack final : private Opens {
 public:
  explicit Stack(StackOptions options);
  ~Stack() override { end(); }
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  /// What it shares with others.
  peer::Context& context() { return *options_.context; }
  /// How many trunks to other processes it has, or is about to have; any thread.
  std::size_t trunks();
  /// Which of its sockets listens where, as its trunks ask.
  Opens& opens() { return *this; }

  /// Closes all sockets, waits for a short time until what they have sent has arrived, and ends all else.
  /// Nothing is to be begun any more.
  void end();

  Answer socket(int domain, int type, int protocol);
  Answer bind(int fd, const sockaddr* address, socklen_t length);
  Answer listen(int fd, int backlog);
  Answer accept(int fd, sockaddr* address, socklen_t* length, int flags);
  Answer connect(int fd, const sockaddr* address, socklen_t length);
  Answer send(int fd, std::span<const std::byte> bytes, int flags);
  /// `said`: what recvmsg adds, MSG_EOR and MSG_TRUNC of messages.
  Answer receive(int fd, std::span<std::byte> out, int flags, int* said = nullptr) {
    return receive(fd, out, flags, said, nullptr);
  }
  /// The same, or what is told of a group's member before the next message: then the answer is 0, and
  /// MSG_OOB said.
  Answer receive(int fd, std::span<std::byte> out, int flags, int* said,
                 std::optional<rdmc_member_event>* event);
  /// sendmsg and recvmsg. Errors besides those of send and receive: EMSGSIZE, EINVAL, EFAULT (of the pieces),
  /// EOPNOTSUPP (names and control data to be sent). Throw std::bad_alloc where there is no room to gather.
  Answer send_message(int fd, const msghdr& message, int flags);
  Answer receive_message(int fd, msghdr& message, int flags);
  Answer shutdown(int fd, int how);
  Answer close(int fd) { return close(fd, true); }
  Answer poll(std::span<pollfd> descriptors, int timeout_ms);
  /// What poll would find now of `wanted`, and of what nobody needs to want; POLLNVAL: no such socket.
  short events(int fd, short wanted);
  Answer get_option(int fd, int level, int name, void* value, socklen_t* length);
  Answer set_option(int fd, int level, int name, const void* value, socklen_t length);
  Answer get_name(int fd, sockaddr* address, socklen_t* length, bool of_peer);
  /// fcntl's F_GETFL and F_SETFL; of the flags O_NONBLOCK.
  Answer control(int fd, int command, int argument);
  /// Readies the descriptor itself for epoll and its like, and returns it.
  Answer pollfd_of(int fd);
  bool has(int fd);

  // stack_zero_copy.cpp

  /// Memory that sends need not copy. Errors: EINVAL, ENOMEM.
  std::expected<void*, int> allocate(std::size_t bytes);
  /// What is on its way stays until it is there. Errors: EINVAL.
  Answer deallocate(void* memory);
  /// Errors besides those of send: EFAULT (memory that allocate() has not given).
  Answer send_in_place(int fd, std::span<const std::byte> bytes, int flags, std::uint64_t& number);
  Answer wait_sent(int fd, std::uint64_t number, int flags);
  /// `bytes` is the caller's until release().
  Answer receive_in_place(int fd, void** bytes, int flags);
  /// Errors: EINVAL.
  Answer release(void* bytes);

  /// Around fork(): nothing is half done in the child, where this stack is never touched again.
  /// The control loop stands between two tasks, so its thread holds no lock, of OpenSSL's for one, that the
  /// child might want. One thread at a time.
  void before_fork();
  void after_fork();
  /// With the lock.
  std::vector<int> descriptors() const;

 private:
  friend class Peering;
  using Lock = std::unique_lock<FairMutex>;
  /// Copied and destroyed only while the lock is held, so that its count need not be atomic.
  using Held = boost::local_shared_ptr<OpenSocket>;

  // stack.cpp
  std::expected<Held, int> find(int fd) const;
  Answer add(Descriptor kernel, bool ipv6, Socket socket, int flags, const Held& like = nullptr);
  Result<peer::Peers*> peers();
  Result<void> serve_peers();
  std::shared_ptr<Mux> make_own(bool nearer);
  void deliver_own() noexcept;
  void exchange_own();
  void drain(Duration longest);
  /// Calls `attempt` until it is not EAGAIN, or may not wait, or has waited too long: then `late`. When
  /// another thread closes the socket meanwhile, the answer is EBADF, whatever a closed socket would answer.
  template <typename Attempt>
  auto until_done(Lock& lock, const Held& socket, bool may_wait, Time deadline, Attempt attempt,
                  int late = EAGAIN, Wants wants = Wants::change) -> decltype(attempt());
  /// The same for the call that closes the socket: it goes on although the socket is closing.
  template <typename Attempt>
  auto keep_trying(Lock& lock, const Held& socket, bool may_wait, Time deadline, Attempt attempt, int late,
                   Wants wants) -> decltype(attempt());
  /// Time::never() without a timeout.
  static Time deadline_of(Duration timeout);

  Answer close(int fd, bool may_linger);
  static bool may_wait(const OpenSocket& socket, int flags);
  static void raise_broken_pipe(Lock& lock);
  /// Of a call that has copied once more than send() and receive() do.
  void count_copied(int fd, std::size_t bytes);
  std::shared_ptr<const void> owner_of(std::span<const std::byte> bytes) const;

  // stack_copies.cpp
  static Answer send_some(Lock& lock, Socket& socket, std::span<const std::byte> bytes, bool is_touched,
                          const void* caller);
  static Answer send_draft(Lock& lock, Endpoint& endpoint, std::span<const std::byte> bytes);
  static Answer receive_some(Lock& lock, Socket& socket, std::span<std::byte> out, bool peek, Bounce& bounce);
  static std::span<std::byte> make_room(Lock& lock, const Socket& socket, std::span<std::byte> out,
                                        Bounce& bounce);
  static std::size_t receive_lent(Lock& lock, Stream& stream, std::span<std::byte> out, std::size_t peeked,
                                  bool peek);
  Answer receive_whole(Lock& lock, const Held& held, std::span<std::byte> out, int flags, int* said,
                       std::optional<rdmc_member_event>* event, Bounce& bounce);

  // stack_connect.cpp
  bool on_open(const Asked& asked, const std::shared_ptr<Stream>& stream) override;
  bool on_refused(const std::shared_ptr<Stream>& stream) override;
  int begin_connect(const Held& socket, const Address& to);
  OpenSocket* find_listener(const Address& at, bool of_group) const;
  std::optional<control::Listener> stop_listening(OpenSocket& socket);
  void dial(const Held& socket);
  void on_dialled(const Address& at, const Result<std::shared_ptr<Mux>>& mux, const Address& local);

  // stack_group.cpp
  Answer make_group_socket(Descriptor kernel, bool ipv6, int flags);
  GroupSessionOptions session_options(const OpenSocket& socket);
  void begin_group(OpenSocket& socket);
  void on_group_request(peer::Request request);
  Answer join(Lock& lock, const Held& socket, const Address& to);
  void linger_for_group(Lock& lock, const Held& socket);
  struct Leaving {
    std::shared_ptr<GroupSession> session;
    Duration longest;            // for what was sent to be everywhere
    bool is_waited_for = false;  // when the process ends
  };
  Leaving leaving_of(const OpenSocket& socket, bool has_lingered) const;
  void leave_group(const Leaving& leaving);
  void end_groups();

  // stack_options.cpp
  Answer set_group_name(OpenSocket& socket, std::string_view name);
  Answer set_own_option(OpenSocket& socket, int name, const void* value, socklen_t length);

  // peering.cpp
  Result<Carrier*> carrier(const Address& local);
  std::vector<Carrier*> carriers() const;

  struct Dial {
    peer::Peers::Handle attempt;
    std::vector<Held> waiting;
  };
  struct LentChunk {
    std::shared_ptr<Stream> stream;
    ArrivedChunk chunk;
  };
  struct Known {
    std::shared_ptr<Mux> mux;
    Address local;
  };

  const StackOptions options_;
  FairMutex lock_;
  std::unordered_map<int, Held> sockets_;
  std::multimap<std::uint16_t, OpenSocket*> listeners_;  // by port
  std::shared_ptr<Mux> own_near_, own_far_;              // connections with ourselves
  bool own_ready_ = false;
  std::map<const std::byte*, std::shared_ptr<memory::Arena>> allocations_;
  std::unordered_map<const std::byte*, LentChunk> loans_;  // received, and not released yet
  std::map<GroupSession*, Leaving> leaving_;               // of groups whose sockets are closed
  std::condition_variable_any has_left_;                   // one of them
  std::map<Address, Dial> dials_;
  std::map<Address, Known> known_;              // who listens there, as far as we know
  std::shared_ptr<control::ControlLoop> loop_;  // once there are peers
  std::shared_ptr<peer::Peers> peers_;
  std::vector<peer::Peers::Handle> services_;
  NodeEnder ender_;

  std::optional<UnderWay> fork_;
  std::atomic<bool> is_parked_ = false;       // the loop, for a fork
  std::atomic<std::uint32_t> under_way_ = 0;  // calls that end() waits for
  bool is_over_ = false;                      // nobody lingers any more

  // The loop's thread alone, and the destructor once that is gone.
  bool is_ending_ = false;
  std::map<Address, std::unique_ptr<Carrier>> carriers_;
  std::map<std::uint64_t, std::shared_ptr<Peering>> peerings_;  // by the number of the connection
};

/// What is accepted counts like bytes.
template <typename Value>
bool has_moved_bytes(const std::expected<Value, int>& answer) {
  if constexpr (std::is_same_v<Value, std::size_t>)
    return answer && *answer != 0;
  else
    return answer.has_value();
}

template <typename Attempt>
auto Stack::until_done(Lock& lock, const Held& socket, bool may_wait, Time deadline, Attempt attempt,
                       int late, Wants wants) -> decltype(attempt()) {
  const auto while_open = [&]() -> decltype(attempt()) {
    if (socket->is_closing) return std::unexpected(EBADF);
    auto answer = attempt();  // which may let go of the lock for a while
    // A 0 is then no end that the peer has made, but this close.
    if (socket->is_closing && !has_moved_bytes(answer)) return std::unexpected(EBADF);
    return answer;
  };
  return keep_trying(lock, socket, may_wait, deadline, while_open, late, wants);
}

template <typename Attempt>
auto Stack::keep_trying(Lock& lock, const Held& socket, bool may_wait, Time deadline, Attempt attempt,
                        int late, Wants wants) -> decltype(attempt()) {
  bool has_looked = false, is_armed = false;
  for (;;) {
    const std::uint32_t seen = socket->changes.load();
    auto answer = attempt();
    deliver_own();
    socket->refresh();
    if (has_looked && answer) socket->idle(wants).found_work(monotonic_now());
    if (answer || answer.error() != EAGAIN || !may_wait) return answer;
    if (socket->changes.load() != seen) continue;
    Woken woken = Woken::changed;
    if (const auto lane = socket->lane(wants); !lane) {
      lock.unlock();
      woken = socket->sleep(seen, deadline);
      lock.lock();
    } else if (is_armed) {
      woken = socket->sleep(lock, *lane, deadline);
      is_armed = false;
    } else {
      const Time now = monotonic_now();
      const bool is_worth_it = !std::exchange(has_looked, true) && !socket->idle(wants).found_nothing(now);
      if (is_worth_it) {
        lock.unlock();
        const bool news = socket->look(*lane, seen, std::min(deadline, now + engine::IdleStrategy{}.spin));
        lock.lock();
        if (news) continue;
      }
      // The last look before sleeping is an attempt, with the bell set.
      lane->word() = 1;
      is_armed = true;
    }
    if (woken == Woken::timed_out) return std::unexpected(late);
    if (woken == Woken::interrupted) return std::unexpected(EINTR);
  }
}

}  // namespace rdmc::sockets
