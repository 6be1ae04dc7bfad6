// The beginning and the end of group sockets. Between these, send and receive do the same as for other
// sockets.
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <new>

#include "controlplane/connect/socket.hpp"
#include "dataplane/base/address_kind.hpp"
#include "lib/socket/errno_of.hpp"
#include "lib/socket/group_member.hpp"
#include "lib/socket/group_root.hpp"
#include "lib/socket/peering.hpp"
#include "lib/socket/stack.hpp"

namespace rdmc::sockets {
namespace {

constexpr std::size_t kMostNameBytes = 255;
/// When the process ends, it waits for the messages of closed roots. After that, it waits at most for this
/// further time, in which the members learn that the group has ended.
constexpr Duration kGoodbye = seconds(2);

}  // namespace

Answer Stack::make_group_socket(Descriptor kernel, bool ipv6, int flags) {
  const auto end = std::make_shared<GroupEnd>();
  const auto fd = add(std::move(kernel), ipv6, Socket(std::shared_ptr<Endpoint>(end)), flags);
  sockets_.at(static_cast<int>(*fd))->group = end;
  return fd;
}

Answer Stack::set_group_name(OpenSocket& socket, std::string_view name) {
  name = name.substr(0, name.find('\0'));
  if (name.empty() || name.size() > kMostNameBytes || socket.group->state() != GroupEnd::State::idle)
    return std::unexpected(EINVAL);
  socket.group_name = name;
  return 0;
}

GroupSessionOptions Stack::session_options(const OpenSocket& socket) {
  return {.loop = *loop_,
          .lock = lock_,
          .peers = *peers_,
          .fabric = options_.fabric,
          .device = options_.device,
          .group = socket.group_name,
          .encrypt = options_.encrypt,
          .context = options_.context,
          .ender = ender_,
          .introduction = options_.introduction};
}

void Stack::begin_group(OpenSocket& socket) {
  socket.session = std::make_shared<GroupRoot>(session_options(socket), socket.group);
  socket.session->attach();
}

/// Called on the control loop when a process asks to join the group whose root listens at the address in the
/// greeting.
void Stack::on_group_request(peer::Request request) {
  const auto& greeting = request.offer().greeting;
  const auto at = parse_address({reinterpret_cast<const char*>(greeting.data()), greeting.size()}, 0);
  const bool is_near = is_on_this_host(request.local(), request.address());
  std::shared_ptr<GroupSession> session;
  if (at && (is_near || !is_loopback(*at))) {
    const Lock lock(lock_);
    OpenSocket* const root = find_listener(*at, true);
    if (root != nullptr) session = root->session;
  }
  if (!session) return request.refuse({Errc::not_found, "no group is here"});
  if (auto channel = request.accept({}))
    std::static_pointer_cast<GroupRoot>(session)->on_channel(std::move(*channel));
}

Answer Stack::join(Lock& lock, const Held& socket, const Address& to) {
  GroupEnd& group = *socket->group;
  if (group.state() == GroupEnd::State::idle) {
    if (socket->group_name.empty()) return std::unexpected(EINVAL);
    if (const auto with = peers(); !with) return std::unexpected(errno_of(with.error()));
    const auto member = std::make_shared<GroupMember>(session_options(*socket), socket->group);
    socket->session = member;
    member->attach();
    group.begin(false);
    member->join(to, errno_of);
    if (socket->non_blocking) return std::unexpected(EINPROGRESS);
  } else if (group.state() == GroupEnd::State::open) {
    return std::unexpected(EISCONN);
  } else if (group.state() == GroupEnd::State::ended) {
    return std::unexpected(EINVAL);
  } else if (group.state() == GroupEnd::State::joining && socket->non_blocking) {
    return std::unexpected(EALREADY);
  }
  return until_done(
      lock, socket, true, deadline_of(socket->send_timeout),
      [&]() -> Answer {
        if (group.state() == GroupEnd::State::joining) return std::unexpected(EAGAIN);
        // The socket was in the group, and the group has ended since then. receive() reports the end.
        if (group.state() == GroupEnd::State::ended && group.members > 0) return 0;
        if (const int error = group.take_error()) return std::unexpected(error);
        if (group.state() == GroupEnd::State::open) return 0;
        return std::unexpected(ECONNABORTED);
      },
      EINPROGRESS);
}

/// Called by a close that lingers. Waits until all members have the root's messages, at most for the linger
/// time.
void Stack::linger_for_group(Lock& lock, const Held& socket) {
  GroupEnd& group = *socket->group;
  const int longest = socket->linger_seconds.value_or(0);
  if (!group.is_root() || longest == 0) return;
  const auto is_everywhere = [&]() -> Answer {
    if (is_over_ || group.first() == group.next() || group.state() == GroupEnd::State::ended) return 0;
    return std::unexpected(EAGAIN);
  };
  (void)keep_trying(lock, socket, true, monotonic_now() + seconds(longest), is_everywhere, EAGAIN,
                    Wants::change);
}

/// Returns how the group of a closed socket ends. A root gets time for its messages, according to its linger
/// option, unless its close has waited for them already.
Stack::Leaving Stack::leaving_of(const OpenSocket& socket, bool has_lingered) const {
  Leaving leaving{.session = socket.session, .longest = {}, .is_waited_for = false};
  if (!socket.group || !socket.group->is_root() || is_over_) return leaving;
  leaving.is_waited_for = socket.linger_seconds != 0;
  if (!socket.linger_seconds)
    leaving.longest = options_.farewell;
  else if (!has_lingered)
    leaving.longest = seconds(*socket.linger_seconds);
  return leaving;
}

/// Ends the group session of a closed socket. The session continues on the control loop without its socket.
void Stack::leave_group(const Leaving& leaving) {
  GroupSession* const key = leaving.session.get();
  const auto forget = [this, key] {
    const Lock lock(lock_);
    leaving_.erase(key);
    has_left_.notify_all();
  };
  try {
    {
      const Lock lock(lock_);
      leaving_.emplace(key, leaving);
    }
    leaving.session->leave(leaving.longest, forget);
  } catch (const std::bad_alloc&) {
    leaving.session->stop();
    forget();
  }
}

/// Called when the process ends. Waits for the roots that must be waited for, then stops all sessions.
void Stack::end_groups() {
  Time latest = monotonic_now();
  std::vector<std::shared_ptr<GroupSession>> others;
  Lock lock(lock_);
  for (const auto& [key, leaving] : leaving_)
    if (leaving.is_waited_for) latest = std::max(latest, monotonic_now() + leaving.longest + kGoodbye);
  const auto is_waited_for = [](const auto& entry) { return entry.second.is_waited_for; };
  while (std::ranges::any_of(leaving_, is_waited_for) && monotonic_now() < latest)
    has_left_.wait_for(lock, std::chrono::nanoseconds((latest - monotonic_now()).ns));
  for (const auto& [key, leaving] : leaving_) others.push_back(leaving.session);
  lock.unlock();
  for (const auto& session : others) session->stop();
}

}  // namespace rdmc::sockets
