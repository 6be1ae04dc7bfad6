#include "apps/control/service_manager.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>

#include "dataplane/base/descriptor.hpp"

namespace rdmc::control_app {
namespace {

std::optional<std::int64_t> number_in(const char* variable) {
  const char* const text = std::getenv(variable);
  std::int64_t number = 0;
  if (text == nullptr || std::from_chars(text, text + std::strlen(text), number).ec != std::errc{})
    return std::nullopt;
  return number;
}

}  // namespace

void notify(std::string_view state) {
  const char* const path = std::getenv("NOTIFY_SOCKET");
  sockaddr_un to{.sun_family = AF_UNIX};
  if (path == nullptr || std::strlen(path) >= sizeof to.sun_path) return;
  std::strcpy(to.sun_path, path);
  if (path[0] == '@') to.sun_path[0] = '\0';
  const Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(path));
  ::sendto(socket.get(), state.data(), state.size(), MSG_NOSIGNAL, reinterpret_cast<sockaddr*>(&to), length);
}

std::optional<Duration> watchdog_limit() {
  const auto us = number_in("WATCHDOG_USEC");
  if (!us || *us <= 0 || number_in("WATCHDOG_PID").value_or(::getpid()) != ::getpid()) return std::nullopt;
  return microseconds(*us);
}

}  // namespace rdmc::control_app
