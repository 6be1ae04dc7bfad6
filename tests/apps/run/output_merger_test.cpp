#include "apps/run/output_merger.hpp"

#include <rapidcheck.h>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <set>

BOOST_AUTO_TEST_SUITE(output_merger_test)

using namespace rdmc::run;

namespace {

/// Limits that are so small that short texts exceed all of them.
constexpr OutputMerger::Limits kTiny{
    .part_bytes = 5, .kept_bytes = 7, .held_bytes = 4, .digest_bytes = 6, .digests = 3};

std::string text_of(const std::vector<OutputPart>& parts) {
  std::string text;
  for (const OutputPart& part : parts) text += part.text + (part.ends_line ? "\n" : "");
  return text;
}

/// Text with many newlines, some of them in a row, and some long lines.
std::string any_text() {
  return *rc::gen::container<std::string>(rc::gen::elementOf(std::string("aaaabbc\n\n")));
}

std::size_t any_length(std::size_t most) {
  return *rc::gen::inRange<std::size_t>(0, most + 1);
}

/// Replicas that each write a part of their text at a time, in a random order.
class Writers {
 public:
  Writers(std::vector<std::string> texts, std::vector<bool> complete, const OutputMerger::Limits& limits)
      : merger(static_cast<std::uint32_t>(texts.size()), limits),
        texts_(std::move(texts)),
        complete_(std::move(complete)),
        at_(texts_.size()),
        closed_(texts_.size()) {}

  /// Lets one replica write some bytes, or close if it has written everything. Returns false when all are
  /// closed.
  bool step() {
    std::vector<std::uint32_t> open;
    for (std::uint32_t i = 0; i < texts_.size(); ++i)
      if (!closed_[i] && merger.wants(i)) open.push_back(i);
    if (open.empty()) return false;
    const std::uint32_t one = *rc::gen::elementOf(open);
    const std::size_t left = texts_[one].size() - at_[one];
    if (left == 0) {
      merger.close(one, complete_[one]);
      closed_[one] = true;
    } else {
      const std::size_t bytes = *rc::gen::inRange<std::size_t>(1, std::min<std::size_t>(left, 12) + 1);
      merger.write(one, std::string_view(texts_[one]).substr(at_[one], bytes));
      at_[one] += bytes;
    }
    printed += text_of(merger.take_parts());
    for (Difference& difference : merger.take_differences()) differences.push_back(std::move(difference));
    return true;
  }
  std::size_t furthest() const { return *std::ranges::max_element(at_); }
  bool all_closed() const { return std::ranges::all_of(closed_, std::identity()); }

  OutputMerger merger;
  std::string printed;
  std::vector<Difference> differences;

 private:
  std::vector<std::string> texts_;
  std::vector<bool> complete_;
  std::vector<std::size_t> at_;
  std::vector<char> closed_;
};

std::uint64_t line_at(const std::string& text, std::size_t at) {
  return 1 + static_cast<std::uint64_t>(
                 std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_byte_is_printed_once_although_replicas_die_at_any_byte) {
  BOOST_TEST(rc::check("equal replicas", [] {
    const std::string text = any_text();
    const auto count = *rc::gen::inRange<std::size_t>(1, 5);
    std::vector<std::string> texts;
    std::vector<bool> complete;
    for (std::size_t i = 0; i < count; ++i) {
      complete.push_back(*rc::gen::arbitrary<bool>());
      texts.push_back(complete.back() ? text : text.substr(0, any_length(text.size())));
    }
    const std::size_t most = std::ranges::max(texts, {}, &std::string::size).size();
    Writers writers(texts, complete, *rc::gen::arbitrary<bool>() ? kTiny : OutputMerger::Limits{});
    while (writers.step()) {
      // Whole lines are printed as soon as the first replica has written them.
      if (writers.all_closed()) continue;
      const std::string whole = text.substr(0, writers.furthest());
      RC_ASSERT(text.starts_with(writers.printed));
      RC_ASSERT(writers.printed.size() >= whole.rfind('\n') + 1);
    }
    RC_ASSERT(writers.all_closed());
    RC_ASSERT(writers.printed == text.substr(0, most));
    RC_ASSERT(writers.differences.empty());
  }));
}

BOOST_AUTO_TEST_CASE(a_replica_that_differs_is_found_once_at_its_line) {
  BOOST_TEST(rc::check("one replica differs", [] {
    const std::string text = any_text() + "end\n";
    const std::size_t at = any_length(text.size() - 1);
    std::string other = text;
    other[at] = other[at] == 'x' ? 'y' : 'x';
    const bool is_tiny = *rc::gen::arbitrary<bool>();
    Writers writers({text, other, text}, {true, true, true}, is_tiny ? kTiny : OutputMerger::Limits{});
    while (writers.step()) {
    }
    RC_ASSERT(writers.all_closed());
    // Which replica counts as the one that differs depends on which was first.
    RC_ASSERT(!writers.differences.empty());
    RC_ASSERT(writers.merger.differing() == writers.differences.size());
    const Difference& first = writers.differences.front();
    RC_ASSERT(first.first_line <= line_at(text, at) &&
              line_at(text, at) <= first.last_line + (other[at] == 'x' ? 1 : 0));
    if (!is_tiny) RC_ASSERT(first.printed.has_value());
    std::set<std::uint32_t> reported;
    for (const Difference& one : writers.differences) RC_ASSERT(reported.insert(one.replica).second);
    if (reported == std::set<std::uint32_t>{1}) RC_ASSERT(writers.printed == text);
  }));
}

BOOST_AUTO_TEST_CASE(a_difference_names_the_line_and_both_texts) {
  OutputMerger merger(2);
  merger.write(0, "same\nleft\nmore\n");
  merger.write(1, "same\nright\nmore\n");
  BOOST_TEST(text_of(merger.take_parts()) == "same\nleft\nmore\n");
  const std::vector<Difference> wanted{{1, 2, 2, "left", "right"}};
  BOOST_TEST((merger.take_differences() == wanted));
  merger.close(0, true);
  merger.write(1, "last\n");
  BOOST_TEST(text_of(merger.take_parts()) == "last\n");
  BOOST_TEST(merger.take_differences().empty());
}

BOOST_AUTO_TEST_CASE(a_replica_that_ends_in_order_with_less_text_differs_and_one_that_dies_does_not) {
  for (const bool is_complete : {true, false}) {
    OutputMerger merger(2);
    merger.write(0, "one\ntwo\nthr");
    merger.write(1, "one\nt");
    merger.close(1, is_complete);
    merger.close(0, true);
    BOOST_TEST(text_of(merger.take_parts()) == "one\ntwo\nthr");
    const std::vector<Difference> wanted{{1, 2, 2, "two", "t"}};
    BOOST_TEST((merger.take_differences() == (is_complete ? wanted : std::vector<Difference>())));
  }
}

BOOST_AUTO_TEST_CASE(the_longest_unfinished_line_is_printed_at_the_end) {
  OutputMerger merger(3);
  merger.write(0, "ab");
  merger.close(0, false);
  merger.write(1, "abcd");
  merger.close(1, false);
  BOOST_TEST(merger.take_parts().empty());
  merger.close(2, false);
  const std::vector<OutputPart> wanted{{"abcd", false}};
  BOOST_TEST((merger.take_parts() == wanted));
}

BOOST_AUTO_TEST_CASE(memory_is_bounded_however_far_a_replica_is_behind) {
  const OutputMerger::Limits limits{
      .part_bytes = 100, .kept_bytes = 1000, .held_bytes = 100, .digest_bytes = 100, .digests = 16};
  OutputMerger merger(2, limits);
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += "line " + std::to_string(i) + "\n";
  const auto written = std::string_view(text);
  for (std::size_t at = 0; at < text.size(); at += 1000) {
    merger.write(0, written.substr(at, 1000));
    (void)merger.take_parts();
    BOOST_TEST_REQUIRE(merger.memory() < 2000u);
  }
  std::string changed = text;
  changed[text.size() / 2] = 'x';
  merger.write(1, changed);
  const auto found = merger.take_differences();
  BOOST_TEST_REQUIRE(found.size() == 1u);
  BOOST_TEST(!found[0].printed.has_value());
  const std::uint64_t line = line_at(text, text.size() / 2);
  BOOST_TEST(found[0].first_line <= line);
  BOOST_TEST(line <= found[0].last_line);
  BOOST_TEST(found[0].last_line - found[0].first_line < 20'000u / 7);
}

BOOST_AUTO_TEST_CASE(a_replica_that_differs_is_not_read_far_ahead_of_the_others_and_loses_nothing) {
  OutputMerger merger(2, {.held_bytes = 10});
  merger.write(0, "a\n");
  merger.write(1, "b\n");
  BOOST_TEST(merger.wants(1));
  merger.write(1, "one\ntwo\nthree\n");
  BOOST_TEST(!merger.wants(1));
  (void)merger.take_parts();
  merger.close(0, false);
  BOOST_TEST(text_of(merger.take_parts()) == "one\ntwo\nthree\n");
  BOOST_TEST(merger.wants(1));
}

BOOST_AUTO_TEST_CASE(a_replica_that_is_opened_again_goes_on_where_its_parent_is) {
  OutputMerger merger(2);
  merger.write(0, "one\n");
  merger.write(1, "one\ntwo\nthr");
  merger.close(0, false);
  merger.reopen(0, 1);
  merger.write(0, "ee\nfour\n");
  merger.close(1, false);
  merger.close(0, true);
  std::string printed;
  for (const OutputPart& part : merger.take_parts()) printed += part.text + (part.ends_line ? "\n" : "");
  BOOST_TEST(printed == "one\ntwo\nthree\nfour\n");
  BOOST_TEST(merger.take_differences().empty());
}

BOOST_AUTO_TEST_SUITE_END()
