// Tests both cores against a peer that writes arbitrary values into its own memory. The cores must touch only
// granted memory and must not crash. Every wrong value that matters must end in a named fault.
#include <boost/test/unit_test.hpp>

#include <cstring>
#include <memory>
#include <optional>

#include "dataplane/base/random.hpp"
#include "dataplane/fabric/shm/requester.hpp"
#include "dataplane/fabric/shm/responder.hpp"

BOOST_AUTO_TEST_SUITE(cores_test)

using namespace rdmc;
using namespace rdmc::fabric;
using namespace rdmc::fabric::shm;

namespace {

/// Payload that is not in the QueueMemory. The test decides whether the payload is offered, and what a pull
/// returns.
struct FakePayload final : PayloadSource {
  std::optional<PayloadLocator> offer(std::span<const std::byte> bytes) override {
    if (!offers) return std::nullopt;
    return PayloadLocator{Source::arena, 1, reinterpret_cast<std::uint64_t>(bytes.data())};
  }
  Outcome pull(const PayloadLocator& locator, std::uint64_t offset, std::span<std::byte> to,
               std::size_t) override {
    ++pulls;
    if (outcome != Outcome::copied) return outcome;
    if (trusts_addresses)
      std::memcpy(to.data(), reinterpret_cast<const std::byte*>(locator.where + offset), to.size());
    else
      std::ranges::fill(to, std::byte{0xAA});
    return outcome;
  }
  bool offers = true, trusts_addresses = true;
  Outcome outcome = Outcome::copied;
  int pulls = 0;
};

constexpr std::uint32_t kDepth = 64;

/// One end of the connection: its memory and its cores.
struct End {
  End() : memory(std::make_unique<QueueMemory>()), done(2 * kDepth) {}
  void attach(const End& other) {
    requester.attach(*other.memory);
    responder.attach(*other.memory);
  }
  std::optional<Completion> completion() {
    if (done.empty()) return std::nullopt;
    const Completion first = done.front();
    done.pop();
    return first;
  }
  std::unique_ptr<QueueMemory> memory;
  FakePayload payload;
  roce::RegionTable regions;
  roce::FixedRing<Completion> done;
  Requester requester{*memory, payload, done, kDepth};
  Responder responder{*memory, payload, regions, KeyHolder{1}, done, kDepth};
};

struct Ends {
  Ends() {
    a.attach(b);
    b.attach(a);
  }
  void turn() {
    a.requester.turn();
    b.responder.turn(1 << 20);
  }
  std::optional<Completion> completion() { return b.completion(); }
  End a, b;
};

constexpr auto kAll =
    RemoteAccess::write | RemoteAccess::read | RemoteAccess::atomic | RemoteAccess::invalidate;

}  // namespace

BOOST_AUTO_TEST_CASE(a_write_moves_no_further_while_the_budget_of_a_turn_is_used_up) {
  Ends ends;
  std::vector<std::byte> source(3 << 20, std::byte{5}), target(3 << 20);
  ends.b.regions.add(RemoteKey{1}, 0, target);
  ends.a.requester.post(
      {.kind = WorkKind::write, .request = {.operation = Operation::write, .key = 1}, .bytes = source});
  ends.b.responder.turn(1 << 20);
  BOOST_TEST(std::ranges::count(target, std::byte{5}) == 1 << 20);
  BOOST_TEST(ends.b.responder.has_more());
  ends.b.regions.revoke(RemoteKey{1});
  ends.b.responder.turn(1 << 20);
  BOOST_TEST(std::ranges::count(target, std::byte{5}) == 1 << 20);
  BOOST_TEST(!ends.b.responder.fault().empty());
}

BOOST_AUTO_TEST_CASE(what_has_arrived_is_told_before_a_long_copy_begins) {
  Ends ends;
  std::vector<std::byte> source(100'000, std::byte{5}), target(100'000);
  ends.b.regions.add(RemoteKey{1}, 0, target);
  for (std::uint64_t i = 0; i < 3; ++i) ends.b.responder.post_receive({.work_id = i, .bytes = {}});
  const auto write = [&](std::size_t bytes) {
    ends.a.requester.post({.kind = WorkKind::write,
                           .request = {.operation = Operation::write, .flags = kHasImmediate, .key = 1},
                           .bytes = std::span(source).first(bytes)});
  };
  write(10);
  write(10);
  write(100'000);
  ends.turn();
  BOOST_TEST(ends.completion().has_value());
  BOOST_TEST(ends.completion().has_value());
  BOOST_TEST(!ends.completion());
  BOOST_TEST((target[10] == std::byte{0}));
  BOOST_TEST(ends.b.responder.has_more());
  ends.turn();
  BOOST_TEST(ends.completion().has_value());
  BOOST_TEST((target == source));
}

BOOST_AUTO_TEST_CASE(a_write_is_redirected_once_whole_and_only_where_its_region_would_have_taken_it) {
  constexpr std::size_t kBytes = 100'000;
  struct Redirected : Ends {
    Redirected() {
      b.regions.add(RemoteKey{1}, 0, region);
      for (std::uint64_t i = 0; i < 8; ++i) b.responder.post_receive({.work_id = i, .bytes = {}});
    }
    /// Writes, and returns `redirected` of the completion. Returns nullopt if there is no completion.
    std::optional<bool> write(std::size_t bytes, std::uint32_t key = 1, std::uint64_t address = 0) {
      a.requester.post({.kind = WorkKind::write,
                        .request = {.operation = Operation::write,
                                    .flags = kHasImmediate,
                                    .key = key,
                                    .remote_address = address},
                        .bytes = std::span(source).first(bytes)});
      turn();
      const auto done = completion();
      return done ? std::optional(done->redirected) : std::nullopt;
    }
    bool redirect(std::uint32_t key = 1) { return b.responder.redirect(RemoteKey{key}, elsewhere); }
    std::vector<std::byte> source = std::vector<std::byte>(kBytes, std::byte{5}),
                           region = std::vector<std::byte>(kBytes), elsewhere = region;
  };
  Redirected once;
  BOOST_TEST(once.redirect());
  BOOST_TEST((once.write(kBytes) == true && once.elsewhere == once.source));
  BOOST_TEST(std::ranges::count(once.region, std::byte{0}) == kBytes);
  BOOST_TEST((once.write(kBytes) == false && once.region == once.source));

  Redirected other_size;
  BOOST_TEST(other_size.redirect());
  BOOST_TEST((other_size.write(kBytes - 1) == false && other_size.write(kBytes) == true));

  Redirected taken_back;
  BOOST_TEST((taken_back.redirect() && taken_back.b.responder.redirect(RemoteKey{1}, {})));
  BOOST_TEST((taken_back.write(kBytes) == false));

  Redirected other_key;
  BOOST_TEST(other_key.redirect(2));
  BOOST_TEST((other_key.write(kBytes) == false));

  // The region still limits the access. A write beyond its end, and a write after it is revoked, are refused.
  for (const bool revoked : {false, true}) {
    Redirected refused;
    BOOST_TEST(refused.redirect());
    if (revoked) refused.b.regions.revoke(RemoteKey{1});
    BOOST_TEST(!refused.write(kBytes, 1, revoked ? 0 : 1).has_value());
    BOOST_TEST(!refused.b.responder.fault().empty());
    BOOST_TEST(std::ranges::count(refused.elsewhere, std::byte{0}) == kBytes);
  }

  Redirected begun;
  begun.a.requester.post({.kind = WorkKind::write,
                          .request = {.operation = Operation::write, .flags = kHasImmediate, .key = 1},
                          .bytes = begun.source});
  begun.b.responder.turn(1000);
  BOOST_TEST(!begun.redirect());
  begun.turn();
  BOOST_TEST((begun.region == begun.source));
}

BOOST_AUTO_TEST_CASE(what_was_read_after_the_senders_memory_was_given_back_is_not_delivered) {
  Ends ends;
  std::vector<std::byte> source(100'000), receive(100'000);
  ends.b.responder.post_receive({.work_id = 1, .bytes = receive});
  ends.a.requester.post({.request = {.operation = Operation::send}, .bytes = source});
  ends.a.memory->control.closed = static_cast<std::uint32_t>(Closed::left);
  ends.turn();
  BOOST_TEST(!ends.b.completion());
  BOOST_TEST(!ends.b.responder.fault().empty());
}

BOOST_AUTO_TEST_CASE(what_was_staged_before_the_sender_left_is_delivered) {
  Ends ends;
  std::vector<std::byte> source(1000, std::byte{3}), receive(1000);
  ends.b.responder.post_receive({.work_id = 1, .bytes = receive});
  ends.a.requester.post({.request = {.operation = Operation::send}, .bytes = source});
  ends.a.memory->control.closed = static_cast<std::uint32_t>(Closed::left);
  ends.turn();
  BOOST_TEST(ends.b.completion().has_value());
  BOOST_TEST((receive == source));
}

BOOST_AUTO_TEST_CASE(a_peer_that_counts_wrongly_is_found_out) {
  const std::vector<std::byte> bytes(10);
  const auto with = [&](auto&& lie) {
    Ends ends;
    ends.a.requester.post({.request = {.operation = Operation::send}, .bytes = bytes});
    lie(ends.b.memory->control);
    ends.a.requester.turn();
    return std::string(ends.a.requester.fault());
  };
  BOOST_TEST(with([](QueueControl&) {}).empty());
  BOOST_TEST(!with([](QueueControl& c) { c.handled = 2; }).empty());
  BOOST_TEST(!with([](QueueControl& c) { c.handled = UINT32_MAX; }).empty());
  BOOST_TEST(!with([](QueueControl& c) { c.answered = 1; }).empty());
  BOOST_TEST(!with([](QueueControl& c) { c.handled = 1, c.refused = 1; }).empty());
  Ends ends;
  ends.a.memory->control.posted = kSlots + 1;
  ends.b.responder.turn(1000);
  BOOST_TEST(!ends.b.responder.fault().empty());
}

BOOST_AUTO_TEST_CASE(an_answer_longer_or_shorter_than_what_was_asked_for_is_found_out) {
  for (const std::uint32_t answer : {0U, 9U, 11U, static_cast<std::uint32_t>(kAnswerBytes) + 1, UINT32_MAX}) {
    Ends ends;
    std::array<std::byte, 30> memory{};
    ends.a.requester.post({.kind = WorkKind::read,
                           .request = {.operation = Operation::read},
                           .target = std::span(memory).subspan(10, 10)});
    ends.b.memory->answer.fill(std::byte{1});
    ends.b.memory->control.answer_bytes = answer;
    ends.b.memory->control.answered = 1;
    ends.a.requester.turn();
    ends.b.memory->control.handled = 1;
    ends.a.requester.turn();
    BOOST_TEST(!ends.a.requester.fault().empty());
    BOOST_TEST(std::ranges::count(std::span(memory).first(10), std::byte{0}) == 10);
    BOOST_TEST(std::ranges::count(std::span(memory).last(10), std::byte{0}) == 10);
  }
}

BOOST_AUTO_TEST_CASE(whatever_a_peer_writes_into_its_own_memory_nothing_outside_of_its_rights_is_touched) {
  std::size_t faults = 0, delivered = 0;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    Random random(seed);
    Ends ends;
    ends.b.payload.trusts_addresses = false;
    constexpr std::size_t kGuard = 4096, kGranted = 8192;
    std::vector<std::byte> memory(kGuard + kGranted + kGuard);
    const auto granted = std::span(memory).subspan(kGuard, kGranted);
    ends.b.regions.add(RemoteKey{1}, 0, granted, kAll);
    std::array<std::byte, 300> receive{};
    for (std::uint64_t i = 0; i < 8; ++i)
      ends.b.responder.post_receive({.work_id = i, .bytes = std::span(receive).subspan(100, 100)});
    ends.a.requester.post({.request = {.operation = Operation::send}, .bytes = memory});
    std::ranges::fill(ends.a.memory->staging, std::byte{0xAA});
    std::uint32_t posted = 0;
    std::optional<RequestSlot> begun;
    for (int i = 0; i < 12; ++i) {
      RequestSlot slot;
      slot.operation =
          static_cast<Operation>(random.chance(950'000) ? 1 + random.below(5) : random.below(256));
      slot.source = random.chance(800'000) ? Source::staged : static_cast<Source>(random.below(5));
      slot.flags = static_cast<std::uint8_t>(random.below(4));
      const auto size = [&] {
        return static_cast<std::uint32_t>(random.chance(20'000) ? random.next() : random.below(105));
      };
      slot.message_bytes = size();
      slot.bytes = random.chance(950'000) ? slot.message_bytes : size();
      slot.offset = random.chance(950'000) ? 0 : size();
      slot.immediate = random.chance(100'000) ? 1 : size();
      slot.key = random.chance(900'000) ? 1 : size();
      slot.remote_address = random.chance(50'000) ? random.next() : random.below(kGranted + 100) / 8 * 8;
      slot.where = random.chance(50'000) ? random.next() : random.below(kStagingBytes - 50);
      slot.operand = slot.compare = random.next();
      // The slot is often a piece of a message. The next slot may continue this message, or may be something
      // else.
      if (begun && random.chance(800'000)) {
        if (random.chance(500'000)) slot = *begun;
        slot.offset = begun->offset + begun->bytes;
        slot.bytes = random.chance(500'000) ? slot.message_bytes - slot.offset : size();
      } else if (slot.message_bytes > 1 && random.chance(250'000)) {
        slot.bytes = 1 + static_cast<std::uint32_t>(random.below(slot.message_bytes - 1));
      }
      begun.reset();
      if (slot.offset + slot.bytes < slot.message_bytes) begun = slot;
      ends.a.memory->slots[posted++ % kSlots] = slot;
      if (random.chance(20'000)) posted += static_cast<std::uint32_t>(random.next());
      ends.a.memory->control.posted = posted;
      ends.a.memory->control.handled = random.chance(900'000) ? 0 : size();
      ends.a.memory->control.answered = random.chance(900'000) ? 0 : size();
      ends.a.memory->control.answers_taken =
          random.chance(500'000) ? ends.b.memory->control.answered.load() : size();
      ends.b.payload.outcome =
          static_cast<PayloadSource::Outcome>(random.chance(900'000) ? 0 : random.below(3));
      ends.b.responder.turn(1 + random.below(1 << 16));
      ends.b.requester.turn();
    }
    const auto untouched = [](std::span<const std::byte> bytes) {
      return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
    };
    BOOST_REQUIRE(untouched(std::span(memory).first(kGuard)) && untouched(std::span(memory).last(kGuard)));
    BOOST_REQUIRE(untouched(std::span(receive).first(100)) && untouched(std::span(receive).last(100)));
    faults += ends.b.responder.fault().empty() ? 0U : 1U;
    for (; ends.b.completion(); ++delivered) continue;
  }
  // Without enough requests and faults, the test would prove little.
  BOOST_TEST(faults > 1000u);
  BOOST_TEST(delivered > 500u);
}

BOOST_AUTO_TEST_SUITE_END()
