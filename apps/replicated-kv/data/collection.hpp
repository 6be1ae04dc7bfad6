// What lists, hashes, sets and sorted sets have in common. A collection is the value of a key, and is never
// empty there. One thread uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "apps/replicated-kv/data/small_memory.hpp"

namespace rdmc::kv {

/// The numbers are in saved states.
enum class Type : std::uint8_t { string = 0, list = 1, hash = 2, set = 3, sorted_set = 4 };

/// The name of the type in the reply of TYPE.
std::string_view name(Type type);

class Collection {
 public:
  virtual ~Collection() = default;
  Collection(const Collection&) = delete;
  Collection& operator=(const Collection&) = delete;

  virtual Type type() const = 0;
  virtual std::size_t size() const = 0;
  /// The reply of OBJECT ENCODING.
  virtual std::string_view encoding() const = 0;
  virtual std::unique_ptr<Collection> copy() const = 0;
  /// Appends everything that the collection is, also the order in which random choices see its elements.
  virtual void save(std::vector<std::byte>& out) const = 0;

 protected:
  Collection() = default;
};

}  // namespace rdmc::kv
