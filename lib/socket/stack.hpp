// The sockets of a process and the objects that they share: one lock, the control loop and the peers of the
// process, a carrier for each address in use, and one trunk to each process that any socket is connected
// with. Connections of a process with itself need no trunk. Their records are handed over directly. The C
// functions of rdmc/socket.h use the one Stack that a process commonly has. Several stacks are possible. Any
// thread may call any function.
//
// Calls return a count or an errno, as the kernel's calls do (see Stream and Socket). They do not hold the
// lock while they block.
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
#include "dataplane/memory/page_hand_off.hpp"
#include "lib/socket/callers_memory.hpp"
#include "lib/socket/carrier.hpp"
#include "lib/socket/node_ender.hpp"
#include "lib/socket/open_socket.hpp"

struct pollfd;

namespace rdmc::sockets {

struct StackOptions {
  std::string fabric = "auto";
  std::string device;  ///< the name of the fabric's device, if the fabric needs one
  /// The file of the cluster key, which both ends of a connection must hold.
  std::string key_file;
  bool insecure = false;                        ///< true: use no cluster key. The application must request
                                                ///< this explicitly.
  bool encrypt = false;                         ///< encrypt everything that leaves the host
  control::CertificateFiles certificates = {};  ///< used instead of the cluster key
  /// How long another process may take to share a trunk. It is also how long a process that joins a group may
  /// take to name the group, and then how long it may take to become ready.
  Duration introduction = seconds(10);
  /// How long sent data may still take to arrive after its socket was closed. This limit applies if the
  /// process ends or if a root closes its group. (A process that uses the sockets of the kernel ends without
  /// this wait.)
  Duration farewell = seconds(2);
  /// The context that shares its threads and connections with the sockets. If it is null, the stack makes its
  /// own.
  std::shared_ptr<peer::Context> context = nullptr;
  /// The least number of bytes whose pages MSG_ZEROCOPY hands over.
  std::size_t least_hand_off = memory::kLeastHandOff;
};

/// Counts a call that uses objects that end() destroys. end() waits until no such call runs.
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

  /// The context that this stack uses.
  peer::Context& context() { return *options_.context; }
  /// Returns the number of trunks to other processes that exist or are being made. Any thread may call this.
  std::size_t trunks();
  /// Returns the interface by which the trunks find listening sockets.
  Opens& opens() { return *this; }

  /// Closes all sockets, waits for a short time until the sent data has arrived, and ends everything else.
  /// Afterwards no call may start anything new.
  void end();

  Answer socket(int domain, int type, int protocol);
  Answer bind(int fd, const sockaddr* address, socklen_t length);
  Answer listen(int fd, int backlog);
  Answer accept(int fd, sockaddr* address, socklen_t* length, int flags);
  Answer connect(int fd, const sockaddr* address, socklen_t length);
  Answer send(int fd, std::span<const std::byte> bytes, int flags);
  /// `said` gets the flags that recvmsg() returns for messages: MSG_EOR or MSG_TRUNC.
  Answer receive(int fd, std::span<std::byte> out, int flags, int* said = nullptr) {
    return receive(fd, out, flags, said, nullptr);
  }
  /// Does the same as the function above. If a member event of a group comes before the next message, it
  /// returns the event instead. Then the result is 0, and `said` is MSG_OOB.
  Answer receive(int fd, std::span<std::byte> out, int flags, int* said,
                 std::optional<rdmc_member_event>* event);
  /// Do the same as sendmsg() and recvmsg(). In addition to the errors of send() and receive(), errors are:
  /// EMSGSIZE, EINVAL or EFAULT for the pieces, EOPNOTSUPP for names and control data to be sent. Both throw
  /// std::bad_alloc if there is no memory to gather the pieces.
  Answer send_message(int fd, const msghdr& message, int flags);
  Answer receive_message(int fd, msghdr& message, int flags);
  Answer shutdown(int fd, int how);
  Answer close(int fd) { return close(fd, true); }
  Answer poll(std::span<pollfd> descriptors, int timeout_ms);
  /// Returns those events of `wanted` that poll() would return now, and in any case POLLERR and POLLHUP if
  /// they apply. Returns POLLNVAL if there is no such socket.
  short events(int fd, short wanted);
  Answer get_option(int fd, int level, int name, void* value, socklen_t* length);
  Answer set_option(int fd, int level, int name, const void* value, socklen_t length);
  Answer get_name(int fd, sockaddr* address, socklen_t* length, bool of_peer);
  /// Does the same as fcntl() with F_GETFL and F_SETFL. O_NONBLOCK is the only flag that can be changed.
  Answer control(int fd, int command, int argument);
  /// Makes the descriptor itself usable for epoll and similar calls, and returns it.
  Answer pollfd_of(int fd);
  bool has(int fd);

  // The following functions are defined in stack_zero_copy.cpp.

  /// Allocates memory that can be sent without a copy. Errors: EINVAL, ENOMEM.
  std::expected<void*, int> allocate(std::size_t bytes);
  /// Frees memory that allocate() has returned. Memory that is being sent stays until it has arrived. Errors:
  /// EINVAL.
  Answer deallocate(void* memory);
  /// Sends `bytes` without a copy. Errors: EFAULT if the memory is not from allocate(), and those of send().
  Answer send_in_place(int fd, std::span<const std::byte> bytes, int flags, std::uint64_t& number);
  Answer wait_sent(int fd, std::uint64_t number, int flags);
  /// Receives bytes without a copy. The caller may use `bytes` until release().
  Answer receive_in_place(int fd, void** bytes, int flags);
  /// Gives back bytes that receive_in_place() has returned. Errors: EINVAL.
  Answer release(void* bytes);

  /// before_fork() and after_fork() must be called around fork(), by one thread at a time, so that no state
  /// is half changed in the child. The child never uses this stack again. before_fork() stops the control
  /// loop between two tasks. So the loop's thread holds no lock that the child may need, for example a lock
  /// of OpenSSL.
  void before_fork();
  void after_fork();
  /// Returns the descriptors of all sockets. Must be called with the lock.
  std::vector<int> descriptors() const;

 private:
  friend class Peering;
  using Lock = std::unique_lock<FairMutex>;
  /// Must be copied and destroyed only while the lock is held, so its count need not be atomic.
  using Held = boost::local_shared_ptr<OpenSocket>;

  // The following functions are defined in stack.cpp.
  std::expected<Held, int> find(int fd) const;
  Answer add(Descriptor kernel, bool ipv6, Socket socket, int flags, const Held& like = nullptr);
  Result<peer::Peers*> peers();
  Result<void> serve_peers();
  std::shared_ptr<Mux> make_own(bool nearer);
  void deliver_own() noexcept;
  void exchange_own();
  void drain(Duration longest);
  /// Calls `attempt` until it returns something other than EAGAIN. Calls it only once unless `may_wait`.
  /// Returns the error `late` after the deadline. If another thread closes the socket meanwhile, the result
  /// is EBADF.
  template <typename Attempt>
  auto until_done(Lock& lock, const Held& socket, bool may_wait, Time deadline, Attempt attempt,
                  int late = EAGAIN, Wants wants = Wants::change) -> decltype(attempt());
  /// Does the same as until_done(), for the call that closes the socket. It continues although the socket is
  /// closing.
  template <typename Attempt>
  auto keep_trying(Lock& lock, const Held& socket, bool may_wait, Time deadline, Attempt attempt, int late,
                   Wants wants) -> decltype(attempt());
  /// Returns the time when `timeout` ends, or Time::never() if there is no timeout.
  static Time deadline_of(Duration timeout);

  Answer close(int fd, bool may_linger);
  static bool may_wait(const OpenSocket& socket, int flags);
  static void raise_broken_pipe(Lock& lock);
  /// Counts copied bytes. Some calls copy the bytes one more time than send() and receive() do. These calls
  /// use this function to count the additional copy.
  void count_copied(int fd, std::size_t bytes);
  std::shared_ptr<const void> owner_of(std::span<const std::byte> bytes) const;

  // The following functions are defined in stack_copies.cpp.
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

  // The following functions are defined in stack_connect.cpp.
  bool on_open(const Asked& asked, const std::shared_ptr<Stream>& stream) override;
  bool on_refused(const std::shared_ptr<Stream>& stream) override;
  int begin_connect(const Held& socket, const Address& to);
  OpenSocket* find_listener(const Address& at, bool of_group) const;
  std::optional<control::Listener> stop_listening(OpenSocket& socket);
  void dial(const Held& socket);
  void on_dialled(const Address& at, const Result<std::shared_ptr<Mux>>& mux, const Address& local);

  // The following functions are defined in stack_group.cpp.
  Answer make_group_socket(Descriptor kernel, bool ipv6, int flags);
  GroupSessionOptions session_options(const OpenSocket& socket);
  void begin_group(OpenSocket& socket);
  void on_group_request(peer::Request request);
  Answer join(Lock& lock, const Held& socket, const Address& to);
  void linger_for_group(Lock& lock, const Held& socket);
  struct Leaving {
    std::shared_ptr<GroupSession> session;
    Duration longest;            // the limit for the sent messages to reach all members
    bool is_waited_for = false;  // true if the end of the process waits for this session
  };
  Leaving leaving_of(const OpenSocket& socket, bool has_lingered) const;
  void leave_group(const Leaving& leaving);
  void end_groups();

  // The following functions are defined in stack_options.cpp.
  Answer set_group_name(OpenSocket& socket, std::string_view name);
  Answer set_own_option(OpenSocket& socket, int name, const void* value, socklen_t length);

  // The following functions are defined in peering.cpp and stack.cpp.
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
  std::multimap<std::uint16_t, OpenSocket*> listeners_;  // by port number
  std::shared_ptr<Mux> own_near_, own_far_;              // the connections of this process with itself
  bool own_ready_ = false;
  std::map<const std::byte*, std::shared_ptr<memory::Arena>> allocations_;
  std::unordered_map<const std::byte*, LentChunk> loans_;  // chunks that were received in place and not
                                                           // released yet
  std::map<GroupSession*, Leaving> leaving_;               // sessions of groups whose sockets are closed
  std::condition_variable_any has_left_;                   // notified when an entry of `leaving_` was removed
  std::map<Address, Dial> dials_;
  std::map<Address, Known> known_;              // the process that listens at an address, as far as is known
  std::shared_ptr<control::ControlLoop> loop_;  // set when there are peers
  std::shared_ptr<peer::Peers> peers_;
  std::vector<peer::Peers::Handle> services_;
  NodeEnder ender_;

  std::optional<UnderWay> fork_;
  std::atomic<bool> is_parked_ = false;       // true while the control loop is stopped for a fork
  std::atomic<std::uint32_t> under_way_ = 0;  // the number of calls that end() waits for
  bool is_over_ = false;                      // true if calls to close() no longer linger

  // The following members are used on the control loop only, and by the destructor after that loop has ended.
  bool is_ending_ = false;
  std::map<Address, std::unique_ptr<Carrier>> carriers_;
  std::map<std::uint64_t, std::shared_ptr<Peering>> peerings_;  // the key is the number of the control
                                                                // connection
};

/// True if a call has moved bytes. An accepted connection counts as moved bytes.
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
    auto answer = attempt();  // The attempt may release the lock for a while.
    // After a close, a result of 0 does not mean that the peer has ended the stream.
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
      // Set the bell, then make one more attempt before sleeping.
      lane->word() = 1;
      is_armed = true;
    }
    if (woken == Woken::timed_out) return std::unexpected(late);
    if (woken == Woken::interrupted) return std::unexpected(EINTR);
  }
}

}  // namespace rdmc::sockets
