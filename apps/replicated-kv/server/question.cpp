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

namespace rdmc::kv {

namespace {

constexpr int kPatienceMs = 3000;
constexpr std::size_t kMostReplyBytes = 1 << 20;

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

/// The error for a reply that is not expected.
std::unexpected<Error> refused(const std::string& reply, Errc otherwise) {
  const bool is_outage = reply.starts_with("-LOADING ") || reply.starts_with("-CLUSTERDOWN ") ||
                         reply.starts_with("-UNCERTAIN ");
  return fail(is_outage ? Errc::would_block : otherwise, reply.substr(reply.starts_with('-') ? 1 : 0));
}

}  // namespace

Result<Question> Question::open(const Address& server, const Credentials& credentials, const TlsContext* tls,
                                int stop) {
  Descriptor socket(
      ::socket(server.ipv6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket) return fail_errno("socket", errno);
  sockaddr_storage storage;
  const socklen_t size = to_socket_address(server, storage);
  Question question(std::move(socket), stop);
  int error = 0;
  if (::connect(question.socket_.get(), reinterpret_cast<sockaddr*>(&storage), size) != 0) error = errno;
  if (error == EINPROGRESS) {
    if (!question.wait(POLLOUT)) return fail(Errc::peer_failed, "cannot connect: no answer within 3 s");
    socklen_t length = sizeof error;
    ::getsockopt(question.socket_.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  }
  if (error != 0) return fail(Errc::peer_failed, std::string("cannot connect: ") + std::strerror(error));
  if (tls != nullptr)
    if (auto begun = question.begin_tls(*tls); !begun) return std::unexpected(begun.error());
  if (credentials.password.empty()) return question;
  if (auto sent = question.send(encode({"AUTH", credentials.user, credentials.password})); !sent)
    return std::unexpected(sent.error());
  const auto reply = question.line();
  if (!reply) return std::unexpected(reply.error());
  if (*reply != "+OK") return refused(*reply, Errc::permission_denied);
  return question;
}

Result<void> Question::begin_tls(const TlsContext& tls) {
  auto stream = tls.connect(socket_.get());
  if (!stream) return std::unexpected(stream.error());
  tls_ = std::move(*stream);
  while (!tls_.is_established())
    if (auto ready = wait(tls_.handshake()); !ready) return ready;
  return {};
}

Result<void> Question::wait(short events) {
  std::array<pollfd, 2> polled{{{socket_.get(), events, 0}, {stop_, POLLIN, 0}}};
  const int ready = ::poll(polled.data(), polled.size(), kPatienceMs);
  if (ready > 0 && polled[1].revents != 0) return fail(Errc::cancelled, "the question was ended");
  if (ready <= 0) return fail(Errc::timed_out, "the server does not answer within 3 s");
  return {};
}

Result<void> Question::wait(TlsProgress progress) {
  switch (progress) {
    case TlsProgress::done: return {};
    case TlsProgress::needs_read: return wait(POLLIN);
    case TlsProgress::needs_write: return wait(POLLOUT);
    case TlsProgress::ended: return fail(Errc::peer_failed, "the server has closed the connection");
    // With TLS 1.3, a client learns only now that the server does not accept its certificate.
    default:
      return fail(Errc::authentication,
                  "TLS has failed: one of the two ends does not accept the certificate of the other one, or "
                  "the server has no TLS there");
  }
}

Result<void> Question::send(const std::string& bytes) {
  for (std::size_t sent = 0; sent < bytes.size();) {
    const std::span<const char> rest = std::span(bytes).subspan(sent);
    std::size_t count = 0;
    if (tls_.is_used()) {
      if (auto ready = wait(tls_.write(rest, count)); !ready) return ready;
    } else {
      const ssize_t got = ::send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
      if (got < 0 && errno != EAGAIN)
        return fail(Errc::peer_failed, std::string("cannot send: ") + std::strerror(errno));
      if (got < 0)
        if (auto ready = wait(POLLOUT); !ready) return ready;
      count = static_cast<std::size_t>(std::max<ssize_t>(got, 0));
    }
    sent += count;
  }
  return {};
}

Result<void> Question::receive() {
  std::array<char, TlsStream::kMostRecordBytes> piece;
  std::size_t count = 0;
  if (tls_.is_used()) {
    if (auto ready = wait(tls_.read(piece, count)); !ready) return ready;
  } else {
    if (auto ready = wait(POLLIN); !ready) return ready;
    const ssize_t got = ::recv(socket_.get(), piece.data(), piece.size(), 0);
    if (got <= 0) return fail(Errc::peer_failed, "the server has closed the connection");
    count = static_cast<std::size_t>(got);
  }
  received_.append(piece.data(), count);
  if (received_.size() > kMostReplyBytes) return fail(Errc::protocol_error, "the reply is too long");
  return {};
}

Result<std::string> Question::line() {
  std::size_t end = 0;
  while ((end = received_.find("\r\n")) == std::string::npos)
    if (auto got = receive(); !got) return std::unexpected(got.error());
  std::string line = received_.substr(0, end);
  received_.erase(0, end + 2);
  return line;
}

Result<std::string> Question::bulk(std::size_t size) {
  while (received_.size() < size + 2)
    if (auto got = receive(); !got) return std::unexpected(got.error());
  std::string bulk = received_.substr(0, size);
  received_.erase(0, size + 2);
  return bulk;
}

Result<std::string> Question::ask(const std::vector<std::string>& request) {
  if (auto sent = send(encode(request)); !sent) return std::unexpected(sent.error());
  std::string text;
  for (std::size_t left = 1; left > 0; --left) {
    const auto head = line();
    if (!head) return std::unexpected(head.error());
    const auto number = head->empty() ? std::nullopt : number_in(*head);
    if (number && head->front() == ':') {
      text = std::to_string(*number);
      continue;
    }
    if (!number || (head->front() != '$' && head->front() != '*'))
      return refused(*head, Errc::protocol_error);
    if (head->front() == '*') {
      left += *number;
      continue;
    }
    auto piece = bulk(*number);
    if (!piece) return std::unexpected(piece.error());
    text = std::move(*piece);
  }
  return text;
}

Result<std::string> ask(const Address& server, const std::vector<std::string>& request, int stop) {
  auto question = Question::open(server, {}, nullptr, stop);
  return question ? question->ask(request) : std::unexpected(question.error());
}

}  // namespace rdmc::kv
