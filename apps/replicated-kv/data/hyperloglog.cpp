#include "apps/replicated-kv/data/hyperloglog.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace rdmc::kv {

namespace {

constexpr unsigned kIndexBits = 14, kRankBits = 64 - kIndexBits, kRegisterBits = 6;
constexpr std::size_t kHeadBytes = 16, kEncodingByte = 4;
constexpr char kDense = 0, kSparse = 1;
constexpr std::size_t kDenseBytes = kHeadBytes + (HyperLogLog::kRegisters * kRegisterBits + 7) / 8;
/// The head: the magic word, the encoding, and a cached count, which is always marked as unknown.
constexpr std::string_view kMagic = "HYLL";
// Runs of registers in the sparse form.
constexpr std::size_t kMostZeros = 64, kMostLongZeros = 16384, kMostEqual = 4;
constexpr std::uint8_t kMostSparseValue = 32;

/// MurmurHash64A of Austin Appleby, with the seed of Redis.
std::uint64_t murmur_hash(std::string_view bytes) {
  constexpr std::uint64_t kMultiplier = 0xc6a4a7935bd1e995, kSeed = 0xadc83b19;
  constexpr int kShift = 47;
  std::uint64_t hash = kSeed ^ (bytes.size() * kMultiplier);
  while (bytes.size() >= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), 8);
    word *= kMultiplier;
    word ^= word >> kShift;
    hash = (hash ^ (word * kMultiplier)) * kMultiplier;
    bytes.remove_prefix(8);
  }
  if (!bytes.empty()) {
    for (std::size_t i = 0; i < bytes.size(); ++i)
      hash ^= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    hash *= kMultiplier;
  }
  hash ^= hash >> kShift;
  hash *= kMultiplier;
  return hash ^ (hash >> kShift);
}

std::string head(char encoding) {
  std::string sketch(kHeadBytes, '\0');
  std::ranges::copy(kMagic, sketch.begin());
  sketch[kEncodingByte] = encoding;
  sketch[kHeadBytes - 1] = '\x80';
  return sketch;
}

double sigma(double x) {
  if (x == 1.0) return INFINITY;
  double before = 0, y = 1, z = x;
  do {
    x *= x;
    before = z;
    z += x * y;
    y += y;
  } while (before != z);
  return z;
}

double tau(double x) {
  if (x == 0.0 || x == 1.0) return 0;
  double before = 0, y = 1, z = 1 - x;
  do {
    x = std::sqrt(x);
    before = z;
    y *= 0.5;
    z -= (1 - x) * (1 - x) * y;
  } while (before != z);
  return z / 3;
}

unsigned byte_at(std::string_view body, std::size_t at) {
  return at < body.size() ? static_cast<unsigned char>(body[at]) : 0;
}

constexpr unsigned kRegisterMask = (1U << kRegisterBits) - 1;

std::uint8_t dense_register(std::string_view body, std::size_t index) {
  const std::size_t bit = index * kRegisterBits;
  const unsigned both = byte_at(body, bit / 8) | byte_at(body, bit / 8 + 1) << 8;
  return static_cast<std::uint8_t>(both >> (bit % 8) & kRegisterMask);
}

/// Calls `visitor(first, run, value)` for each run of equal registers of a sparse sketch. Returns false if
/// the runs are not those of all registers.
template <typename Visitor>
bool visit_runs(std::string_view body, const Visitor& visitor) {
  std::size_t index = 0;
  for (std::size_t at = 0; at < body.size(); ++at) {
    const unsigned byte = byte_at(body, at);
    std::size_t run = 0;
    unsigned value = 0;
    if ((byte & 0x80) != 0) {
      value = (byte >> 2 & 0x1F) + 1;
      run = (byte & 3) + 1;
    } else if ((byte & 0x40) != 0) {
      run = ((byte & 0x3F) << 8 | byte_at(body, ++at)) + 1;
    } else {
      run = (byte & 0x3F) + 1;
    }
    if (run > HyperLogLog::kRegisters - index) return false;
    visitor(index, run, static_cast<std::uint8_t>(value));
    index += run;
  }
  return index == HyperLogLog::kRegisters;
}

}  // namespace

bool HyperLogLog::has_head(std::string_view sketch) {
  return sketch.size() >= kHeadBytes && sketch.starts_with(kMagic) &&
         (sketch[kEncodingByte] == kSparse ||
          (sketch[kEncodingByte] == kDense && sketch.size() == kDenseBytes));
}

std::optional<HyperLogLog> HyperLogLog::read(std::string_view sketch) {
  if (!has_head(sketch)) return std::nullopt;
  HyperLogLog result;
  result.is_dense_ = sketch[kEncodingByte] == kDense;
  const std::string_view body = sketch.substr(kHeadBytes);
  if (result.is_dense_) {
    for (std::size_t i = 0; i < kRegisters; ++i) result.registers_[i] = dense_register(body, i);
    return result;
  }
  const bool is_good = visit_runs(body, [&](std::size_t first, std::size_t run, std::uint8_t value) {
    std::fill_n(result.registers_.begin() + static_cast<std::ptrdiff_t>(first), run, value);
  });
  return is_good ? std::optional(result) : std::nullopt;
}

bool HyperLogLog::is_dense(std::string_view sketch) {
  return sketch[kEncodingByte] == kDense;
}

std::optional<std::uint8_t> HyperLogLog::register_in(std::string_view sketch, std::size_t index) {
  const std::string_view body = sketch.substr(kHeadBytes);
  if (is_dense(sketch)) return dense_register(body, index);
  std::uint8_t found = 0;
  const bool is_good = visit_runs(body, [&](std::size_t first, std::size_t run, std::uint8_t value) {
    if (index >= first && index < first + run) found = value;
  });
  return is_good ? std::optional(found) : std::nullopt;
}

void HyperLogLog::set_register(char* sketch, const Mark& mark) {
  const std::size_t bit = mark.index * kRegisterBits, at = kHeadBytes + bit / 8;
  const unsigned mask = kRegisterMask << (bit % 8), value = static_cast<unsigned>(mark.rank) << (bit % 8);
  sketch[at] = static_cast<char>((static_cast<unsigned char>(sketch[at]) & ~mask) | value);
  // The second byte may be behind the end only if no bit of the register is in it.
  if (mask > 0xFF)
    sketch[at + 1] =
        static_cast<char>((static_cast<unsigned char>(sketch[at + 1]) & ~(mask >> 8)) | value >> 8);
}

std::optional<std::string> HyperLogLog::write_sparse(std::size_t most) const {
  std::string sketch = head(kSparse);
  for (std::size_t i = 0; i < kRegisters && sketch.size() <= most;) {
    const std::uint8_t value = registers_[i];
    if (value > kMostSparseValue) return std::nullopt;
    const std::size_t longest = value == 0 ? kMostLongZeros : kMostEqual;
    std::size_t run = 1;
    while (run < longest && i + run < kRegisters && registers_[i + run] == value) ++run;
    i += run;
    if (value != 0) {
      sketch.push_back(static_cast<char>(0x80 | (value - 1) << 2 | (run - 1)));
    } else if (run <= kMostZeros) {
      sketch.push_back(static_cast<char>(run - 1));
    } else {
      sketch.push_back(static_cast<char>(0x40 | (run - 1) >> 8));
      sketch.push_back(static_cast<char>((run - 1) & 0xFF));
    }
  }
  return sketch.size() <= most ? std::optional(sketch) : std::nullopt;
}

std::string HyperLogLog::write(std::size_t most_sparse) const {
  if (!is_dense_)
    if (auto sparse = write_sparse(most_sparse + kHeadBytes)) return *sparse;
  std::string sketch = head(kDense);
  sketch.resize(kDenseBytes);
  for (std::size_t i = 0; i < kRegisters; ++i) set_register(sketch.data(), {i, registers_[i]});
  return sketch;
}

HyperLogLog::Mark HyperLogLog::mark_of(std::string_view element) {
  const std::uint64_t hash = murmur_hash(element);
  const std::uint64_t rest = hash >> kIndexBits | std::uint64_t{1} << kRankBits;
  return {hash & (kRegisters - 1), static_cast<std::uint8_t>(std::countr_zero(rest) + 1)};
}

void HyperLogLog::add(const Mark& mark) {
  registers_[mark.index] = std::max(registers_[mark.index], mark.rank);
}

void HyperLogLog::merge(const HyperLogLog& other) {
  for (std::size_t i = 0; i < kRegisters; ++i) registers_[i] = std::max(registers_[i], other.registers_[i]);
  is_dense_ = is_dense_ || other.is_dense_;
}

std::uint64_t HyperLogLog::count() const {
  constexpr double kCount = kRegisters;
  std::array<int, 64> histogram{};
  for (const std::uint8_t value : registers_) ++histogram[value];
  double z = kCount * tau((kCount - histogram[kRankBits + 1]) / kCount);
  for (std::size_t i = kRankBits; i >= 1; --i) z = (z + histogram[i]) * 0.5;
  z += kCount * sigma(histogram[0] / kCount);
  constexpr double kAlphaInfinity = 0.721347520444481703680;
  return static_cast<std::uint64_t>(std::llroundl(kAlphaInfinity * kCount * kCount / z));
}

}  // namespace rdmc::kv
