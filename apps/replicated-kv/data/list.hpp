// A list: chunks of packed strings. An end of the list is reached in a constant time, and an index in a time
// in proportion to the number of chunks. One thread uses it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "apps/replicated-kv/data/collection.hpp"
#include "apps/replicated-kv/data/packed.hpp"
#include "dataplane/base/varint.hpp"

namespace rdmc::kv {

class List final : public Collection {
 public:
  static constexpr Type kType = Type::list;
  /// A chunk with more than one element has at most this number of bytes.
  static constexpr std::size_t kChunkBytes = 2048;
  enum class End : std::uint8_t { front, back };

  /// A place in the list. Changes make it invalid, unless they return it.
  struct Place {
    std::size_t chunk, offset;
    friend bool operator==(const Place&, const Place&) = default;
  };

  explicit List(Shared& shared) : Collection(shared) {}
  ~List() override;

  Type type() const override { return kType; }
  std::size_t size() const override { return size_; }
  std::string_view encoding() const override { return "quicklist"; }
  std::unique_ptr<Collection> copy() const override;
  void save(std::vector<std::byte>& out) const override;
  /// Reads what save() has written into an empty list. Returns false if it is wrong.
  bool load(VarintReader& in);

  /// `bytes` must not be a part of the list, also below.
  void push(End end, std::string_view bytes);
  std::string pop(End end);

  /// The place of an index from 0 to size().
  Place place_of(std::size_t index) const;
  Place begin() const { return {first_, 0}; }
  Place end() const { return {chunks_.size(), 0}; }
  Place next(const Place& place) const;
  /// `place` must not be begin().
  Place previous(const Place& place) const;
  std::string_view at(const Place& place) const { return chunks_[place.chunk].at(place.offset); }

  /// Inserts before a place.
  void insert(const Place& place, std::string_view bytes);
  void replace(const Place& place, std::string_view bytes);
  /// Removes up to `count` elements from a place on. Returns the place of the element after them.
  Place erase(const Place& place, std::size_t count = 1);

 private:
  void add_chunk(std::size_t at);
  void remove_chunk(std::size_t at);
  bool has_room(std::size_t chunk, std::string_view bytes) const;
  /// Moves the elements from a place on to a new chunk.
  void split(const Place& place);

  std::vector<Packed> chunks_;  // the ones before first_ are empty; the others are not
  std::size_t first_ = 0, size_ = 0;
};

}  // namespace rdmc::kv
