#include "lib/state/messages.hpp"

#include <rapidcheck.h>
#include <boost/test/unit_test.hpp>

#include <string>

BOOST_AUTO_TEST_SUITE(messages_test)

using namespace rdmc;
using namespace rdmc::state;

namespace {

using Number = std::uint64_t;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::vector<Replica> any_replicas() {
  std::vector<Replica> replicas(*rc::gen::inRange<std::size_t>(0, 5));
  for (Replica& one : replicas)
    one = {MemberId{*rc::gen::arbitrary<Number>()}, ReplicaId{*rc::gen::arbitrary<Number>()},
           *rc::gen::arbitrary<bool>(), *rc::gen::arbitrary<bool>()};
  return replicas;
}

template <typename Value>
bool refused(const Result<Value>& result, Errc code) {
  return !result && result.error().code == code && !result.error().what.empty();
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_message_means_the_same_when_it_is_read) {
  BOOST_TEST(rc::check("batches", [](Number position, Number seed, const std::vector<std::string>& texts) {
    Batch batch{.position = position / 2,
                .time = *rc::gen::inRange<std::int64_t>(0, INT64_MAX),
                .seed = seed,
                .durable = *rc::gen::arbitrary<Number>(),
                .entries = {}};
    for (const std::string& text : texts)
      batch.entries.push_back(Event{ReplicaId{*rc::gen::arbitrary<Number>()}, seed | 1, bytes_of(text)});
    batch.entries.push_back(ReplicaList{*rc::gen::arbitrary<Number>(), any_replicas()});
    batch.entries.push_back(TransferOrder{ReplicaId{seed}, ReplicaId{position}});
    const auto encoded = state::encode(batch);
    const auto read = decode_batch(encoded);
    RC_ASSERT((read && *read == batch));
    for (std::size_t cut = 0; cut < encoded.size(); ++cut)
      RC_ASSERT(!decode_batch(std::span(encoded).first(cut)));
  }));
  BOOST_TEST(rc::check("notes", [](Number number, const std::string& text) {
    for (const Note& note : {Note(Hello{.id = ReplicaId{number},
                            .is_complete = *rc::gen::arbitrary<bool>(),
                            .is_stored = *rc::gen::arbitrary<bool>(),
                            .loads_from = ReplicaId{number / 3},
                            .stored = {.epoch = number / 5, .position = number / 7, .time = INT64_MAX},
                            .persisted = number / 11}),
                             Note(Forward{number | 1, bytes_of(text)}), Note(Persisted{number})}) {
      const auto encoded = state::encode(note);
      const auto read = decode_note(encoded);
      RC_ASSERT((read && *read == note));
    }
  }));
  BOOST_TEST(rc::check("heads of snapshots", [](Number position, const std::map<Number, Number>& last,
                                                const std::vector<Number>& departed) {
    SnapshotHead head{.position = position,
                      .epoch = position / 3,
                      .time = *rc::gen::inRange<std::int64_t>(0, INT64_MAX),
                      .replicas = any_replicas(),
                      .last = {},
                      .departed = {}};
    for (const auto& [replica, number] : last) head.last[ReplicaId{replica}] = number;
    for (const Number member : departed) head.departed.push_back(MemberId{member});
    const auto encoded = state::encode(head);
    const auto read = decode_snapshot_head(encoded);
    RC_ASSERT((read && *read == head));
  }));
}

BOOST_AUTO_TEST_CASE(any_bytes_are_read_or_refused) {
  BOOST_TEST(rc::check("random bytes", [](const std::vector<std::uint8_t>& random) {
    auto bytes = random;
    if (!bytes.empty() && *rc::gen::arbitrary<bool>()) bytes[0] = 2;  // the version
    const auto raw = std::as_bytes(std::span(bytes));
    if (const auto batch = decode_batch(raw)) RC_ASSERT((decode_batch(state::encode(*batch)) == *batch));
    if (const auto note = decode_note(raw)) RC_ASSERT((decode_note(state::encode(*note)) == *note));
    if (const auto head = decode_snapshot_head(raw))
      RC_ASSERT((decode_snapshot_head(state::encode(*head)) == *head));
  }));
}

BOOST_AUTO_TEST_CASE(what_exceeds_a_bound_is_refused_by_name) {
  BOOST_TEST(refused(decode_batch({}), Errc::protocol_error));
  const std::byte other_version[] = {std::byte{9}};
  BOOST_TEST(refused(decode_batch(other_version), Errc::version_mismatch));
  BOOST_TEST(refused(decode_note(other_version), Errc::version_mismatch));
  BOOST_TEST(refused(decode_snapshot_head(other_version), Errc::version_mismatch));
  const std::string longest(kMostEventBytes, 'x'), too_long(kMostEventBytes + 1, 'x');
  BOOST_TEST(decode_note(state::encode(Note(Forward{1, bytes_of(longest)}))).has_value());
  BOOST_TEST((state::encode(Note(Forward{~Number{}, bytes_of(longest)})).size() <= kMostNote));
  BOOST_TEST(refused(decode_note(state::encode(Note(Forward{1, bytes_of(too_long)}))), Errc::protocol_error));
  BOOST_TEST(refused(decode_note(state::encode(Note(Forward{0, {}}))), Errc::protocol_error));
  const auto batch_with = [](const Entry& entry, Number position) {
    return state::encode(Batch{.position = position, .entries = {entry}});
  };
  BOOST_TEST(
      refused(decode_batch(batch_with(Event{ReplicaId{1}, 1, bytes_of(too_long)}, 0)), Errc::protocol_error));
  BOOST_TEST(refused(decode_batch(batch_with(Event{ReplicaId{1}, 0, {}}, 0)), Errc::protocol_error));
  BOOST_TEST(refused(decode_batch(batch_with(Event{ReplicaId{1}, 1, {}}, ~Number{})), Errc::protocol_error));
}

BOOST_AUTO_TEST_SUITE_END()
