#include <algorithm>
#include <tuple>

#include "lib/replica/collectives.hpp"
#include "lib/replica/scratch.hpp"

namespace rdmc::replica::collectives {

Result<std::uint64_t> agree_on_maximum(Exchange& exchange, std::uint64_t value) {
  const auto done = all_reduce(exchange, std::as_writable_bytes(std::span(&value, 1)), sizeof(value),
                               combine_of<std::uint64_t>(Operation::maximum));
  if (!done) return std::unexpected(done.error());
  return value;
}

Result<std::vector<int>> split_members(Exchange& exchange, std::optional<int> color, int key) {
  struct Choice {
    std::int32_t has_color;
    std::int32_t color;
    std::int32_t key;
  };
  const Choice own{color.has_value() ? 1 : 0, color.value_or(0), key};
  const auto size = static_cast<std::size_t>(exchange.size());
  Scratch scratch;
  const auto memory = scratch.reserve(size * sizeof(Choice));
  if (!memory) return std::unexpected(memory.error());
  if (auto done = all_gather(exchange, std::as_bytes(std::span(&own, 1)), *memory); !done)
    return std::unexpected(done.error());

  const std::span choices(reinterpret_cast<const Choice*>(memory->data()), size);
  std::vector<int> members;
  if (!color) return members;
  for (int rank = 0; rank < exchange.size(); ++rank)
    if (choices[rank].has_color != 0 && choices[rank].color == *color) members.push_back(rank);
  std::ranges::sort(members, {}, [&](int rank) { return std::tuple(choices[rank].key, rank); });
  return members;
}

}  // namespace rdmc::replica::collectives
