// sendmsg and recvmsg: bytes in several pieces, and the flags and control data of recvmsg.
#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "lib/include/rdmc/socket.h"
#include "lib/socket/stack.hpp"

namespace rdmc::sockets {
namespace {

/// Returns the total length of the pieces. Errors: EMSGSIZE (too many pieces), EINVAL (more bytes than an
/// ssize_t can count), EFAULT.
Answer bytes_in(const msghdr& message) {
  if (message.msg_iovlen > IOV_MAX) return std::unexpected(EMSGSIZE);
  if (message.msg_iov == nullptr && message.msg_iovlen != 0) return std::unexpected(EFAULT);
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < message.msg_iovlen; ++i) {
    if (message.msg_iov[i].iov_base == nullptr && message.msg_iov[i].iov_len != 0)
      return std::unexpected(EFAULT);
    if (message.msg_iov[i].iov_len > std::size_t{SSIZE_MAX} - bytes) return std::unexpected(EINVAL);
    bytes += message.msg_iov[i].iov_len;
  }
  return bytes;
}

/// Returns the only piece, which needs no gathering. Returns nullopt if there are several pieces or none.
std::optional<std::span<std::byte>> only_piece(const msghdr& message) {
  if (message.msg_iovlen != 1) return std::nullopt;
  return std::span(static_cast<std::byte*>(message.msg_iov[0].iov_base), message.msg_iov[0].iov_len);
}

constexpr std::size_t kEventBytes = CMSG_SPACE(sizeof(rdmc_member_event));

/// Stores the event as control data. There is no other control data.
void put_event(msghdr& message, const std::optional<rdmc_member_event>& event) {
  message.msg_controllen = event ? kEventBytes : 0;
  if (!event) return;
  cmsghdr* const head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = RDMC_SOL_SOCKET;
  head->cmsg_type = RDMC_MEMBER_EVENT;
  head->cmsg_len = CMSG_LEN(sizeof *event);
  std::memcpy(CMSG_DATA(head), &*event, sizeof *event);
}

}  // namespace

Answer Stack::send_message(int fd, const msghdr& message, int flags) {
  if (message.msg_name != nullptr || message.msg_controllen != 0) return std::unexpected(EOPNOTSUPP);
  const Answer bytes = bytes_in(message);
  if (!bytes) return bytes;
  if (const auto whole = only_piece(message)) return send(fd, *whole, flags);
  std::vector<std::byte> gathered;
  gathered.reserve(*bytes);
  for (std::size_t i = 0; i < message.msg_iovlen; ++i) {
    const auto* const from = static_cast<const std::byte*>(message.msg_iov[i].iov_base);
    gathered.insert(gathered.end(), from, from + message.msg_iov[i].iov_len);
  }
  const Answer sent = send(fd, gathered, flags);
  if (sent) count_copied(fd, *sent);
  return sent;
}

Answer Stack::receive_message(int fd, msghdr& message, int flags) {
  const Answer room = bytes_in(message);
  if (!room) return room;
  const auto whole = only_piece(message);
  const auto scattered = std::make_unique_for_overwrite<std::byte[]>(whole ? 0 : *room);
  const std::span received = whole.value_or(std::span(scattered.get(), whole ? 0 : *room));
  int said = 0;
  std::optional<rdmc_member_event> event;
  const bool wants_events = message.msg_control != nullptr && message.msg_controllen >= kEventBytes;
  const Answer got = receive(fd, received, flags, &said, wants_events ? &event : nullptr);
  if (!got) return got;
  message.msg_namelen = 0;
  put_event(message, event);
  message.msg_flags = said;
  if (whole) return got;
  const std::size_t here_are = std::min(*got, received.size());
  std::size_t given = 0;
  for (std::size_t i = 0; i < message.msg_iovlen && given < here_are; ++i) {
    const std::size_t here = std::min(message.msg_iov[i].iov_len, here_are - given);
    std::memcpy(message.msg_iov[i].iov_base, &received[given], here);
    given += here;
  }
  count_copied(fd, given);
  return got;
}

}  // namespace rdmc::sockets
