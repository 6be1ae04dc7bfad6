// Tests of single processes. The test takes the part of the store and of the peers. It checks what the
// process requests, reports and does, and in which order. Whole groups with faults are tested in the
// simulator (tests/apps/sim/views_seeds_test.cpp).
#include <boost/test/unit_test.hpp>

#include "tests/controlplane/view/process.hpp"

namespace rdmc::view {
BOOST_AUTO_TEST_SUITE(failure_view_test)
namespace {

BOOST_AUTO_TEST_CASE(the_first_of_a_group_proposes_itself_and_acts_when_the_store_has_accepted) {
  Process process(1);
  process.read({});
  const auto swaps = process.take<SwapStore>();
  BOOST_TEST_REQUIRE(swaps.size() == 1u);
  BOOST_TEST((swaps[0].next == view_of(1, {1})));
  BOOST_TEST(process.take<Installed>().empty());
  BOOST_TEST(!process.core.admits(Epoch{1}, MemberId{1}));
  process.core.on_swapped(swaps[0].request, SwapResult{true, swaps[0].next}, process.now);
  BOOST_TEST(process.take<Installed>().size() == 1u);
  BOOST_TEST((process.core.state() == FailureView::State::member));
}

BOOST_AUTO_TEST_CASE(who_comes_second_asks_the_first_and_waits_to_be_taken_in) {
  Process process(2);
  process.read({});
  const auto swaps = process.take<SwapStore>();
  BOOST_TEST_REQUIRE(swaps.size() == 1u);
  process.core.on_swapped(swaps[0].request, SwapResult{false, view_of(1, {1})}, process.now);
  process.wait(milliseconds(3));
  const auto said = process.take<Transmit>();
  BOOST_TEST_REQUIRE(!said.empty());
  BOOST_TEST((said.back().to == std::vector{member(1).address}));
  const auto status = std::get<Status>(decode(said.back().message).value());
  BOOST_TEST((status.joining == member(2)));
  BOOST_TEST((status.epoch == Epoch{1}));
  process.learn(view_of(2, {1, 2}), 1);
  BOOST_TEST(process.take<Installed>().size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_member_that_both_others_miss_is_proposed_out_and_the_fence_waits_for_the_store) {
  OfThree process;
  process.keep_hearing({2}, ids({1}), milliseconds(600));
  const auto swaps = process.take<SwapStore>();
  BOOST_TEST_REQUIRE(swaps.size() == 1u);
  BOOST_TEST((swaps[0].next == view_of(6, {1, 2})));
  BOOST_TEST(process.core.admits(Epoch{5}, MemberId{3}));
  process.core.on_swapped(swaps[0].request, SwapResult{true, swaps[0].next}, process.now);
  BOOST_TEST(!process.core.admits(Epoch{5}, MemberId{3}));
  BOOST_TEST(!process.core.admits(Epoch{6}, MemberId{3}));
  BOOST_TEST(process.core.admits(Epoch{6}, MemberId{2}));
  // The removed member must get the view, too.
  bool told = false;
  for (const Transmit& said : process.take<Transmit>())
    told = told || (said.to == std::vector{member(3).address} && said.message == encode(swaps[0].next));
  BOOST_TEST(told);
}

BOOST_AUTO_TEST_CASE(a_death_is_told_at_once_to_the_two_whose_turn_is_next_and_later_to_all) {
  Process process(4);
  process.read(view_of(5, {1, 2, 3, 4, 5}));
  process.hear_from({1, 2, 3, 5}, ids({1, 2, 3, 4, 5}));
  process.wait(milliseconds(60));
  process.take<Transmit>();
  process.core.on_gone(MemberId{1}, process.now);
  process.wait(milliseconds(3));
  const auto news = process.take<Transmit>();
  BOOST_TEST_REQUIRE(news.size() == 1u);
  BOOST_TEST((news[0].to == std::vector{member(2).address, member(3).address}));
  BOOST_TEST((std::get<Status>(decode(news[0].message).value()).gone == ids({1})));
  process.wait(milliseconds(50));
  BOOST_TEST_REQUIRE(!process.take<Transmit>().empty());
}

BOOST_AUTO_TEST_CASE(a_newer_view_that_is_shown_is_read_unless_it_is_brought_before) {
  for (const bool brought : {false, true}) {
    OfThree process;
    process.take<ReadStore>();
    process.standing.reset();
    process.core.on_hint(Epoch{5}, process.now);  // this is the current view, so it causes no read
    process.core.on_hint(Epoch{6}, process.now);
    process.wait(milliseconds(9));
    BOOST_TEST(process.take<ReadStore>().empty());
    if (brought) process.learn(view_of(6, {1, 2, 3}), 2);
    process.wait(milliseconds(2));
    BOOST_TEST(process.take<ReadStore>().size() == (brought ? 0u : 1u));
  }
}

BOOST_AUTO_TEST_CASE(a_refusal_proves_a_death_to_members_that_had_a_connection_and_to_no_joiner) {
  for (const bool had_connection : {false, true}) {
    OfThree member;
    member.core.on_refused(MemberId{3}, had_connection, member.now);
    member.keep_hearing({2}, ids({1, 3}), milliseconds(200));
    BOOST_TEST(member.take<SwapStore>().size() == (had_connection ? 1u : 0u));

    Process joiner(9);
    joiner.read(view_of(5, {1, 2}));
    for (const Member& one : joiner.core.view().members)
      joiner.core.on_refused(one.id, had_connection, joiner.now);
    joiner.wait(seconds(1));
    BOOST_TEST(joiner.take<SwapStore>().empty());
  }
}

BOOST_AUTO_TEST_CASE(what_a_non_member_says_is_agreed_or_is_far_ahead_is_only_looked_up) {
  const std::uint64_t never = ~std::uint64_t{0};
  for (const auto& [view, from] :
       {std::pair(view_of(6, {1, 9}), std::uint8_t{9}), std::pair(view_of(never, {1}), std::uint8_t{9}),
        std::pair(view_of(never, {1}), std::uint8_t{2})}) {
    OfThree process;
    process.take<ReadStore>();
    process.standing.reset();
    process.learn(view, from);
    process.wait(milliseconds(20));
    BOOST_TEST(process.take<Installed>().empty());
    BOOST_TEST((process.core.view() == view_of(5, {1, 2, 3})));
    const auto reads = process.take<ReadStore>();
    BOOST_TEST_REQUIRE(reads.size() == 1u);
    process.core.on_read(reads[0].request, view_of(7, {1, 2, 3}), process.now);
    BOOST_TEST(process.take<StoreLost>().empty());
    BOOST_TEST(process.take<Installed>().size() == 1u);
  }
}

BOOST_AUTO_TEST_CASE(nobody_speaks_in_another_s_name) {
  OfThree process;
  const Bytes forged = encode(Status{.from = MemberId{3}, .sequence = ~std::uint64_t{0}, .epoch = Epoch{5}});
  BOOST_TEST(
      (process.core.on_message(forged, {MemberId{2}, {}}, process.now).error().code == Errc::protocol_error));
  // A real status that arrives later must not count as late.
  process.hear_from({3}, ids({1, 2}));
  BOOST_TEST(process.core.counters().late == 0u);
}

BOOST_AUTO_TEST_CASE(a_member_that_only_we_miss_stays) {
  OfThree process;
  process.keep_hearing({2}, ids({1, 3}), seconds(3));
  BOOST_TEST(process.take<SwapStore>().empty());
}

BOOST_AUTO_TEST_CASE(silence_that_nobody_listened_to_is_none_and_what_has_arrived_is_heard_before_it_counts) {
  for (const bool arrives : {false, true}) {
    OfThree process;
    process.keep_hearing({2, 3}, ids({1, 2, 3}), milliseconds(200));
    process.listens = false;  // the process's network thread is not scheduled
    process.wait(seconds(2));
    BOOST_TEST(process.take<SwapStore>().empty());
    if (arrives) process.hear_from({2, 3}, ids({1, 2, 3}));
    process.answer_listens();
    process.listens = true;
    process.keep_hearing({2}, ids({1, 3}), milliseconds(250));
    BOOST_TEST(process.core.counters().suspicions == 0u);
    BOOST_TEST(process.core.level(MemberId{3}) < 8);
    process.keep_hearing({2}, ids({1}), milliseconds(600));
    // The process listens again, and does not hear member 3.
    BOOST_TEST(process.take<SwapStore>().size() == 1u);
  }
}

BOOST_AUTO_TEST_CASE(the_longest_absence_is_known_and_a_process_without_peers_has_none) {
  const auto absence_ms = [](const Process& process) {
    return process.core.counters().longest_absence.ns / 1'000'000;
  };
  Process alone(1);
  alone.wait(seconds(1));
  alone.now = alone.now + seconds(10);
  alone.hear_from({2}, {});
  alone.wait(milliseconds(10));
  BOOST_TEST(absence_ms(alone) <= 10);

  OfThree process;
  process.keep_hearing({2, 3}, ids({1, 2, 3}), milliseconds(200));
  BOOST_TEST(absence_ms(process) >= 40);
  BOOST_TEST(absence_ms(process) <= 60);
  process.now = process.now + milliseconds(400);  // the whole process is stopped
  process.keep_hearing({2, 3}, ids({1, 2, 3}), milliseconds(200));
  BOOST_TEST(absence_ms(process) >= 400);
  BOOST_TEST(absence_ms(process) <= 460);
  process.listens = false;  // only the network thread is not scheduled
  process.wait(milliseconds(700));
  process.answer_listens();
  BOOST_TEST(absence_ms(process) >= 700);
  BOOST_TEST(absence_ms(process) <= 760);
}

BOOST_AUTO_TEST_CASE(who_was_stopped_removes_nobody_on_words_from_before_but_whoever_is_certainly_dead) {
  for (const bool dead : {false, true}) {
    OfThree process;
    process.keep_hearing({2, 3}, ids({1, 2, 3}), milliseconds(200));
    process.now = process.now + seconds(2);
    // Meanwhile, members 2 and 3 hear neither this process nor each other.
    process.hear_from({2}, ids({}));
    process.hear_from({3}, ids({}));
    if (dead) process.core.on_gone(MemberId{3}, process.now);
    process.wait(milliseconds(50));
    BOOST_TEST(process.take<SwapStore>().size() == (dead ? 1u : 0u));
    process.keep_hearing({2, 3}, ids({1, 2, 3}), milliseconds(500));
    BOOST_TEST(process.take<SwapStore>().empty());
  }
}

BOOST_AUTO_TEST_CASE(a_bad_link_to_a_member_that_stays_is_reported_once_and_so_is_its_return) {
  OfThree process;
  process.keep_hearing({2}, ids({1, 3}), seconds(2));
  const auto lost = process.take<Unreachable>();
  BOOST_TEST_REQUIRE(lost.size() == 1u);
  BOOST_TEST((lost[0].member == MemberId{3} && !lost[0].heard));
  BOOST_TEST(!process.core.reaches(MemberId{3}));
  BOOST_TEST(process.core.reaches(MemberId{2}));
  process.keep_hearing({2, 3}, ids({1, 2, 3}), milliseconds(100));
  const auto found = process.take<Reachable>();
  BOOST_TEST_REQUIRE(found.size() == 1u);
  BOOST_TEST((found[0].member == MemberId{3}));
  BOOST_TEST(process.core.reaches(MemberId{3}));
}

BOOST_AUTO_TEST_CASE(a_member_that_says_that_it_does_not_hear_us_is_reported_though_we_hear_it) {
  OfThree process;
  for (int i = 0; i < 40; ++i) {
    process.hear_from({2}, ids({1, 3}));
    process.hear_from({3}, ids({2}));
    process.wait(milliseconds(25));
  }
  const auto lost = process.take<Unreachable>();
  BOOST_TEST_REQUIRE(lost.size() == 1u);
  BOOST_TEST((lost[0].member == MemberId{3} && lost[0].heard && !lost[0].hears_us));
  BOOST_TEST(process.take<SwapStore>().empty());
}

BOOST_AUTO_TEST_CASE(who_is_removed_meanwhile_or_certainly_dead_is_not_reported_as_unreachable) {
  OfThree process;
  process.keep_hearing({2}, ids({1}), milliseconds(600));
  const auto swaps = process.take<SwapStore>();
  BOOST_TEST_REQUIRE(swaps.size() == 1u);
  process.core.on_swapped(swaps[0].request, SwapResult{true, swaps[0].next}, process.now);
  process.standing = swaps[0].next;
  process.core.on_gone(MemberId{2}, process.now);
  process.wait(seconds(3));
  BOOST_TEST(process.take<Unreachable>().empty());
}

BOOST_AUTO_TEST_CASE(a_member_that_is_dead_is_reported_as_unreachable_while_the_view_cannot_change) {
  OfThree process;
  process.standing.reset();
  process.core.on_gone(MemberId{2}, process.now);
  process.keep_hearing({3}, ids({1, 3}), seconds(10));
  BOOST_TEST(process.take<StoreLost>().size() == 1u);
  const auto lost = process.take<Unreachable>();
  BOOST_TEST_REQUIRE(lost.size() == 1u);
  BOOST_TEST((lost[0].member == MemberId{2} && !lost[0].heard));
  BOOST_TEST(process.take<Reachable>().empty());
}

BOOST_AUTO_TEST_CASE(several_deaths_and_a_joiner_are_one_change) {
  Process process(1);
  process.read(view_of(5, {1, 2, 3, 4}));
  process.hear_from({2, 3, 4}, ids({1, 2, 3, 4}));
  process.core.on_gone(MemberId{3}, process.now);
  process.core.on_gone(MemberId{4}, process.now);
  Status joiner{
      .from = MemberId{9}, .sequence = 1, .epoch = Epoch{5}, .hears = ids({1, 2}), .joining = member(9)};
  process.hear(joiner);
  process.hear_from({2}, ids({1, 9}));
  process.wait(milliseconds(5));
  const auto swaps = process.take<SwapStore>();
  BOOST_TEST_REQUIRE(swaps.size() == 1u);
  View expected = view_of(6, {1, 2, 9});
  expected.members.back().since = Epoch{6};
  BOOST_TEST((swaps[0].next == expected));
}

BOOST_AUTO_TEST_CASE(
    those_who_come_one_after_the_other_join_in_one_change_that_waits_for_them_within_a_bound) {
  for (const int coming : {1, 3, 30}) {  // the first joiner arrives, and then one more every 5 ms
    Process process(1);
    process.read(view_of(5, {1}));
    int came = 0;
    std::vector<SwapStore> swaps;
    for (std::int64_t ms = 0; ms < 100 && swaps.empty(); ++ms) {
      if (ms % 5 == 0 && came < coming) {
        const Member joiner = member(static_cast<std::uint8_t>(2 + came++));
        process.hear(
            {.from = joiner.id, .sequence = 1, .epoch = Epoch{5}, .hears = ids({1}), .joining = joiner});
      }
      process.wait(milliseconds(1));
      swaps = process.take<SwapStore>();
      const std::int64_t due = std::min<std::int64_t>(5 * (coming - 1) + 8, 60);
      BOOST_TEST(swaps.empty() == (ms + 1 < due), coming << " at " << ms);
    }
    BOOST_TEST_REQUIRE(swaps.size() == 1u);
    BOOST_TEST(std::ssize(swaps[0].next.members) == 1 + came);
  }
}

/// Returns a process that wants to join, and that claims to listen at the address of member `n`.
Member claimant_of(std::uint8_t n, std::uint8_t id = 33) {
  Member claimant = member(n);
  claimant.id = MemberId{id};
  return claimant;
}

Status claim_of(const Member& claimant, std::uint64_t sequence, Epoch epoch = Epoch{5}) {
  return {.from = claimant.id,
          .sequence = sequence,
          .epoch = epoch,
          .hears = ids({1, 2, 3}),
          .joining = claimant};
}

BOOST_AUTO_TEST_CASE(
    a_new_process_that_answers_at_the_address_of_a_member_takes_its_place_after_one_question) {
  OfThree process;
  const Member again = claimant_of(3);
  process.hear(claim_of(again, 1));
  process.hear_from({2}, ids({1, 33}));
  BOOST_TEST(process.answer_who_listens({{again.address, again.id}}) == 1u);
  process.wait(milliseconds(3));
  const auto swaps = process.take<SwapStore>();
  BOOST_TEST_REQUIRE(swaps.size() == 1u);
  BOOST_TEST(!swaps[0].next.contains(MemberId{3}));
  BOOST_TEST(swaps[0].next.contains(again.id));
  BOOST_TEST(process.core.counters().address_claims_denied == 0u);
}

BOOST_AUTO_TEST_CASE(a_joiner_that_only_says_that_it_listens_at_the_address_of_a_member_removes_nobody) {
  const Address address = member(3).address;
  // Four answers to the question who listens at the address: the member itself, another process, no process,
  // or no answer.
  for (const auto& listening :
       {std::optional(std::map<Address, MemberId>{{address, MemberId{3}}}),
        std::optional(std::map<Address, MemberId>{{address, MemberId{77}}}),
        std::optional(std::map<Address, MemberId>{}), std::optional<std::map<Address, MemberId>>()}) {
    OfThree process;
    std::size_t asked = 0;
    for (std::uint64_t sequence = 1; sequence <= 200; ++sequence) {
      process.hear(claim_of(claimant_of(3), sequence));
      if (listening) asked += process.answer_who_listens(*listening);
      process.keep_hearing({2, 3}, ids({1, 2, 3, 33}), milliseconds(50));
      for (const Transmit& said : process.take<Transmit>()) {
        const auto status = decode(said.message).value();
        BOOST_TEST(std::get<Status>(status).gone.empty());
      }
    }
    BOOST_TEST(process.take<SwapStore>().empty());
    const FailureView::Counters& counters = process.core.counters();
    // Within ten seconds, there must be one question every two seconds.
    BOOST_TEST(counters.listeners_asked == 5u);
    BOOST_TEST(counters.address_claims_denied == asked);
    BOOST_TEST(asked == (listening ? 5u : 0u));
  }
}

BOOST_AUTO_TEST_CASE(
    many_who_name_one_address_bring_one_question_and_the_one_that_answers_there_is_believed) {
  OfThree process;
  for (std::uint8_t id = 30; id < 60; ++id) process.hear(claim_of(claimant_of(3, id), 1));
  process.hear_from({2}, ids({1, 44}));
  const auto questions = process.take<AskListener>();
  BOOST_TEST_REQUIRE(questions.size() == 1u);
  process.core.on_listener(questions[0].request, MemberId{44}, process.now);
  process.wait(milliseconds(5));
  const auto swaps = process.take<SwapStore>();
  BOOST_TEST_REQUIRE(swaps.size() == 1u);
  BOOST_TEST(!swaps[0].next.contains(MemberId{3}));
  BOOST_TEST(swaps[0].next.contains(MemberId{44}));
}

BOOST_AUTO_TEST_CASE(an_answer_counts_once_and_for_the_newest_question_about_a_member_that_is_there) {
  OfThree process;
  const Member again = claimant_of(3);
  process.hear(claim_of(again, 1));
  const auto first = process.take<AskListener>();
  process.keep_hearing({2, 3}, ids({1, 2, 3}), seconds(2));
  process.hear(claim_of(again, 2));
  const auto second = process.take<AskListener>();
  BOOST_TEST_REQUIRE((first.size() == 1u && second.size() == 1u));
  process.core.on_listener(first[0].request, again.id, process.now);
  process.core.on_listener(second[0].request, std::nullopt, process.now);
  process.core.on_listener(second[0].request, again.id, process.now);
  process.keep_hearing({2, 3}, ids({1, 2, 3}), milliseconds(100));
  BOOST_TEST(process.take<SwapStore>().empty());
  BOOST_TEST(process.core.counters().address_claims_denied == 1u);
  // After this, the member leaves the view.
  process.keep_hearing({2, 3}, ids({1, 2, 3}), seconds(2));
  process.hear(claim_of(again, 3));
  const auto third = process.take<AskListener>();
  BOOST_TEST_REQUIRE(third.size() == 1u);
  process.learn(view_of(6, {1, 2}), 2);
  process.core.on_listener(third[0].request, again.id, process.now);
  BOOST_TEST(process.core.counters().address_claims_denied == 1u);
}

BOOST_AUTO_TEST_CASE(words_from_before_a_member_was_one_are_those_of_the_dead_process_at_its_address) {
  OfThree process;
  process.learn(view_of(7, {1, 2, 3}, Epoch{7}), 2);
  process.hear_from({2, 3}, ids({1, 2, 3}));
  process.hear(claim_of(claimant_of(3), 1, Epoch{6}));
  BOOST_TEST(process.take<AskListener>().empty());
  process.hear(claim_of(claimant_of(3), 2, Epoch{7}));
  BOOST_TEST(process.take<AskListener>().size() == 1u);
}

BOOST_AUTO_TEST_CASE(nobody_asks_who_listens_at_its_own_address) {
  OfThree process;
  process.hear(claim_of(claimant_of(1), 1));
  process.keep_hearing({2, 3}, ids({1, 2, 3, 33}), milliseconds(100));
  BOOST_TEST(process.take<AskListener>().empty());
  BOOST_TEST(process.take<SwapStore>().empty());
}

BOOST_AUTO_TEST_CASE(those_whose_turn_it_is_to_propose_ask_at_once_and_the_others_when_nobody_has_found_out) {
  // There are five members, and a joiner claims the address of the first one. The second and the third member
  // must ask at once.
  for (const auto& [self, after] : {std::pair(std::uint8_t{2}, 0), std::pair(std::uint8_t{3}, 0),
                                    std::pair(std::uint8_t{4}, 50), std::pair(std::uint8_t{5}, 100)}) {
    Process process(self);
    process.read(view_of(5, {1, 2, 3, 4, 5}));
    const MemberSet all = ids({1, 2, 3, 4, 5});
    const auto others = [&, self = self] {
      for (std::uint8_t n = 1; n <= 5; ++n)
        if (n != self) process.hear_from({n}, all);
    };
    others();
    int asked_after = -1;
    for (int ms = 0; ms <= 200 && asked_after < 0; ms += 50) {
      process.hear(claim_of(claimant_of(1), static_cast<std::uint64_t>(ms) + 1));
      if (!process.take<AskListener>().empty()) asked_after = ms;
      process.wait(milliseconds(50));
      others();
    }
    BOOST_TEST(asked_after == after, "member " << int{self});
  }
}

BOOST_AUTO_TEST_CASE(a_joiner_begins_a_dead_group_anew_when_it_has_found_another_joiner_at_each_address) {
  for (const bool listening : {false, true}) {
    Process joiner(claimant_of(1, 30));
    joiner.read(view_of(5, {1, 2}));
    Status claim = claim_of(claimant_of(2, 31), 0);
    claim.hears = ids({30});
    std::vector<SwapStore> swaps;
    for (int i = 0; i < 10; ++i) {
      ++claim.sequence;
      joiner.hear(claim);
      joiner.answer_who_listens(
          {{member(2).address, MemberId{listening ? std::uint8_t{31} : std::uint8_t{2}}}});
      joiner.wait(milliseconds(50));
      for (SwapStore& swap : joiner.take<SwapStore>()) swaps.push_back(std::move(swap));
    }
    BOOST_TEST_REQUIRE(swaps.size() == (listening ? 1u : 0u));
    if (listening) BOOST_TEST((swaps[0].next.contains(MemberId{30}) && swaps[0].next.contains(MemberId{31})));
  }
}

BOOST_AUTO_TEST_CASE(
    a_process_on_another_network_stack_takes_nobody_s_place_though_it_names_the_same_address) {
  for (const std::uint64_t host : {std::uint64_t{0}, member(3).host + 1}) {
    OfThree process;
    Member elsewhere = claimant_of(3);
    elsewhere.host = host;
    for (std::uint64_t sequence = 1; sequence <= 40; ++sequence) {
      process.hear(claim_of(elsewhere, sequence));
      // The answer names this process, as if packets to the address reached this process and not the member.
      BOOST_TEST(process.answer_who_listens({{elsewhere.address, elsewhere.id}}) == 0u);
      process.keep_hearing({2, 3}, ids({1, 2, 3, 33}), milliseconds(50));
    }
    BOOST_TEST(process.take<SwapStore>().empty());
  }
  // Such a process must not replace the whole group at once either.
  for (const bool same_host : {false, true}) {
    Member self = member(1);
    self.id = MemberId{9};
    if (!same_host) ++self.host;
    Process joiner(self);
    joiner.read(view_of(5, {1}));
    joiner.wait(seconds(1));
    BOOST_TEST(joiner.take<SwapStore>().size() == (same_host ? 1u : 0u));
  }
}

BOOST_AUTO_TEST_CASE(who_is_out_says_nothing_more_and_lets_nothing_in) {
  OfThree process;
  process.learn(view_of(6, {2, 3}), 2);
  BOOST_TEST(process.take<Removed>().size() == 1u);
  process.take<Transmit>();
  BOOST_TEST((process.core.next_deadline() == Time::never()));
  process.learn(view_of(7, {1, 2, 3}), 2);
  process.core.on_timer(process.now + seconds(5));
  BOOST_TEST(!process.core.poll());
  BOOST_TEST(!process.core.admits(Epoch{5}, MemberId{2}));
  BOOST_TEST(!process.core.admits(Epoch{7}, MemberId{2}));
}

BOOST_AUTO_TEST_CASE(without_the_store_the_view_goes_on_changes_are_refused_and_it_says_so_once) {
  OfThree process;
  process.standing.reset();
  process.keep_hearing({2, 3}, ids({1, 2, 3}), seconds(3));
  process.core.on_read(process.take<ReadStore>().at(0).request, fail(Errc::peer_failed, "refused"),
                       process.now);
  BOOST_TEST(process.take<StoreLost>().size() == 1u);
  process.core.on_gone(MemberId{3}, process.now);
  process.keep_hearing({2}, ids({1}), seconds(5));
  BOOST_TEST(process.take<SwapStore>().empty());
  BOOST_TEST(process.core.admits(Epoch{5}, MemberId{2}));
  BOOST_TEST((process.core.remove(MemberId{2}, process.now).error().code == Errc::peer_failed));
  BOOST_TEST(process.take<StoreLost>().empty());
  // The process sends its request to the store repeatedly. When the store answers again, the change is made.
  process.standing = view_of(5, {1, 2, 3});
  while (process.take<StoreFound>().empty()) process.keep_hearing({2}, ids({1}), milliseconds(25));
  BOOST_TEST_REQUIRE(process.take<SwapStore>().size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_store_that_lost_views_is_not_believed) {
  OfThree process;
  process.core.on_gone(MemberId{3}, process.now);
  process.hear_from({2}, ids({1}));
  process.wait(milliseconds(5));
  const auto swaps = process.take<SwapStore>();
  BOOST_TEST_REQUIRE(swaps.size() == 1u);
  process.core.on_swapped(swaps[0].request, SwapResult{false, view_of(2, {1, 2})}, process.now);
  const auto lost = process.take<StoreLost>();
  BOOST_TEST_REQUIRE(lost.size() == 1u);
  BOOST_TEST((lost[0].cause.code == Errc::corrupt));
  BOOST_TEST((process.core.view().epoch == Epoch{5}));
}

BOOST_AUTO_TEST_CASE(nor_is_one_that_shows_an_older_view_to_a_reader_but_one_that_was_asked_before_is) {
  OfThree process;
  process.core.on_hint(std::nullopt, process.now);
  const auto reads = process.take<ReadStore>();
  process.learn(view_of(6, {1, 2, 3}), 2);
  process.core.on_read(reads.back().request, view_of(5, {1, 2, 3}), process.now);
  BOOST_TEST(process.take<StoreLost>().empty());
  process.standing = view_of(5, {1, 2, 3});
  process.keep_hearing({2, 3}, ids({1, 2, 3}), seconds(3));
  const auto lost = process.take<StoreLost>();
  BOOST_TEST_REQUIRE(lost.size() == 1u);
  BOOST_TEST((lost[0].cause.code == Errc::corrupt));
}

BOOST_AUTO_TEST_CASE(who_is_perhaps_cut_off_waits_its_second_from_when_the_store_is_back) {
  Process process(1);
  process.read(view_of(5, {1, 2, 3, 4, 5}));
  process.hear_from({2, 3, 4, 5}, ids({1, 2, 3, 4, 5}));
  process.core.on_hint(std::nullopt, process.now);
  process.core.on_read(process.take<ReadStore>().back().request, fail(Errc::io_error, "away"), process.now);
  process.standing.reset();
  // In this time the process hears no member.
  process.wait(seconds(5));
  process.standing = view_of(5, {1, 2, 3, 4, 5});
  while (process.take<StoreFound>().empty()) process.wait(milliseconds(10));
  process.wait(milliseconds(3400));
  BOOST_TEST(process.take<SwapStore>().empty());
  process.wait(milliseconds(200));
  BOOST_TEST(process.take<SwapStore>().size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_joiner_takes_a_silent_group_over_if_its_claim_stands_and_not_while_it_is_answered) {
  for (const bool answered : {false, true}) {
    Process process(9);
    process.read(view_of(5, {1, 2}));
    bool asked = false;
    std::vector<SwapStore> taken;
    for (int i = 0; i < 800; ++i) {
      process.wait(milliseconds(10));
      for (const SwapStore& swap : process.take<SwapStore>()) {
        if (swap.entry == StoreEntry::view) {
          taken.push_back(swap);
          continue;
        }
        process.claims = swap.next;
        process.core.on_swapped(swap.request, SwapResult{true, swap.next}, process.now);
        asked = true;
      }
      if (answered && !process.claims.members.empty() && i % 200 == 0)
        process.claims = {.epoch = next(process.claims.epoch)};
    }
    BOOST_TEST(asked);
    BOOST_TEST(taken.empty() == answered);
    if (!answered) BOOST_TEST((taken.at(0).next == view_of(6, {9}, Epoch{6})));
  }
}

BOOST_AUTO_TEST_CASE(a_member_answers_a_claim) {
  OfThree process;
  process.claims = view_of(7, {9});
  process.keep_hearing({2, 3}, ids({1, 2, 3}), seconds(3));
  const auto swaps = process.take<SwapStore>();
  BOOST_TEST_REQUIRE(!swaps.empty());
  BOOST_TEST((swaps[0].entry == StoreEntry::claim));
  BOOST_TEST((swaps[0].next == view_of(8, {})));
}

BOOST_AUTO_TEST_CASE(no_view_is_proposed_that_nobody_could_read) {
  Process process(1);
  process.standing = View{};
  process.read({});
  process.core.on_swapped(process.take<SwapStore>().at(0).request, fail(Errc::io_error, "away"), process.now);
  for (std::uint16_t n = 1; n <= 400; ++n) {
    Member joiner{.id = MemberId{1000u + n}, .address = Address::ipv4(10, 1, 0, 1, n)};
    process.hear({.from = joiner.id, .sequence = 1, .hears = ids({1}), .joining = joiner});
  }
  process.wait(milliseconds(300));
  const auto swaps = process.take<SwapStore>();
  BOOST_TEST_REQUIRE(!swaps.empty());
  BOOST_TEST(swaps[0].next.members.size() == kMaxMembers);
  BOOST_TEST((decode_view(encode_view(swaps[0].next)).value() == swaps[0].next));
  Member unreadable = member(1);
  unreadable.name = "bell\a";
  FailureView core(unreadable, Timing{});
  core.start({});
  while (const auto output = core.poll()) {
    BOOST_TEST(!std::holds_alternative<SwapStore>(*output));
    if (const auto* const read = std::get_if<ReadStore>(&*output)) core.on_read(read->request, View{}, {});
  }
}

BOOST_AUTO_TEST_CASE(who_was_removed_and_silent_for_long_is_told_when_it_speaks) {
  OfThree process;
  process.learn(view_of(6, {1, 2}), 2);
  process.keep_hearing({2}, ids({1}), seconds(15));
  process.take<Transmit>();
  const Address elsewhere = Address::ipv4(10, 9, 9, 9, 1);
  const Bytes words = encode(Status{.from = MemberId{3}, .sequence = 999, .epoch = Epoch{5}});
  process.core.on_message(words, {MemberId{3}, elsewhere}, process.now).value();
  bool told = false;
  for (const Transmit& said : process.take<Transmit>())
    told = told || (said.to == std::vector{elsewhere} && said.message == encode(process.core.view()));
  BOOST_TEST(told);
}

BOOST_AUTO_TEST_CASE(a_data_path_that_gave_up_counts_in_its_own_epoch_only) {
  Process process(1);
  process.read(view_of(5, {1, 2}));
  process.hear_from({2}, ids({1}));
  process.core.on_path_failed(MemberId{2}, Epoch{4}, process.now);
  process.wait(milliseconds(50));
  BOOST_TEST(process.take<SwapStore>().empty());
  process.core.on_path_failed(MemberId{2}, Epoch{5}, process.now);
  process.wait(milliseconds(50));
  BOOST_TEST(process.take<SwapStore>().size() == 1u);
}

BOOST_AUTO_TEST_CASE(an_operator_and_a_leaver_are_obeyed) {
  OfThree process;
  BOOST_TEST((process.core.remove(MemberId{77}, process.now).error().code == Errc::not_found));
  BOOST_TEST(process.core.remove(MemberId{2}, process.now).has_value());
  process.wait(milliseconds(5));
  BOOST_TEST((process.take<SwapStore>().at(0).next == view_of(6, {1, 3})));

  OfThree leaver;
  leaver.core.leave(leaver.now);
  leaver.wait(milliseconds(5));
  BOOST_TEST(leaver.take<SwapStore>().empty());
  const auto said = leaver.take<Transmit>();
  BOOST_TEST(std::get<Status>(decode(said.back().message).value()).gone.contains(MemberId{1}));
}

BOOST_AUTO_TEST_CASE(who_leaves_before_its_first_view_is_removed_all_the_same) {
  // In the first case the group does not exist yet. In the second case it has other members.
  for (const std::uint64_t epoch : {0, 5}) {
    Process leaver(9);
    leaver.standing = epoch == 0 ? View{} : view_of(epoch, {1, 2});
    leaver.core.leave(leaver.now);
    BOOST_TEST(leaver.take<Removed>().size() == 1u);
    leaver.wait(seconds(20));
    BOOST_TEST(leaver.take<SwapStore>().empty());
  }
  // The process has proposed a view that contains itself, and the store has not answered yet.
  for (const bool swapped : {false, true}) {
    Process leaver(9);
    leaver.read(View{});
    leaver.wait(milliseconds(100));
    const auto swaps = leaver.take<SwapStore>();
    BOOST_TEST_REQUIRE(swaps.size() == 1u);
    leaver.core.leave(leaver.now);
    BOOST_TEST(leaver.take<Removed>().empty());
    leaver.standing = swapped ? swaps[0].next : view_of(1, {1});
    leaver.core.on_swapped(swaps[0].request, SwapResult{swapped, *leaver.standing}, leaver.now);
    BOOST_TEST(leaver.take<Installed>().size() == (swapped ? 1u : 0u));
    if (swapped) {
      leaver.wait(milliseconds(100));
      const auto last = leaver.take<SwapStore>();
      BOOST_TEST_REQUIRE(last.size() == 1u);
      leaver.core.on_swapped(last[0].request, SwapResult{true, last[0].next}, leaver.now);
    }
    BOOST_TEST(leaver.take<Removed>().size() == 1u);
    BOOST_TEST((leaver.core.state() == FailureView::State::removed));
  }
}

BOOST_AUTO_TEST_CASE(a_view_or_a_joiner_that_is_not_authenticated_is_not_believed) {
  OfThree process;
  process.is_authenticated = false;
  process.standing.reset();
  process.learn(view_of(6, {1, 2}), 2);
  BOOST_TEST((process.core.view().epoch == Epoch{5}));
  process.take<ReadStore>();
  process.wait(milliseconds(20));
  BOOST_TEST(!process.take<ReadStore>().empty());  // the process sends a request to the store
  Member joiner = member(9);
  process.hear(
      {.from = joiner.id, .sequence = 1, .epoch = Epoch{5}, .hears = ids({1, 2, 3}), .joining = joiner});
  process.hear_from({2, 3}, ids({1, 2, 3, 9}));
  process.wait(milliseconds(100));
  BOOST_TEST(process.take<SwapStore>().empty());
}

BOOST_AUTO_TEST_CASE(a_member_that_is_heard_after_the_question_is_there_whoever_answers_at_its_address) {
  for (const bool is_heard : {false, true}) {
    OfThree process;
    Member again = member(3);
    again.id = MemberId{33};
    process.hear({.from = again.id, .sequence = 1, .epoch = Epoch{5}, .joining = again});
    if (is_heard) process.hear_from({3}, ids({1, 2, 3}));
    BOOST_TEST(process.answer_who_listens({{again.address, again.id}}) == 1u);
    BOOST_TEST(process.core.counters().address_claims_denied == (is_heard ? 1u : 0u));
    process.wait(milliseconds(100));
    BOOST_TEST(process.take<SwapStore>().empty() == is_heard);
  }
}

BOOST_AUTO_TEST_CASE(garbage_and_late_words_are_counted_and_change_nothing) {
  OfThree process;
  const Bytes garbage(40, std::byte{0xEE});
  BOOST_TEST((process.core.on_message(garbage, {}, process.now).error().code == Errc::protocol_error));
  process.hear_from({2}, ids({1, 3}));
  process.hear({.from = MemberId{2}, .sequence = 1, .epoch = Epoch{5}, .gone = ids({3})});
  process.wait(milliseconds(50));
  BOOST_TEST(process.take<SwapStore>().empty());
  BOOST_TEST(process.core.counters().malformed == 1u);
  BOOST_TEST(process.core.counters().late == 1u);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::view
