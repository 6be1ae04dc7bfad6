// HyperLogLog: about how many different elements were added (Flajolet et al., AofA 2007; the estimate is that
// of Ertl, "New cardinality estimation algorithms for HyperLogLog sketches", arXiv:1702.01284). A sketch is a
// string of the form of Redis 7.0, dense or sparse, so that both give the same counts. The functions are
// pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rdmc::kv {

class HyperLogLog {
 public:
  static constexpr std::size_t kRegisters = 16384;

  /// Reads a sketch. Returns nullopt if the string has the wrong form.
  static std::optional<HyperLogLog> read(std::string_view sketch);
  /// Returns true if a string begins as sketches do, so that only its contents can be wrong.
  static bool has_head(std::string_view sketch);
  /// The sketch. It is sparse if it was sparse, and if it takes no more than `most_sparse` bytes.
  std::string write(std::size_t most_sparse) const;

  /// The effect of an element: it makes a register at least this large.
  struct Mark {
    std::size_t index;
    std::uint8_t rank;
  };
  static Mark mark_of(std::string_view element);
  /// A register of a sketch with the right head, or nullopt if its contents are wrong.
  static std::optional<std::uint8_t> register_in(std::string_view sketch, std::size_t index);
  static bool is_dense(std::string_view sketch);
  /// Sets a register of a dense sketch.
  static void set_register(char* sketch, const Mark& mark);

  void add(const Mark& mark);
  void merge(const HyperLogLog& other);
  std::uint64_t count() const;

 private:
  std::optional<std::string> write_sparse(std::size_t most) const;

  std::array<std::uint8_t, kRegisters> registers_{};
  bool is_dense_ = false;
};

}  // namespace rdmc::kv
