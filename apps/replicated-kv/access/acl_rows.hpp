// Builds the rows of the table of access control. For acl_rows_of_*.cpp only. The functions are pure.
#pragma once

#include "apps/replicated-kv/access/acl_command.hpp"

namespace rdmc::kv::acl_rows {

using std::uint16_t, std::uint32_t;

/// The keys from the word `first` to `last`, which is relative to `first`, or from the end if it is negative.
constexpr KeySpec range(uint16_t uses, int first, int last, int step = 1) {
  return {.uses = uses,
          .begin = KeySpec::Begin::index,
          .find = KeySpec::Find::range,
          .at = first,
          .last = last,
          .step = step};
}

constexpr KeySpec one(uint16_t uses, int at) {
  return range(uses, at, 0);
}

/// The word `at` is the number of the keys, which follow it.
constexpr KeySpec numbered(uint16_t uses, int at) {
  return {.uses = uses, .begin = KeySpec::Begin::index, .find = KeySpec::Find::number, .at = at};
}

/// The keys follow a keyword, which is searched from the word `from` on.
constexpr KeySpec after(uint16_t uses, std::string_view keyword, int from, int last, int limit = 0) {
  return {.uses = uses,
          .begin = KeySpec::Begin::keyword,
          .find = KeySpec::Find::range,
          .at = from,
          .keyword = keyword,
          .last = last,
          .limit = limit};
}

/// There are keys, but the specification does not say where. key_words() has code for these commands.
constexpr KeySpec somewhere(uint16_t uses) {
  return {.uses = uses};
}

template <typename... Specs>
constexpr AclCommand command(std::string_view name, int arity, uint32_t categories, Specs... specs) {
  return {.name = name, .arity = arity, .categories = categories, .keys = {specs...}};
}

}  // namespace rdmc::kv::acl_rows
