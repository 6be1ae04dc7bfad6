// Strong types shared by every room: time, byte counts, and the numbers that name things on the wire and in a
// group. They exist so that a PSN is never compared like an integer and a rank never passed as a block index.
// Values only; nothing here allocates, blocks or throws.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace rdmc {

/// A span of time in nanoseconds. Signed: differences may be negative.
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
/// are handed the time; they never read a clock.
struct Time {
  std::int64_t ns = 0;
  static constexpr Time never() { return {std::numeric_limits<std::int64_t>::max()}; }
  friend constexpr auto operator<=>(Time, Time) = default;
  friend constexpr Time operator+(Time t, Duration d) { return {t.ns + d.ns}; }
  friend constexpr Time operator-(Time t, Duration d) { return {t.ns - d.ns}; }
  friend constexpr Duration operator-(Time a, Time b) { return {a.ns - b.ns}; }
};

/// A 24-bit packet sequence number with serial arithmetic (IBTA vol. 1, 9.7.2). `a - b` is the signed
/// distance, right while the two are less than 2^23 apart.
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

/// A 24-bit queue pair number. 0 and 1 are reserved by the specification (subnet and general management).
enum class Qpn : std::uint32_t {};
/// The key that lets a peer write into (or read from) one memory region; random, so that it can't be guessed.
enum class RemoteKey : std::uint32_t {};
/// What a remote key permits, named as in verbs (IBV_ACCESS_REMOTE_*); a set of flags. `invalidate`: a peer's
/// SEND with invalidate may take the key out of use.
enum class RemoteAccess : std::uint8_t { none = 0, write = 1, read = 2, atomic = 4, invalidate = 8 };
constexpr RemoteAccess operator|(RemoteAccess a, RemoteAccess b) {
  return static_cast<RemoteAccess>(static_cast<std::uint8_t>(a) | static_cast<std::uint8_t>(b));
}
/// Whether `granted` includes all of `needed`.
constexpr bool permits(RemoteAccess granted, RemoteAccess needed) {
  const auto wanted = static_cast<std::uint8_t>(needed);
  return (static_cast<std::uint8_t>(granted) & wanted) == wanted;
}
/// The connection that alone may use a remote key; its fabric never gives the number to another one.
/// `anyone`: every connection may that knows the key.
enum class KeyHolder : std::uint64_t { anyone = 0 };
/// A member's position in its group's member list, 0 … members-1.
enum class Rank : std::uint32_t {};
/// The number of a view. Everything that belongs to one membership carries it; it only grows.
enum class Epoch : std::uint64_t {};

template <typename Enum>
constexpr auto value_of(Enum e) {
  return static_cast<std::underlying_type_t<Enum>>(e);
}

}  // namespace rdmc
