#include "controlplane/store/caspaxos/proposer.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <deque>
#include <functional>
#include <map>

#include "controlplane/store/caspaxos/acceptor.hpp"
#include "tests/controlplane/store/caspaxos/values.hpp"

namespace rdmc::store::testing {
BOOST_AUTO_TEST_SUITE(proposer_test)
namespace {

struct Reading {
  explicit Reading(const Configuration& configuration, Proposer::Change change = nullptr)
      : proposer(1, "g", std::move(change), ballots) {
    proposer.begin(configuration, now);
  }
  template <typename Body>
  Body asked() {
    const Request* const request = proposer.take_request();
    BOOST_TEST_REQUIRE(request != nullptr);
    id = request->id;
    BOOST_TEST_REQUIRE(std::holds_alternative<Body>(request->body));
    return std::get<Body>(request->body);
  }
  template <typename Body>
  void hear(std::uint64_t node, Body body) {
    proposer.hear({.id = id, .acceptor = acceptor_id(node), .known = {}, .body = std::move(body)}, now);
  }

  Time now;
  Ballots ballots{{5, 5}, 1};
  Proposer proposer;
  std::uint64_t id = 0;
};

BOOST_AUTO_TEST_CASE(a_reading_is_done_when_a_majority_has_accepted_the_same_proposal) {
  Reading reading(first_configuration());
  reading.asked<Query>();
  reading.hear(0, Accepted{ballot(1, 3), value(1)});
  BOOST_TEST(!reading.proposer.is_done());
  // A second answer of the same acceptor does not count.
  reading.hear(0, Accepted{ballot(1, 3), value(1)});
  // The answer of an acceptor outside the configuration does not count.
  reading.hear(9, Accepted{ballot(1, 3), value(1)});
  BOOST_TEST(!reading.proposer.is_done());
  reading.hear(1, Accepted{ballot(1, 3), value(1)});
  BOOST_TEST(reading.proposer.is_done());
}

BOOST_AUTO_TEST_CASE(a_reading_that_hears_different_proposals_writes_the_highest_once_more) {
  Reading reading(first_configuration());
  reading.asked<Query>();
  reading.hear(0, Accepted{ballot(1, 3), value(1)});
  reading.hear(1, Accepted{ballot(1, 4), value(2)});
  BOOST_TEST(!reading.proposer.is_done());
  reading.hear(2, Accepted{});
  const auto prepare = reading.asked<Prepare>();
  reading.hear(0, Accepted{ballot(1, 3), value(1)});
  reading.hear(1, Accepted{ballot(1, 4), value(2)});
  const auto accept = reading.asked<Accept>();
  BOOST_TEST((accept.proposal == Accepted{prepare.ballot, value(2)}));
  reading.hear(0, Done{});
  BOOST_TEST(!reading.proposer.is_done());
  reading.hear(1, Done{});
  BOOST_TEST(reading.proposer.is_done());
}

BOOST_AUTO_TEST_CASE(what_a_majority_brought_along_from_an_earlier_epoch_is_written_once_more) {
  Reading reading(second_configuration());
  reading.asked<Query>();
  for (const std::uint64_t node : {0, 1, 3}) reading.hear(node, Accepted{ballot(1, 3), value(1)});
  BOOST_TEST(!reading.proposer.is_done());
  reading.asked<Prepare>();
  for (const std::uint64_t node : {0, 1}) reading.hear(node, Accepted{ballot(1, 3), value(1)});
  BOOST_TEST((reading.asked<Accept>().proposal.value == value(1)));
}

BOOST_AUTO_TEST_CASE(an_answer_of_an_earlier_phase_counts_for_nothing) {
  Reading change(first_configuration(), [](const Accepted&) { return value(7); });
  change.asked<Prepare>();
  change.hear(0, Accepted{});
  const std::uint64_t earlier = change.id;
  change.hear(1, Accepted{});
  change.asked<Accept>();
  const std::uint64_t current = std::exchange(change.id, earlier);
  change.hear(0, Done{});
  change.hear(1, Done{});
  BOOST_TEST(!change.proposer.is_done());
  change.id = current;
  change.hear(0, Done{});
  change.hear(1, Done{});
  BOOST_TEST(change.proposer.is_done());
  BOOST_TEST((change.proposer.result().value == value(7)));
}

BOOST_AUTO_TEST_CASE(a_proposer_that_met_a_higher_promise_goes_beyond_it) {
  Reading change(first_configuration(), [](const Accepted&) { return value(7); });
  change.asked<Prepare>();
  for (const std::uint64_t node : {0, 1}) change.hear(node, Refusal{Refused::promised, ballot(1, 500), {}});
  change.proposer.tick(change.proposer.next_deadline());
  BOOST_TEST((change.asked<Prepare>().ballot > ballot(1, 500)));
}

/// Proposers that all try to change the same register of three acceptors at the same time. A message takes 1
/// to 2 ms.
struct Duel {
  static constexpr std::size_t kProposers = 8;

  explicit Duel(std::uint64_t seed) : random(seed) {
    for (std::uint64_t node = 0; node < kMostNodes; ++node) acceptors.emplace_back(first_state(node));
    for (std::uint64_t i = 0; i < kProposers; ++i) {
      ballots.emplace_back(Id{5, i}, seed * kProposers + i);
      proposers.emplace_back(
          i, "g", [](const Accepted&) { return value(7); }, ballots.back());
      proposers.back().begin(first_configuration(), now);
    }
  }
  void later(std::function<void()> arrive) {
    arrivals.emplace(now + microseconds(static_cast<std::int64_t>(random.between(1000, 2000))),
                     std::move(arrive));
  }
  Acceptor::Answer answer(std::size_t node, const Request& request) {
    if (const auto* const prepare = std::get_if<Prepare>(&request.body))
      return acceptors[node].prepare(*prepare);
    return acceptors[node].accept(std::get<Accept>(request.body));
  }
  void send(std::size_t from) {
    const Request* const request = proposers[from].take_request();
    if (request == nullptr) return;
    if (std::holds_alternative<Prepare>(request->body)) ++attempts;
    for (std::size_t node = 0; node < kMostNodes; ++node)
      later([this, from, node, request = *request] {
        later([this, from, reply = Reply{request.id, acceptor_id(node), {}, answer(node, request).body}] {
          proposers[from].hear(reply, now);
        });
      });
  }
  void run() {
    while (!std::ranges::all_of(proposers, &Proposer::is_done) && attempts < kMostAttempts) {
      for (std::size_t i = 0; i < kProposers; ++i) send(i);
      Time next = arrivals.empty() ? Time::never() : arrivals.begin()->first;
      for (const Proposer& proposer : proposers) next = std::min(next, proposer.next_deadline());
      now = std::max(now, next);
      for (Proposer& proposer : proposers) proposer.tick(now);
      while (!arrivals.empty() && arrivals.begin()->first <= now)
        arrivals.extract(arrivals.begin()).mapped()();
    }
  }

  static constexpr std::size_t kMostAttempts = 1000;
  Time now;
  Random random;
  std::deque<Acceptor> acceptors;
  std::deque<Ballots> ballots;
  std::deque<Proposer> proposers;
  std::multimap<Time, std::function<void()>> arrivals;
  std::size_t attempts = 0;
};

BOOST_AUTO_TEST_CASE(proposers_that_met_get_out_of_each_other_s_way) {
  constexpr std::size_t kDuels = 50, kMostAttemptsEach = 8;
  std::size_t attempts = 0;
  for (std::uint64_t seed = 1; seed <= kDuels; ++seed) {
    Duel duel(seed);
    duel.run();
    BOOST_TEST(std::ranges::all_of(duel.proposers, &Proposer::is_done));
    attempts += duel.attempts;
  }
  BOOST_TEST_MESSAGE("attempts of each proposer: " << attempts / kDuels / Duel::kProposers);
  BOOST_TEST(attempts <= kDuels * Duel::kProposers * kMostAttemptsEach);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::store::testing
