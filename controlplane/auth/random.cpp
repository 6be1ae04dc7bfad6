#include "controlplane/auth/random.hpp"

#include <sys/random.h>

#include <cassert>
#include <cerrno>

namespace rdmc::control {

Result<void> fill_random(std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = ::getrandom(out.data(), out.size(), 0);
    if (got < 0) {
      if (errno == EINTR) continue;
      return fail_errno("getrandom", errno);
    }
    out = out.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

Result<SystemRandom> SystemRandom::open() {
  std::byte probe[8];
  if (auto filled = fill_random(probe); !filled) return std::unexpected(filled.error());
  return SystemRandom{};
}

std::uint64_t SystemRandom::next64() const {
  std::uint64_t value = 0;
  const auto filled = fill_random(std::as_writable_bytes(std::span(&value, 1)));
  // open() has checked that this call works. A call that has worked once does not fail later.
  assert(filled);
  return value;
}

std::uint32_t SystemRandom::next32() const {
  return static_cast<std::uint32_t>(next64());
}

Qpn SystemRandom::qpn() const {
  for (;;) {
    const std::uint32_t number = next32() & 0xFF'FFFF;
    if (number > 1) return Qpn{number};
  }
}

Psn SystemRandom::psn() const {
  return Psn{next32()};
}

RemoteKey SystemRandom::remote_key() const {
  for (;;) {
    if (const std::uint32_t key = next32(); key != 0) return RemoteKey{key};
  }
}

}  // namespace rdmc::control
