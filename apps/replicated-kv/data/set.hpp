// A set. A small set of integers is a sorted array of them. Another small set is one block of packed strings,
// where the members keep the order in which they came. A large set is a dictionary. A set never goes back to
// an earlier form. Members have positions, which follow only from the sequence of changes. One thread uses
// it.
#pragma once

#include <array>
#include <charconv>
#include <memory>
#include <string_view>

#include "apps/replicated-kv/data/collection.hpp"
#include "apps/replicated-kv/data/dictionary.hpp"
#include "apps/replicated-kv/data/integers.hpp"
#include "apps/replicated-kv/data/numbers.hpp"
#include "apps/replicated-kv/data/packed.hpp"
#include "dataplane/base/varint.hpp"

namespace rdmc::kv {

class Set final : public Collection {
 public:
  static constexpr Type kType = Type::set;
  /// A set with more members, or with a longer member, is a dictionary.
  static constexpr std::size_t kMostIntegers = 512, kMostPacked = 128, kMostPackedBytes = 64;
  /// Memory for the text of an integer.
  using Digits = std::array<char, 24>;

  explicit Set(Shared& shared) : Collection(shared) {}
  ~Set() override;

  Type type() const override { return kType; }
  std::size_t size() const override;
  std::string_view encoding() const override { return is_large_ ? "hashtable" : "intset"; }
  std::unique_ptr<Collection> copy() const override;
  void save(std::vector<std::byte>& out) const override;
  /// Reads what save() has written into an empty set. Returns false if it is wrong.
  bool load(VarintReader& in);

  bool contains(std::string_view member) const;
  /// Returns false if the set has the member already. `member` must not be a part of the set, also below.
  bool insert(std::string_view member);
  /// Returns false if there is no such member.
  bool erase(std::string_view member);
  /// The member at a position below size(). It is valid until the next change, and as long as `digits`.
  std::string_view at(std::size_t position, Digits& digits) const;
  /// False if the set is small, so that scans give all members at once.
  bool has_positions() const { return form_ == Form::dictionary; }
  /// Calls `visitor(std::string_view)` for each member, by position, until it returns false.
  template <typename Visitor>
  void visit(const Visitor& visitor) const {
    Digits digits;
    if (form_ == Form::packed) {
      for (std::size_t at = 0; at < packed_.end(); at = packed_.next(at))
        if (!visitor(packed_.at(at))) return;
    } else {
      for (std::size_t i = 0; i < size(); ++i)
        if (!visitor(at(i, digits))) return;
    }
  }

 private:
  enum class Form : std::uint8_t { integers = 0, packed = 1, dictionary = 2 };
  struct Nothing {};

  std::size_t offset_of(std::string_view member) const;
  void become(Form form);

  Form form_ = Form::integers;
  bool is_large_ = false;  // for encoding()
  Integers integers_;
  Packed packed_;
  std::unique_ptr<Dictionary<Nothing>> members_;
};

}  // namespace rdmc::kv
