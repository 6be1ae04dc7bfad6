#include "controlplane/store/caspaxos/acceptor.hpp"

#include <boost/test/unit_test.hpp>
#include <set>

#include "tests/controlplane/store/caspaxos/values.hpp"

namespace rdmc::store::testing {
BOOST_AUTO_TEST_SUITE(acceptor_test)
namespace {

BOOST_AUTO_TEST_CASE(a_proposal_lower_than_a_promise_is_refused_with_the_promise) {
  Acceptor acceptor(first_state(0));
  BOOST_TEST(std::holds_alternative<Accepted>(acceptor.prepare({"g", ballot(1, 7)}).body));
  BOOST_TEST((refusal(acceptor.accept({"g", {ballot(1, 6), value(1)}})) == Refused::promised));
  BOOST_TEST((refusal(acceptor.prepare({"g", ballot(1, 6)})) == Refused::promised));
  BOOST_TEST(std::holds_alternative<Done>(acceptor.accept({"g", {ballot(1, 7), value(1)}}).body));
}

BOOST_AUTO_TEST_CASE(an_acceptor_that_restarts_takes_every_promise_it_may_have_made_as_made) {
  Acceptor before(first_state(0));
  before.prepare({"g", ballot(1, 7)});
  static_cast<void>(before.take_write());
  Acceptor after(before.kept());
  BOOST_TEST((refusal(after.accept({"g", {ballot(1, 6), value(1)}})) == Refused::promised));
  BOOST_TEST((refusal(after.accept({"g", {ballot(1, 7), value(1)}})) == Refused::promised));
  const Ballot beyond = ballot(1, before.kept().ceiling + 1);
  BOOST_TEST(std::holds_alternative<Accepted>(after.prepare({"g", beyond}).body));
}

BOOST_AUTO_TEST_CASE(an_answer_waits_for_the_write_that_makes_it_durable) {
  Acceptor acceptor(first_state(0));
  const auto first = acceptor.take_write();
  BOOST_TEST_REQUIRE(first.has_value());
  acceptor.synced(first->sequence);
  const auto promise = acceptor.prepare({"g", ballot(1, 7)});
  // This promise raised the ceiling, so the answer waits for a write.
  BOOST_TEST(promise.after == first->sequence + 1);
  const auto second = acceptor.take_write();
  BOOST_TEST(second->sequence == promise.after);
  // This ballot is below the ceiling, so the answer needs no new write.
  BOOST_TEST(acceptor.prepare({"g", ballot(1, 8)}).after <= second->sequence);
  BOOST_TEST(acceptor.accept({"g", {ballot(1, 8), value(1)}}).after == second->sequence + 1);
  BOOST_TEST(acceptor.query({"g", 1}).after == second->sequence + 1);
}

BOOST_AUTO_TEST_CASE(an_acceptor_answers_only_in_the_epoch_in_which_it_is_active) {
  Acceptor acceptor(first_state(0));
  BOOST_TEST((refusal(acceptor.query({"g", 2})) == Refused::behind));
  BOOST_TEST(acceptor.adopt(second_configuration()));
  BOOST_TEST((refusal(acceptor.query({"g", 1})) == Refused::stale));
  BOOST_TEST((refusal(acceptor.accept({"g", {ballot(1, 9), value(1)}})) == Refused::stale));
  BOOST_TEST((refusal(acceptor.query({"g", 2})) == Refused::not_serving));
  acceptor.activate({});
  BOOST_TEST(std::holds_alternative<Accepted>(acceptor.query({"g", 2}).body));
  BOOST_TEST((refusal(acceptor.query({"g", 1})) == Refused::stale));
}

BOOST_AUTO_TEST_CASE(an_acceptor_that_has_accepted_the_next_configuration_answers_for_no_group) {
  Acceptor acceptor(first_state(0));
  const Accepted next{ballot(1, 1), encode(second_configuration())};
  BOOST_TEST(std::holds_alternative<Done>(acceptor.accept({kConfigurationRegister, next}).body));
  BOOST_TEST((refusal(acceptor.query({"g", 1})) == Refused::sealed));
  BOOST_TEST((refusal(acceptor.list({1})) == Refused::sealed));
  BOOST_TEST((refusal(acceptor.prepare({"g", ballot(1, 9)})) == Refused::sealed));
  BOOST_TEST((refusal(acceptor.accept({"g", {ballot(1, 9), value(1)}})) == Refused::sealed));
  BOOST_TEST(std::holds_alternative<Accepted>(acceptor.query({kConfigurationRegister, 1}).body));
}

BOOST_AUTO_TEST_CASE(nobody_uses_up_the_numbers_of_ballots) {
  Acceptor acceptor(first_state(0));
  BOOST_TEST((refusal(acceptor.prepare({"g", ballot(1, std::uint64_t{1} << 62)})) == Refused::out_of_range));
  BOOST_TEST(
      (refusal(acceptor.accept({"g", {ballot(1, ~std::uint64_t{0}), value(1)}})) == Refused::out_of_range));
  BOOST_TEST(std::holds_alternative<Accepted>(acceptor.prepare({"g", ballot(1, 2)}).body));
}

BOOST_AUTO_TEST_CASE(an_acceptor_keeps_a_bounded_number_of_registers) {
  Acceptor acceptor(first_state(0));
  for (std::size_t i = 0; i < Acceptor::kMostRegisters; ++i)
    acceptor.accept({std::to_string(i), {ballot(1, 1), value(1)}});
  BOOST_TEST((refusal(acceptor.accept({"one more", {ballot(1, 1), value(1)}})) == Refused::full));
  BOOST_TEST(std::holds_alternative<Done>(acceptor.accept({"0", {ballot(1, 2), value(2)}}).body));
}

BOOST_AUTO_TEST_CASE(a_full_acceptor_takes_part_in_the_replacement_of_a_node) {
  const Accepted next{ballot(1, 1), encode(second_configuration())};
  Acceptor many(first_state(0));
  for (std::size_t i = 0; i < Acceptor::kMostRegisters; ++i)
    many.accept({std::to_string(i), {ballot(1, 1), value(1)}});
  BOOST_TEST(std::holds_alternative<Done>(many.accept({kConfigurationRegister, next}).body));
  Acceptor large(first_state(0));
  for (std::size_t kept = 0; kept < Acceptor::kMostKeptBytes; kept += kMaxValueBytes)
    large.accept({std::to_string(kept), {ballot(1, 1), Bytes(kMaxValueBytes)}});
  BOOST_TEST((refusal(large.accept({"one more", {ballot(1, 1), value(1)}})) == Refused::full));
  BOOST_TEST(std::holds_alternative<Done>(large.accept({kConfigurationRegister, next}).body));
}

BOOST_AUTO_TEST_CASE(an_acceptor_that_was_to_join_and_is_left_out_can_ask_for_its_place_anew) {
  Acceptor joiner(Durable{.id = acceptor_id(3), .next = second_configuration()});
  Configuration without = first_configuration();
  without.epoch = 3;
  without.from_epoch = 1;
  without.from = without.acceptors;
  static_cast<void>(joiner.take_write());
  BOOST_TEST(!joiner.adopt(without));
  BOOST_TEST(joiner.newest().epoch == 0u);
  // The journal entry must also remove the configuration from the disk.
  const auto write = joiner.take_write();
  BOOST_TEST_REQUIRE(write.has_value());
  Durable kept{.next = second_configuration()};
  apply(*decode_journal_entry(write->entry), kept);
  BOOST_TEST(kept.next.epoch == 0u);
}

BOOST_AUTO_TEST_CASE(no_two_nodes_are_forced_into_configurations_of_one_epoch) {
  for (const std::uint64_t newest : {std::uint64_t{1}, Acceptor::kForcedEpochs - 1, Acceptor::kForcedEpochs,
                                     7 * Acceptor::kForcedEpochs + 5}) {
    std::set<std::uint64_t> runs;
    for (std::size_t node = 0; node < kMostNodes; ++node) {
      Durable kept = first_state(node);
      kept.active.epoch = newest;
      Acceptor acceptor(kept);
      acceptor.survive(node, kMostNodes, 3);
      BOOST_TEST(acceptor.newest().epoch >= newest + Acceptor::kForcedEpochs);
      runs.insert(acceptor.newest().epoch / Acceptor::kForcedEpochs);
    }
    BOOST_TEST(runs.size() == kMostNodes);
  }
}

BOOST_AUTO_TEST_CASE(an_acceptor_votes_once_in_an_epoch_and_never_once_it_has_state) {
  Acceptor acceptor(Durable{.id = acceptor_id(0)});
  Configuration other = first_configuration();
  other.acceptors[2] = acceptor_id(7);
  BOOST_TEST(std::holds_alternative<Done>(acceptor.vote(first_configuration()).body));
  BOOST_TEST(std::holds_alternative<Done>(acceptor.vote(first_configuration()).body));
  BOOST_TEST((refusal(acceptor.vote(other)) == Refused::stale));
  Acceptor active(first_state(0));
  BOOST_TEST((refusal(active.vote(other)) == Refused::not_serving));
}

BOOST_AUTO_TEST_CASE(a_survivor_begins_an_epoch_far_beyond_all_others_with_what_it_keeps) {
  Acceptor acceptor(first_state(1));
  acceptor.accept({"g", {ballot(1, 1), value(4)}});
  acceptor.survive(1, 3, 0);
  BOOST_TEST(acceptor.is_serving());
  const Configuration& alone = acceptor.newest();
  BOOST_TEST(alone.epoch > Acceptor::kForcedEpochs);
  BOOST_TEST(alone.size() == 1u);
  BOOST_TEST((alone.acceptors.at(1) == acceptor_id(1)));
  BOOST_TEST((std::get<Accepted>(acceptor.query({"g", alone.epoch}).body).value == value(4)));
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::store::testing
