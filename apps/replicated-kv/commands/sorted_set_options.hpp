// Several files of commands of sorted sets share these functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "apps/replicated-kv/commands/collections.hpp"
#include "apps/replicated-kv/data/sorted_set.hpp"

namespace rdmc::kv {

enum class SortedSetEnd : std::uint8_t { least, greatest };

/// The words of ZMPOP.
struct SortedSetPopOptions {
  Arguments keys;
  SortedSetEnd end;
  std::size_t count;
};
/// Reads the number of keys at the word `at`, and what follows. Replies with an error if the words are wrong.
std::optional<SortedSetPopOptions> sorted_set_pop_options(Call& call, std::size_t at);

/// Removes up to `count` members from an end, and calls `visitor(Member)` for each of them.
template <typename Visitor>
void pop_members(Call& call, std::string_view key, SortedSet& set, SortedSetEnd end, std::size_t count,
                 const Visitor& visitor) {
  for (count = std::min(count, set.size()); count > 0; --count) {
    const SortedSet::Member member = set.at(end == SortedSetEnd::least ? 0 : set.size() - 1);
    const std::string name(member.name);
    visitor(SortedSet::Member{member.score, name});
    set.erase(name);
  }
  finish_change(call, key);
}

/// The same, with the reply of ZMPOP: the key, and pairs of members and scores.
void pop_members_reply(Call& call, std::string_view key, SortedSet& set, SortedSetEnd end, std::size_t count);

/// Replies with pairs of members and scores. In RESP2 they are in one array.
class MemberReply {
 public:
  MemberReply(Call& call, std::size_t count, bool has_scores) : reply_(call.reply), has_scores_(has_scores) {
    reply_.array(has_scores && !reply_.is_resp3() ? 2 * count : count);
  }
  void operator()(const SortedSet::Member& member) const {
    if (has_scores_ && reply_.is_resp3()) reply_.array(2);
    reply_.bulk(member.name);
    if (has_scores_) reply_.real(member.score);
  }

 private:
  ReplyWriter& reply_;
  bool has_scores_;
};

}  // namespace rdmc::kv
