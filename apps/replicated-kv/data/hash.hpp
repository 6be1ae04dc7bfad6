// A hash: fields with values. A small hash is one block of packed strings, where the fields keep the order in
// which they came. A large hash is a dictionary, and never becomes small again. Fields have positions, which
// follow only from the sequence of changes. One thread uses it.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "apps/replicated-kv/data/collection.hpp"
#include "apps/replicated-kv/data/dictionary.hpp"
#include "apps/replicated-kv/data/packed.hpp"
#include "apps/replicated-kv/data/text.hpp"
#include "dataplane/base/varint.hpp"

namespace rdmc::kv {

class Hash final : public Collection {
 public:
  static constexpr Type kType = Type::hash;
  /// A hash with more fields, or with a longer field or value, is a dictionary.
  static constexpr std::size_t kMostPacked = 512, kMostPackedBytes = 64;

  struct Field {
    std::string_view name, value;
  };

  explicit Hash(Shared& shared) : Collection(shared) {}
  ~Hash() override { packed_.clear(memory()); }

  Type type() const override { return kType; }
  std::size_t size() const override { return fields_ ? fields_->size() : packed_.count() / 2; }
  std::string_view encoding() const override { return is_large_ ? "hashtable" : "listpack"; }
  std::unique_ptr<Collection> copy() const override;
  void save(std::vector<std::byte>& out) const override;
  /// Reads what save() has written into an empty hash. Returns false if it is wrong.
  bool load(VarintReader& in);

  // Results are valid until the next change. Arguments must not be parts of the hash.
  std::optional<std::string_view> find(std::string_view name) const;
  /// Returns true if the field is new.
  bool set(std::string_view name, std::string_view value);
  /// Returns false if there is no such field.
  bool erase(std::string_view name);
  /// The field at a position below size(). The time is constant if has_positions().
  Field at(std::size_t position) const;
  /// False if the hash is small, so that scans give all fields at once.
  bool has_positions() const { return fields_ != nullptr; }
  /// Calls `visitor(Field)` for each field, by position.
  template <typename Visitor>
  void visit(const Visitor& visitor) const {
    if (fields_)
      for (std::size_t i = 0; i < fields_->size(); ++i)
        visitor(Field{fields_->at(i).key(), fields_->at(i).value});
    else
      for (std::size_t at = 0; at < packed_.end();) {
        const std::size_t value = packed_.next(at);
        visitor(Field{packed_.at(at), packed_.at(value)});
        at = packed_.next(value);
      }
  }

 private:
  std::size_t offset_of(std::string_view name) const;
  void grow();

  Packed packed_;  // names and values in turn
  std::unique_ptr<Dictionary<Text>> fields_;
  bool is_large_ = false;  // for encoding()
};

}  // namespace rdmc::kv
