// Collections behave as containers of the standard library do, and are the same after they were saved and
// loaded: also the positions that random choices and scans use.
#include <rapidcheck.h>

#include <boost/test/unit_test.hpp>
#include <deque>
#include <map>
#include <set>

#include "apps/replicated-kv/data/hash.hpp"
#include "apps/replicated-kv/data/list.hpp"
#include "apps/replicated-kv/data/set.hpp"
#include "apps/replicated-kv/data/sorted_set.hpp"
#include "apps/replicated-kv/data/waiters.hpp"

BOOST_AUTO_TEST_SUITE(collections_test)

using namespace rdmc;
using namespace rdmc::kv;

namespace {

std::vector<std::byte> saved(const Collection& collection) {
  std::vector<std::byte> bytes;
  collection.save(bytes);
  return bytes;
}

/// Requires that copies and loaded ones are equal to the collection.
template <typename Kind>
void check_copies(const Kind& collection, Shared& shared) {
  const auto bytes = saved(collection);
  RC_ASSERT(saved(*collection.copy()) == bytes);
  Shared elsewhere;
  elsewhere.seed = shared.seed + 1;
  Kind loaded(elsewhere);
  VarintReader in(bytes);
  RC_ASSERT(loaded.load(in));
  RC_ASSERT(in.is_done());
  RC_ASSERT(saved(loaded) == bytes);
  RC_ASSERT(loaded.encoding() == collection.encoding());
}

/// Few different strings, so that they meet; also numbers, and long ones, which are rare.
std::string any_text() {
  const int kind = *rc::gen::inRange(0, 100);
  if (kind < 50) return std::to_string(*rc::gen::inRange(-300, 300));
  if (kind < 98) return "m" + std::to_string(*rc::gen::inRange(0, 300));
  return std::string(*rc::gen::element<std::size_t>(0, 60, 64, 65, 127, 128, 200, 3000), 'x');
}

/// Makes changes, in phases that mostly insert or mostly remove.
template <typename Insert, typename Remove>
void change(const Insert& insert, const Remove& remove) {
  for (int phase = *rc::gen::inRange(1, 5); phase > 0; --phase) {
    const int inserts = *rc::gen::element(10, 50, 90);
    for (int i = *rc::gen::inRange(0, 400); i > 0; --i)
      if (*rc::gen::inRange(0, 100) < inserts)
        insert();
      else
        remove();
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_list_is_a_sequence) {
  BOOST_TEST(rc::check([] {
    Shared shared;
    List list(shared);
    std::deque<std::string> model;
    const auto index = [&] { return *rc::gen::inRange<std::size_t>(0, model.size()); };
    const auto at = [&](std::size_t place) { return model.begin() + static_cast<std::ptrdiff_t>(place); };
    change(
        [&] {
          const std::string text = any_text();
          switch (*rc::gen::inRange(0, 4)) {
            case 0:
              list.push(List::End::front, text);
              model.push_front(text);
              break;
            case 1:
              list.push(List::End::back, text);
              model.push_back(text);
              break;
            case 2: {
              const std::size_t place = model.empty() ? 0 : index();
              list.insert(list.place_of(place), text);
              model.insert(at(place), text);
              break;
            }
            default:
              if (model.empty()) return;
              const std::size_t place = index();
              list.replace(list.place_of(place), text);
              model[place] = text;
          }
        },
        [&] {
          if (model.empty()) return;
          switch (*rc::gen::inRange(0, 3)) {
            case 0:
              RC_ASSERT(list.pop(List::End::front) == model.front());
              model.pop_front();
              break;
            case 1:
              RC_ASSERT(list.pop(List::End::back) == model.back());
              model.pop_back();
              break;
            default: {
              const std::size_t place = index(),
                                count = std::min(*rc::gen::inRange<std::size_t>(1, 5), model.size() - place);
              const List::Place after = list.erase(list.place_of(place), count);
              model.erase(at(place), at(place + count));
              RC_ASSERT(after == list.place_of(place));
            }
          }
        });
    RC_ASSERT(list.size() == model.size());
    auto expected = model.begin();
    for (List::Place place = list.begin(); place != list.end(); place = list.next(place))
      RC_ASSERT(list.at(place) == *expected++);
    RC_ASSERT(expected == model.end());
    for (List::Place place = list.end(); place != list.begin();)
      RC_ASSERT(list.at(place = list.previous(place)) == *--expected);
    check_copies(list, shared);
  }));
}

BOOST_AUTO_TEST_CASE(a_hash_is_a_map_whose_positions_survive) {
  BOOST_TEST(rc::check([] {
    Shared shared;
    Hash hash(shared);
    std::map<std::string, std::string> model;
    change(
        [&] {
          const std::string name = any_text(), value = any_text();
          RC_ASSERT(hash.set(name, value) == !model.contains(name));
          model[name] = value;
        },
        [&] {
          const std::string name = any_text();
          RC_ASSERT(hash.erase(name) == (model.erase(name) == 1));
        });
    RC_ASSERT(hash.size() == model.size());
    std::size_t position = 0;
    std::set<std::string> names;
    hash.visit([&](const Hash::Field& field) {
      names.emplace(field.name);
      RC_ASSERT(field.value == model.at(std::string(field.name)));
      RC_ASSERT(hash.at(position++).name == field.name);
      RC_ASSERT(hash.find(std::string(field.name)) == field.value);
    });
    RC_ASSERT(names.size() == model.size());
    check_copies(hash, shared);
  }));
}

BOOST_AUTO_TEST_CASE(a_set_is_a_set_whose_positions_survive) {
  BOOST_TEST(rc::check([] {
    Shared shared;
    Set set(shared);
    std::set<std::string> model;
    // A set of integers stays one for a while.
    const bool only_integers = *rc::gen::arbitrary<bool>();
    const auto any = [&] {
      return only_integers ? std::to_string(*rc::gen::arbitrary<std::int64_t>() % 700) : any_text();
    };
    change(
        [&] {
          const std::string member = any();
          RC_ASSERT(set.insert(member) == model.insert(member).second);
        },
        [&] {
          const std::string member = any();
          RC_ASSERT(set.erase(member) == (model.erase(member) == 1));
        });
    RC_ASSERT(set.size() == model.size());
    std::size_t position = 0;
    std::set<std::string> members;
    Set::Digits digits;
    set.visit([&](std::string_view member) {
      members.emplace(member);
      RC_ASSERT(set.contains(std::string(member)));
      RC_ASSERT(set.at(position++, digits) == std::string(member));
      return true;
    });
    RC_ASSERT(members == model);
    check_copies(set, shared);
  }));
}

BOOST_AUTO_TEST_CASE(a_sorted_set_is_sorted_and_knows_ranks) {
  BOOST_TEST(rc::check([] {
    Shared shared;
    SortedSet set(shared);
    std::map<std::string, double> scores;
    std::set<std::pair<double, std::string>> model;
    change(
        [&] {
          const std::string name = any_text();
          const double score = *rc::gen::inRange(-20, 20) / 4.0;
          const auto known = scores.find(name);
          RC_ASSERT(set.set(name, score) == (known == scores.end()));
          if (known != scores.end()) model.erase({known->second, name});
          scores[name] = score;
          model.emplace(score, name);
        },
        [&] {
          const std::string name = any_text();
          const auto known = scores.find(name);
          RC_ASSERT(set.erase(name) == (known != scores.end()));
          if (known == scores.end()) return;
          model.erase({known->second, name});
          scores.erase(known);
        });
    RC_ASSERT(set.size() == model.size());
    std::size_t rank = 0;
    for (const auto& [score, name] : model) {
      RC_ASSERT(set.at(rank).name == name);
      RC_ASSERT(set.score(name) == std::optional(score));
      RC_ASSERT(set.rank(name) == std::optional(rank));
      ++rank;
    }
    auto backward = model.rbegin();
    if (!model.empty())
      set.visit(model.size() - 1, model.size(), true, [&](const auto& member) {
        RC_ASSERT(member.name == backward->second);
        ++backward;
      });
    const double bound = *rc::gen::inRange(-20, 20) / 4.0;
    RC_ASSERT(set.count_before([&](const auto& member) { return member.score < bound; }) ==
              static_cast<std::size_t>(std::distance(model.begin(), model.lower_bound({bound, ""}))));
    check_copies(set, shared);
  }));
}

BOOST_AUTO_TEST_CASE(nothing_is_left_in_memory) {
  Shared shared;
  for (int i = 0; i < 2; ++i) {
    List list(shared);
    Hash hash(shared);
    Set set(shared);
    SortedSet sorted(shared);
    for (int number = 0; number < 1000; ++number) {
      const std::string text = (i == 0 ? "" : "m") + std::to_string(number);
      list.push(number % 2 == 0 ? List::End::front : List::End::back, text);
      hash.set(text, text);
      set.insert(text);
      sorted.set(text, number % 7);
    }
    BOOST_TEST(shared.memory.used() > 0u);
  }
  BOOST_TEST(shared.memory.used() == 0u);
}

BOOST_AUTO_TEST_CASE(waiters_are_served_in_their_order_also_after_they_were_loaded) {
  Waiters waiters;
  const auto wait = [&](std::uint64_t server, std::uint64_t number, std::vector<std::string> keys) {
    waiters.add({.client = {server, number}, .database = 0, .words = {"blpop"}, .keys = std::move(keys)});
  };
  wait(2, 1, {"a", "b", "a"});
  wait(1, 1, {"a"});
  wait(1, 2, {"b"});
  const auto clients = [](Waiters& all, const std::string& key) {
    std::vector<ClientId> found;
    for (const auto number : all.waiting_for({0, key})) found.push_back(all.find(number)->client);
    return found;
  };
  std::vector<std::byte> bytes;
  waiters.save(bytes);
  Waiters loaded;
  VarintReader in(bytes);
  loaded.load(in);
  BOOST_TEST(in.is_done());
  for (Waiters* const all : {&waiters, &loaded}) {
    BOOST_TEST((clients(*all, "a") == std::vector<ClientId>{{2, 1}, {1, 1}}));
    BOOST_TEST((clients(*all, "b") == std::vector<ClientId>{{2, 1}, {1, 2}}));
    all->changed(0, "b");
    all->changed(0, "c");
    all->changed(1, "a");
    all->changed(0, "a");
    all->changed(0, "b");
    BOOST_TEST(all->take_ready()->name == "b");
    BOOST_TEST(all->take_ready()->name == "a");
    BOOST_TEST(!all->take_ready());
    BOOST_TEST(all->forget({2, 1}));
    BOOST_TEST(!all->forget({2, 1}));
    BOOST_TEST((clients(*all, "b") == std::vector<ClientId>{{1, 2}}));
    all->forget_server(1);
    BOOST_TEST(all->is_empty());
  }
}

BOOST_AUTO_TEST_SUITE_END()
