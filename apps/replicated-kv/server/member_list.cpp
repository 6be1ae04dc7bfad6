#include "apps/replicated-kv/server/member_list.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "apps/replicated-kv/server/socket_address.hpp"
#include "dataplane/base/descriptor.hpp"

namespace rdmc::kv {

namespace {

constexpr int kPatienceMs = 3000;

bool wait_for(int fd, short events) {
  pollfd event{fd, events, 0};
  return ::poll(&event, 1, kPatienceMs) > 0;
}

/// Returns the reply of a server, or an empty text.
std::string ask(const Address& server, const std::string& list) {
  const Descriptor fd(
      ::socket(server.ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  sockaddr_storage storage;
  const socklen_t size = to_socket_address(server, storage);
  if (!fd || (::connect(fd.get(), reinterpret_cast<sockaddr*>(&storage), size) != 0 && errno != EINPROGRESS))
    return {};
  // This command needs no password.
  const std::string request = "rdmc.same-members " + list + "\r\n";
  if (!wait_for(fd.get(), POLLOUT) || ::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0)
    return {};
  std::string reply;
  std::array<char, 4096> piece;
  while (!reply.contains('\n')) {
    if (!wait_for(fd.get(), POLLIN)) return {};
    const ssize_t got = ::recv(fd.get(), piece.data(), piece.size(), 0);
    if (got <= 0) return {};
    reply.append(piece.data(), static_cast<std::size_t>(got));
  }
  return reply;
}

}  // namespace

std::string to_string(const std::vector<Address>& members) {
  std::string text;
  for (const Address& member : members) text += (text.empty() ? "" : ",") + rdmc::to_string(member);
  return text;
}

std::string describe_service(const ServeOptions& options) {
  const bool has_log = !options.directory.empty();
  return to_string(options.members) + ";min-replicas=" + std::to_string(options.least_replicas) +
         ";log=" + (has_log ? to_string(options.syncs) : "none");
}

Result<void> check_members(const ServeOptions& options) {
  const std::string own = describe_service(options);
  for (const Address& member : options.members) {
    if (member == options.listen) continue;
    const std::string reply = ask(member, own);
    if (reply.empty() || reply == ":1\r\n") continue;
    return fail(
        Errc::invalid_argument,
        "the server " + rdmc::to_string(member) +
            " has another list of members, another --min-replicas, or another --dir or --appendfsync than "
            "this one: " +
            own);
  }
  return {};
}

}  // namespace rdmc::kv
