#include "lib/replica/match_queue.hpp"

#include <rapidcheck.h>
#include <boost/test/unit_test.hpp>
#include <deque>

BOOST_AUTO_TEST_SUITE(match_queue_test)

using rdmc::replica::MatchQueue;

namespace {

constexpr std::uint32_t kSources = 4;

/// The rules of matching, in the simplest form: two lists in the order of arrival, searched from the front.
class PlainQueue {
 public:
  std::optional<std::uint32_t> post(std::uint32_t receive, std::int32_t source, std::int32_t tag) {
    for (auto it = messages_.begin(); it != messages_.end(); ++it) {
      if (!fits(source, it->source) || !fits(tag, it->tag)) continue;
      const auto item = it->item;
      messages_.erase(it);
      return item;
    }
    receives_.push_back({receive, source, tag});
    return std::nullopt;
  }
  std::optional<std::uint32_t> arrive(std::uint32_t message, std::int32_t source, std::int32_t tag) {
    for (auto it = receives_.begin(); it != receives_.end(); ++it) {
      if (!fits(it->source, source) || !fits(it->tag, tag)) continue;
      const auto item = it->item;
      receives_.erase(it);
      return item;
    }
    messages_.push_back({message, source, tag});
    return std::nullopt;
  }
  std::optional<std::uint32_t> find(std::int32_t source, std::int32_t tag) const {
    for (const auto& message : messages_)
      if (fits(source, message.source) && fits(tag, message.tag)) return message.item;
    return std::nullopt;
  }
  bool cancel(std::uint32_t receive) {
    return std::erase_if(receives_, [&](const Entry& entry) { return entry.item == receive; }) != 0;
  }
  std::size_t messages() const { return messages_.size(); }
  std::size_t receives() const { return receives_.size(); }

 private:
  struct Entry {
    std::uint32_t item;
    std::int32_t source, tag;
  };
  static bool fits(std::int32_t wanted, std::int32_t is) {
    return wanted == MatchQueue::kAny || wanted == is;
  }
  std::deque<Entry> messages_, receives_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(it_matches_as_two_plain_lists_do) {
  BOOST_TEST(rc::check([] {
    MatchQueue queue(kSources);
    PlainQueue plain;
    std::vector<std::pair<std::uint32_t, std::int32_t>> posted;
    const auto steps = *rc::gen::inRange(0, 300);
    for (int i = 0; i < steps; ++i) {
      const auto item = static_cast<std::uint32_t>(i);
      const auto any_source = *rc::gen::inRange(-1, static_cast<int>(kSources));
      const auto any_tag = *rc::gen::inRange(-1, 3);
      switch (*rc::gen::weightedElement<int>({{4, 0}, {4, 1}, {1, 2}, {1, 3}})) {
        case 0:
          posted.emplace_back(item, any_source);
          RC_ASSERT((queue.post(item, any_source, any_tag) == plain.post(item, any_source, any_tag)));
          break;
        case 1: {
          const int source = std::max(any_source, 0), tag = std::max(any_tag, 0);
          RC_ASSERT((queue.arrive(item, static_cast<std::uint32_t>(source), tag) ==
                     plain.arrive(item, source, tag)));
          break;
        }
        case 2: RC_ASSERT((queue.find(any_source, any_tag) == plain.find(any_source, any_tag))); break;
        default:
          if (posted.empty()) break;
          const auto [receive, source] = *rc::gen::elementOf(posted);
          RC_ASSERT(queue.cancel(receive, source) == plain.cancel(receive));
      }
      RC_ASSERT(queue.messages() == plain.messages());
      RC_ASSERT(queue.receives() == plain.receives());
    }
  }));
}

BOOST_AUTO_TEST_SUITE_END()
