#include "apps/replicated-kv/server/question.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>

#include "apps/replicated-kv/server/socket_address.hpp"
#include "dataplane/base/descriptor.hpp"

namespace rdmc::kv {

namespace {

constexpr int kPatienceMs = 3000;
constexpr std::size_t kMostReplyBytes = 1 << 20;

/// Reads a reply in pieces.
class Reader {
 public:
  explicit Reader(int fd) : fd_(fd) {}

  Result<std::string> line() {
    std::size_t end = 0;
    while ((end = bytes_.find("\r\n")) == std::string::npos)
      if (auto got = receive(); !got) return std::unexpected(got.error());
    std::string line = bytes_.substr(0, end);
    bytes_.erase(0, end + 2);
    return line;
  }
  Result<std::string> bulk(std::size_t size) {
    while (bytes_.size() < size + 2)
      if (auto got = receive(); !got) return std::unexpected(got.error());
    std::string bulk = bytes_.substr(0, size);
    bytes_.erase(0, size + 2);
    return bulk;
  }

 private:
  Result<void> receive() {
    pollfd event{fd_, POLLIN, 0};
    if (::poll(&event, 1, kPatienceMs) <= 0) return fail(Errc::timed_out, "the server does not answer");
    std::array<char, 4096> piece;
    const ssize_t got = ::recv(fd_, piece.data(), piece.size(), 0);
    if (got <= 0) return fail(Errc::peer_failed, "the server has closed the connection");
    bytes_.append(piece.data(), static_cast<std::size_t>(got));
    if (bytes_.size() > kMostReplyBytes) return fail(Errc::protocol_error, "the reply is too long");
    return {};
  }

  const int fd_;
  std::string bytes_;
};

std::optional<std::size_t> number_in(std::string_view line) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(line.data() + 1, line.data() + line.size(), number);
  if (error != std::errc{} || end != line.data() + line.size() || number > kMostReplyBytes)
    return std::nullopt;
  return number;
}

std::string encode(const std::vector<std::string>& words) {
  std::string bytes = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string& word : words) bytes += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  return bytes;
}

}  // namespace

Result<std::string> ask(const Address& server, const std::vector<std::string>& request,
                        const Credentials& credentials) {
  const Descriptor fd(
      ::socket(server.ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return fail_errno("socket", errno);
  sockaddr_storage storage;
  const socklen_t size = to_socket_address(server, storage);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&storage), size) != 0 && errno != EINPROGRESS)
    return fail(Errc::peer_failed, std::string("cannot connect: ") + std::strerror(errno));
  pollfd event{fd.get(), POLLOUT, 0};
  if (::poll(&event, 1, kPatienceMs) <= 0) return fail(Errc::timed_out, "the server cannot be reached");
  const bool logs_in = !credentials.password.empty();
  std::string bytes = encode(request);
  if (logs_in) bytes = encode({"AUTH", credentials.user, credentials.password}) + bytes;
  if (::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0)
    return fail(Errc::peer_failed, std::string("cannot connect: ") + std::strerror(errno));
  Reader reader(fd.get());
  if (logs_in) {
    const auto reply = reader.line();
    if (!reply) return std::unexpected(reply.error());
    if (*reply != "+OK") return fail(Errc::permission_denied, *reply);
  }
  std::string text;
  for (std::size_t left = 1; left > 0; --left) {
    const auto head = reader.line();
    if (!head) return std::unexpected(head.error());
    const auto number = head->empty() ? std::nullopt : number_in(*head);
    if (number && head->front() == ':') {
      text = std::to_string(*number);
      continue;
    }
    if (!number || (head->front() != '$' && head->front() != '*')) return fail(Errc::protocol_error, *head);
    if (head->front() == '*') {
      left += *number;
      continue;
    }
    auto bulk = reader.bulk(*number);
    if (!bulk) return std::unexpected(bulk.error());
    text = std::move(*bulk);
  }
  return text;
}

}  // namespace rdmc::kv
