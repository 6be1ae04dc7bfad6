// The commands of lists that wait, and those that do not wait, share these functions.
#pragma once

#include <optional>
#include <string_view>

#include "apps/replicated-kv/commands/collections.hpp"
#include "apps/replicated-kv/data/list.hpp"

namespace rdmc::kv {

/// The words of LMPOP.
struct ListPopOptions {
  Arguments keys;
  List::End end;
  std::size_t count;
};

// Each of these replies with an error if the words are wrong.
/// Reads LEFT or RIGHT.
std::optional<List::End> list_end(Call& call, std::string_view word);
/// Reads the number of keys at the word `at`, and what follows.
std::optional<ListPopOptions> list_pop_options(Call& call, std::size_t at);

/// Removes up to `count` elements from an end, with the reply of LMPOP: the key, and the elements.
void pop_elements(Call& call, std::string_view key, List& list, List::End end, std::size_t count);

/// Moves an element between two lists, which may be the same, and replies with it. Returns false, after a
/// null reply, if there is none.
bool move_element(Call& call, std::string_view from_key, std::string_view to_key, List::End from_end,
                  List::End to_end);

}  // namespace rdmc::kv
