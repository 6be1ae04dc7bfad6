// Random numbers from the operating system, for everything that an attacker must not guess: keys, queue pair
// numbers, first PSNs, remote keys. There is no buffer, because a forked child would get the same numbers as
// its parent from a copied buffer. The functions may be called from any thread. Each call makes a system call
// (about 0.2 us).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::control {

/// Fills `out` from getrandom(2). Errors: unsupported; permission_denied if a sandbox forbids the call.
Result<void> fill_random(std::span<std::byte> out);

/// An object of this class proves that getrandom(2) works in this process. open() checks this once, so the
/// other functions return plain values and cannot fail.
class SystemRandom {
 public:
  /// Checks that getrandom(2) works. Errors: those of fill_random.
  static Result<SystemRandom> open();

  std::uint32_t next32() const;
  std::uint64_t next64() const;
  /// Returns a number that is uniform in [2, 2^24). 0 and 1 are reserved (IBTA vol. 1, 3.5.1 and 9.2).
  Qpn qpn() const;
  /// Returns a number that is uniform in [0, 2^24).
  Psn psn() const;
  /// Returns a number that is uniform in [1, 2^32). 0 is excluded, because 0 is also the remote key in a
  /// header that no code has filled in.
  RemoteKey remote_key() const;

 private:
  SystemRandom() = default;
};

}  // namespace rdmc::control
