// One bit for each packet of a sliding window of kWindowPackets packets, addressed by sequence number. A bit
// records for example that a packet has arrived, or that it is lost. A bit does not move while the window
// slides. The owner must clear the bits of the packets that leave the window.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "dataplane/roce/constants.hpp"
#include "dataplane/roce/sequence.hpp"

namespace rdmc::roce {

class BitWindow {
 public:
  bool test(Sequence s) const { return (words_[word(s)] >> (s & 63) & 1) != 0; }
  void set(Sequence s) { words_[word(s)] |= bit(s); }
  void clear(Sequence s) { words_[word(s)] &= ~bit(s); }

  /// Returns the bits s … s+31. The bit of s is the least significant one.
  std::uint32_t word32(Sequence s) const {
    const auto shift = static_cast<unsigned>(s & 63);
    std::uint64_t bits = words_[word(s)] >> shift;
    if (shift > 32) bits |= words_[word(s + 63)] << (64 - shift);
    return static_cast<std::uint32_t>(bits);
  }

  /// Returns the number of the first set bit at or after `from`. Precondition: at least one bit is set in the
  /// window that starts at `from`.
  Sequence first_set(Sequence from) const {
    std::uint64_t bits = words_[word(from)] >> (from & 63);
    while (bits == 0) {
      from = (from | 63) + 1;
      bits = words_[word(from)];
    }
    return from + std::countr_zero(bits);
  }

 private:
  static constexpr std::size_t kWords = kWindowPackets / 64;
  static_assert(std::has_single_bit(kWords));
  static std::size_t word(Sequence s) { return static_cast<std::size_t>(s >> 6) & (kWords - 1); }
  static std::uint64_t bit(Sequence s) { return std::uint64_t{1} << (s & 63); }

  std::array<std::uint64_t, kWords> words_{};
};

}  // namespace rdmc::roce
