// Random programs of ranks with replicas, on a network in memory. Replicas die at any point, and the
// survivors learn of a death at different times.
#include <boost/test/unit_test.hpp>
#include <map>
#include <vector>

#include "tests/lib/replica/fake_network.hpp"
#include "tests/sampled.hpp"

BOOST_AUTO_TEST_SUITE(replicas_test)

using namespace rdmc;
using namespace rdmc::replica;
using rdmc::replica::testing::FakeNetwork;

namespace {

constexpr ContextId kWorld{1};
constexpr std::size_t kLong = Messenger::kMostEagerBytes + 1;

struct Message {
  std::uint32_t from = 0, to = 0;
  std::int32_t tag = 0;
  std::vector<std::byte> bytes;
};

std::vector<std::byte> any_bytes(FakeNetwork& network) {
  std::size_t length = 0;
  switch (network.draw(4)) {
    case 0: length = network.draw(64); break;
    case 1: length = Messenger::kMostEagerBytes + network.draw(3) - 1; break;
    case 2: length = network.draw(3 * kLong); break;
    default: length = network.draw(1000);
  }
  std::vector<std::byte> made(length);
  for (auto& byte : made) byte = static_cast<std::byte>(network.draw(256));
  return made;
}

/// One process that runs its part of the program: it begins its sends and receives in the order of the
/// messages. It waits for a request only at the end, or after each message if `waits` is true.
class Process {
 public:
  Process(FakeNetwork& network, std::uint32_t number, std::uint32_t rank, bool waits,
          const std::vector<Message>& messages)
      : network_(network), number_(number), rank_(rank), waits_(waits), messages_(messages) {}

  /// Takes the next step. Returns false if there is none.
  bool step() {
    if (network_.is_dead(number_) || next_ == messages_.size() || (waits_ && !is_complete())) return false;
    const Message& message = messages_[next_++];
    if (message.to == rank_) {
      // Half of the ranks receive from any source. They then get the messages of each channel in order.
      const bool is_any = rank_ % 2 == 1;
      received_.emplace_back(3 * kLong);
      receives_.push_back(network_.messenger(number_).receive(
          kWorld, received_.back(), is_any ? Messenger::kAny : static_cast<std::int32_t>(message.from),
          is_any ? Messenger::kAny : message.tag));
    }
    if (message.from == rank_)
      sends_.push_back(network_.messenger(number_).send(kWorld, message.bytes, message.to, message.tag));
    return true;
  }

  bool is_complete() const {
    const auto complete = [&](RequestId id) { return network_.messenger(number_).is_complete(id); };
    return std::ranges::all_of(sends_, complete) && std::ranges::all_of(receives_, complete);
  }

  /// All messages must have arrived, each channel in its order.
  void check() {
    if (network_.is_dead(number_)) return;
    BOOST_REQUIRE_EQUAL(next_, messages_.size());
    for (const RequestId send : sends_) {
      BOOST_REQUIRE(network_.messenger(number_).is_complete(send));
      BOOST_REQUIRE(network_.messenger(number_).take(send).has_value());
    }
    std::map<std::pair<std::uint32_t, std::int32_t>, std::vector<const Message*>> channels;
    for (auto message = messages_.rbegin(); message != messages_.rend(); ++message)
      if (message->to == rank_) channels[{message->from, message->tag}].push_back(&*message);
    auto bytes = received_.begin();
    for (const RequestId receive : receives_) {
      BOOST_REQUIRE(network_.messenger(number_).is_complete(receive));
      const auto done = network_.messenger(number_).take(receive);
      BOOST_REQUIRE_MESSAGE(done.has_value(), (done ? "" : done.error().what));
      auto& channel = channels[{done->source, done->tag}];
      BOOST_REQUIRE(!channel.empty());
      BOOST_REQUIRE(std::ranges::equal(std::span(*bytes++).first(done->bytes), channel.back()->bytes));
      channel.pop_back();
    }
  }

 private:
  FakeNetwork& network_;
  std::uint32_t number_, rank_;
  bool waits_;
  const std::vector<Message>& messages_;
  std::size_t next_ = 0;
  std::deque<std::vector<std::byte>> received_;
  std::vector<RequestId> sends_, receives_;
};

struct Struck {
  int kills = 0;
  std::uint64_t repeated = 0, sent_for_dead = 0, acknowledgements = 0, questions = 0;
};

/// Lets the processes and the network take steps in a random order, until nothing happens any more. In each
/// round, a process dies with a probability of one in `kills_in`, but never all of one rank.
template <typename SomeProcess>
void play(FakeNetwork& network, const Layout& layout, std::vector<SomeProcess>& processes,
          std::size_t kills_in, Struck& struck) {
  std::vector<std::uint32_t> left;
  for (std::uint32_t rank = 0; rank < layout.ranks(); ++rank) left.push_back(layout.degree(Rank{rank}));
  std::vector<std::pair<std::uint32_t, std::uint32_t>> unreported;
  for (int idle = 0; idle < 4 || !unreported.empty();) {
    bool is_busy = false;
    for (auto& process : processes)
      if (network.draw(3) == 0) is_busy = process.step() || is_busy;
    for (std::uint32_t i = 0; i < layout.processes(); ++i) {
      if (network.is_dead(i)) continue;
      if (network.draw(20) == 0) network.messenger(i).send_acknowledgements();
      const auto rank = value_of(layout.rank(ProcessId{i}));
      if (left[rank] == 1 || network.draw(kills_in) != 0) continue;
      --left[rank];
      ++struck.kills;
      network.stop(i);
      for (std::uint32_t other = 0; other < layout.processes(); ++other)
        if (other != i) unreported.emplace_back(i, other);
    }
    // The events of a run are in one order, so each process learns of the deaths in this order.
    for (std::uint32_t other = 0; other < layout.processes(); ++other) {
      if (network.draw(30) != 0) continue;
      const auto first =
          std::ranges::find(unreported, other, &std::pair<std::uint32_t, std::uint32_t>::second);
      if (first == unreported.end()) continue;
      network.report(first->first, other);
      unreported.erase(first);
    }
    is_busy = network.step() || is_busy;
    if (!is_busy && network.draw(2) == 0) {
      for (std::uint32_t i = 0; i < layout.processes(); ++i)
        if (!network.is_dead(i)) network.messenger(i).send_acknowledgements();
    }
    idle = is_busy ? 0 : idle + 1;
    if (idle >= 4 && unreported.empty()) {
      network.settle();
      for (auto& process : processes)
        if (process.step()) idle = 0;
    }
  }
  network.settle();
  for (std::uint32_t i = 0; i < layout.processes(); ++i) {
    struck.repeated += network.messenger(i).counters().repeated;
    struck.sent_for_dead += network.messenger(i).counters().sent_for_dead;
    struck.acknowledgements += network.messenger(i).counters().acknowledgements;
    struck.questions += network.messenger(i).counters().questions;
  }
}

void run_program(const char* protocol, bool is_strict, std::uint64_t seed, Struck& struck) {
  std::mt19937_64 random(seed);
  std::vector<std::uint32_t> degrees(2 + random() % 3);
  const bool is_uniform = random() % 3 != 0;
  const auto degree = static_cast<std::uint32_t>(2 + random() % 2);
  for (auto& one : degrees) one = is_uniform ? degree : static_cast<std::uint32_t>(1 + random() % 3);
  const Layout layout = *Layout::of(degrees);
  FakeNetwork network(layout, protocol, {.is_strict = is_strict}, seed);
  network.is_tight = random() % 4 != 0;
  std::vector<Message> messages;
  for (auto count = 10 + random() % 30; count > 0; --count) {
    messages.push_back({.from = static_cast<std::uint32_t>(network.draw(layout.ranks())),
                        .to = static_cast<std::uint32_t>(network.draw(layout.ranks())),
                        .tag = static_cast<std::int32_t>(network.draw(3)),
                        .bytes = any_bytes(network)});
  }
  const bool waits = random() % 2 == 0 && std::ranges::none_of(messages, [](const Message& message) {
                       return message.from == message.to;
                     });
  std::vector<Process> processes;
  for (std::uint32_t i = 0; i < layout.processes(); ++i)
    processes.emplace_back(network, i, value_of(layout.rank(ProcessId{i})), waits, messages);
  play(network, layout, processes, 40 + random() % 1500, struck);
  for (Process& process : processes) process.check();
  network.settle();
  for (std::uint32_t i = 0; i < layout.processes(); ++i)
    if (!network.is_dead(i)) BOOST_REQUIRE(network.messenger(i).is_settled());
  BOOST_REQUIRE_EQUAL(network.exposed_of_living(), 0U);
}

/// A process of a program in which the ranks exchange values in rounds. A rank receives the values of a round
/// from any source, and then tells rank 0, which lets all ranks begin the next round. So a value of the next
/// round must never be received in place of one of this round.
class RoundProcess {
 public:
  static constexpr std::uint32_t kRounds = 6;
  enum Tag : std::int32_t { value, done, next };

  RoundProcess(FakeNetwork& network, std::uint32_t number, std::uint32_t rank, std::uint32_t ranks)
      : network_(network), number_(number), rank_(rank), ranks_(ranks) {}

  bool step() {
    if (network_.is_dead(number_) || round_ == kRounds) return false;
    auto& messenger = network_.messenger(number_);
    for (const RequestId request : requests_)
      if (!messenger.is_complete(request)) return false;
    for (const RequestId request : std::exchange(requests_, {}))
      BOOST_REQUIRE(messenger.take(request).has_value());
    switch (phase_++) {
      case 0:
        sent_ = round_;
        received_.assign(ranks_ - 1, kRounds);
        for (auto& into : received_) receive(into, Messenger::kAny, value);
        for (std::uint32_t to = 0; to < ranks_; ++to)
          if (to != rank_) send(to, value);
        return true;
      case 1:
        for (const std::uint32_t got : received_) BOOST_REQUIRE_EQUAL(got, round_);
        if (rank_ != 0) {
          send(0, done);
          receive(reply_, 0, next);
        } else {
          for (std::uint32_t from = 1; from < ranks_; ++from)
            receive(received_[from - 1], static_cast<std::int32_t>(from), done);
        }
        return true;
      default:
        if (rank_ == 0)
          for (std::uint32_t to = 1; to < ranks_; ++to) send(to, next);
        ++round_;
        phase_ = 0;
        return true;
    }
  }
  void check() const {
    if (!network_.is_dead(number_)) BOOST_REQUIRE_EQUAL(round_, kRounds);
  }

 private:
  void send(std::uint32_t to, Tag tag) {
    requests_.push_back(
        network_.messenger(number_).send(kWorld, std::as_bytes(std::span(&sent_, 1)), to, tag));
  }
  void receive(std::uint32_t& into, std::int32_t from, Tag tag) {
    requests_.push_back(
        network_.messenger(number_).receive(kWorld, std::as_writable_bytes(std::span(&into, 1)), from, tag));
  }

  FakeNetwork& network_;
  std::uint32_t number_, rank_, ranks_, round_ = 0, sent_ = 0, reply_ = 0;
  int phase_ = 0;
  std::vector<std::uint32_t> received_;
  std::vector<RequestId> requests_;
};

void run_rounds(const char* protocol, bool is_strict, std::uint64_t seed, Struck& struck) {
  std::mt19937_64 random(seed);
  const Layout layout = *Layout::uniform(static_cast<std::uint32_t>(3 + random() % 2),
                                         static_cast<std::uint32_t>(2 + random() % 2));
  FakeNetwork network(layout, protocol, {.is_strict = is_strict}, seed);
  network.is_tight = random() % 2 == 0;
  std::vector<RoundProcess> processes;
  for (std::uint32_t i = 0; i < layout.processes(); ++i)
    processes.emplace_back(network, i, value_of(layout.rank(ProcessId{i})), layout.ranks());
  play(network, layout, processes, 200 + random() % 4000, struck);
  for (const RoundProcess& process : processes) process.check();
}

using RunProgram = void(const char* protocol, bool is_strict, std::uint64_t seed, Struck& struck);

Struck run_programs(const char* protocol, bool is_strict, RunProgram run = run_program) {
  Struck struck;
  const auto seeds = all_or<std::uint64_t>(600, 60);
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) {
      run(protocol, is_strict, seed, struck);
    }
  }
  BOOST_TEST_MESSAGE(protocol << ": " << struck.kills << " kills, " << struck.repeated
                              << " repeated messages, " << struck.sent_for_dead
                              << " messages sent for dead replicas");
  BOOST_TEST(struck.kills > static_cast<int>(seeds / 4));
  BOOST_TEST(struck.repeated > 0U);
  return struck;
}

}  // namespace

BOOST_AUTO_TEST_CASE(with_sdr_the_survivors_get_every_message_once) {
  const Struck struck = run_programs("sdr", false);
  BOOST_TEST((struck.sent_for_dead > 0 && struck.acknowledgements > 0));
}

BOOST_AUTO_TEST_CASE(with_strict_sdr_the_survivors_get_every_message_once) {
  const Struck struck = run_programs("sdr", true);
  BOOST_TEST((struck.sent_for_dead > 0 && struck.acknowledgements > 0));
}

BOOST_AUTO_TEST_CASE(with_mirror_the_survivors_get_every_message_once) {
  const Struck struck = run_programs("mirror", false);
  BOOST_TEST((struck.sent_for_dead == 0 && struck.acknowledgements == 0));
}

BOOST_AUTO_TEST_CASE(a_receive_from_any_source_never_matches_what_its_own_rank_has_caused_later) {
  for (const char* protocol : {"sdr", "mirror"})
    for (const bool is_strict : {false, true})
      BOOST_TEST(run_programs(protocol, is_strict, run_rounds).questions > 0U);
}

BOOST_AUTO_TEST_SUITE_END()
