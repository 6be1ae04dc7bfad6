// Randomness from the operating system, for everything that an attacker must not guess: keys, queue pair
// numbers, first PSNs, remote keys. Unbuffered on purpose: a buffer would give a forked child its parent's
// numbers. Any thread; a call costs a system call (about 0.2 us).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::control {

/// Fills `out` from getrandom(2). Errors: unsupported, permission_denied (a sandbox forbids the call).
Result<void> fill_random(std::span<std::byte> out);

/// The proof that getrandom(2) works in this process, made once, so that each number after it is a plain
/// value.
class SystemRandom {
 public:
  /// Errors: those of fill_random.
  static Result<SystemRandom> open();

  std::uint32_t next32() const;
  std::uint64_t next64() const;
  /// Uniform in [2, 2^24): 0 and 1 are reserved (IBTA vol. 1, 3.5.1 and 9.2).
  Qpn qpn() const;
  /// Uniform in [0, 2^24).
  Psn psn() const;
  /// Uniform in [1, 2^32): zero would equal a header that nobody filled in.
  RemoteKey remote_key() const;

 private:
  SystemRandom() = default;
};

}  // namespace rdmc::control
