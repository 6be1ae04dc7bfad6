// Strong types that all folders use: time, and the numbers that identify things on the wire and in a group.
// They prevent mistakes, such as comparing a PSN like an integer or passing a rank as a block index. They
// are values only; nothing here allocates, blocks or throws.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace rdmc {

/// A span of time in nanoseconds. It is signed, because differences may be negative.
struct Duration {
  std::int64_t ns = 0;
  friend constexpr auto operator<=>(Duration, Duration) = default;
  friend constexpr Duration operator+(Duration a, Duration b) { return {a.ns + b.ns}; }
  friend constexpr Duration operator-(Duration a, Duration b) { return {a.ns - b.ns}; }
  friend constexpr Duration operator*(Duration a, std::int64_t k) { return {a.ns * k}; }
  friend constexpr Duration operator/(Duration a, std::int64_t k) { return {a.ns / k}; }
  constexpr double seconds() const { return static_cast<double>(ns) * 1e-9; }
  constexpr double microseconds() const { return static_cast<double>(ns) * 1e-3; }
};

constexpr Duration nanoseconds(std::int64_t n) {
  return {n};
}
constexpr Duration microseconds(std::int64_t n) {
  return {n * 1'000};
}
constexpr Duration milliseconds(std::int64_t n) {
  return {n * 1'000'000};
}
constexpr Duration seconds(std::int64_t n) {
  return {n * 1'000'000'000};
}

/// A point on a monotonic clock, in nanoseconds since an origin that only its driver knows. Protocol cores
/// receive the time from their callers and never read a clock.
struct Time {
  std::int64_t ns = 0;
  static constexpr Time never() { return {std::numeric_limits<std::int64_t>::max()}; }
  friend constexpr auto operator<=>(Time, Time) = default;
  friend constexpr Time operator+(Time t, Duration d) { return {t.ns + d.ns}; }
  friend constexpr Time operator-(Time t, Duration d) { return {t.ns - d.ns}; }
  friend constexpr Duration operator-(Time a, Time b) { return {a.ns - b.ns}; }
};

/// A 24-bit packet sequence number with serial arithmetic (IBTA vol. 1, 9.7.2). `a - b` is the signed
/// distance. The distance is correct while the two numbers are less than 2^23 apart.
class Psn {
 public:
  static constexpr std::uint32_t kMask = 0xFF'FFFF;
  constexpr Psn() = default;
  constexpr explicit Psn(std::uint32_t value) : value_(value & kMask) {}
  constexpr std::uint32_t value() const { return value_; }
  constexpr Psn next() const { return Psn(value_ + 1); }
  friend constexpr Psn operator+(Psn p, std::int32_t n) {
    return Psn(p.value_ + static_cast<std::uint32_t>(n));
  }
  friend constexpr Psn operator-(Psn p, std::int32_t n) {
    return Psn(p.value_ - static_cast<std::uint32_t>(n));
  }
  friend constexpr std::int32_t operator-(Psn a, Psn b) {
    return static_cast<std::int32_t>((a.value_ - b.value_) << 8) >> 8;
  }
  friend constexpr bool operator==(Psn, Psn) = default;

 private:
  std::uint32_t value_ = 0;
};

/// A 24-bit queue pair number. The specification reserves 0 and 1 for subnet management and general
/// management.
enum class Qpn : std::uint32_t {};
/// The key that lets a peer write into (or read from) one memory region. It is random, so that it cannot be
/// guessed.
enum class RemoteKey : std::uint32_t {};
/// The operations that a remote key permits, as a set of flags with the names of verbs
/// (IBV_ACCESS_REMOTE_*). `invalidate` lets a peer make the key invalid by a SEND with invalidate.
enum class RemoteAccess : std::uint8_t { none = 0, write = 1, read = 2, atomic = 4, invalidate = 8 };
constexpr RemoteAccess operator|(RemoteAccess a, RemoteAccess b) {
  return static_cast<RemoteAccess>(static_cast<std::uint8_t>(a) | static_cast<std::uint8_t>(b));
}
/// True if `granted` includes all of `needed`.
constexpr bool permits(RemoteAccess granted, RemoteAccess needed) {
  const auto wanted = static_cast<std::uint8_t>(needed);
  return (static_cast<std::uint8_t>(granted) & wanted) == wanted;
}
/// The only connection that may use a remote key. A fabric gives each number to one connection only, and
/// never again. `anyone` means that every connection that knows the key may use it.
enum class KeyHolder : std::uint64_t { anyone = 0 };
/// A member's position in its group's member list, from 0 to members - 1.
enum class Rank : std::uint32_t {};
/// A number that identifies one version of a view, a group or a transfer. A later version has a larger
/// number. Everything that belongs to this version carries the number.
enum class Epoch : std::uint64_t {};

template <typename Enum>
constexpr auto value_of(Enum e) {
  return static_cast<std::underlying_type_t<Enum>>(e);
}

}  // namespace rdmc
