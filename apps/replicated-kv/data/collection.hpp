// Lists, hashes, sets and sorted sets are collections. A collection is the value of a key, and is never
// empty there. One thread uses it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "apps/replicated-kv/data/small_memory.hpp"
#include "apps/replicated-kv/data/usage.hpp"

namespace rdmc::kv {

/// The numbers are in saved states.
enum class Type : std::uint8_t { string = 0, list = 1, hash = 2, set = 3, sorted_set = 4 };

/// The name of the type in the reply of TYPE.
std::string_view name(Type type);

/// From which sizes on OBJECT ENCODING gives other names, as Redis does. They are those of the server, and
/// may differ between replicas. So nothing else may follow from them.
struct EncodingLimits {
  std::size_t hash_entries = 512, hash_bytes = 64;
  std::size_t sorted_set_entries = 128, sorted_set_bytes = 64;
  std::size_t integers = 512;
};

/// All collections of a state use this object. It exists longer than they do.
struct Shared {
  SmallMemory memory;
  std::uint64_t seed = 0;  ///< for hash tables; it may differ between replicas
  EncodingLimits limits;
  UsageClock usage;
};

class Collection {
 public:
  /// A collection needs these bytes beside its elements.
  static constexpr std::size_t kObjectBytes = 64;

  virtual ~Collection() { shared_->memory.subtract(kObjectBytes); }
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
  explicit Collection(Shared& shared) : shared_(&shared) { shared_->memory.add(kObjectBytes); }
  SmallMemory& memory() const { return shared_->memory; }
  const EncodingLimits& limits() const { return shared_->limits; }

  Shared* const shared_;
};

}  // namespace rdmc::kv
