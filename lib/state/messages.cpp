#include "lib/state/messages.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "dataplane/base/varint.hpp"

namespace rdmc::state {
namespace {

/// Increases when a message changes in a way that an older program would misunderstand.
constexpr std::uint64_t kVersion = 2;
/// The limits for the lists in a message.
constexpr std::uint64_t kMostReplicas = 1 << 16;

enum class EntryKind : std::uint8_t { event, replica_list, transfer_order, end };
enum class NoteKind : std::uint8_t { hello, forward, persisted, end };

void put(Bytes& out, std::span<const std::byte> bytes) {
  put_varint(out, bytes.size());
  out.insert(out.end(), bytes.begin(), bytes.end());
}

void put(Bytes& out, const std::vector<Replica>& replicas) {
  put_varint(out, replicas.size());
  for (const Replica& one : replicas) {
    put_varint(out, one.member);
    put_varint(out, one.id);
    put_varint(out, one.is_complete);
    put_varint(out, one.is_stored);
  }
}

/// About the length of the encoded entry.
std::size_t length_of(const Entry& entry) {
  constexpr std::size_t kHead = 24, kReplica = 20;
  if (const auto* const event = std::get_if<Event>(&entry)) return kHead + event->bytes.size();
  const auto* const list = std::get_if<ReplicaList>(&entry);
  return kHead + (list == nullptr ? 0 : kReplica * list->replicas.size());
}

void put(Bytes& out, const Entry& entry) {
  put_varint(out, entry.index());
  if (const auto* const event = std::get_if<Event>(&entry)) {
    put_varint(out, event->from);
    put_varint(out, event->number);
    put(out, event->bytes);
  } else if (const auto* const list = std::get_if<ReplicaList>(&entry)) {
    put_varint(out, list->epoch);
    put(out, list->replicas);
  } else {
    const auto& order = std::get<TransferOrder>(entry);
    put_varint(out, order.from);
    put_varint(out, order.to);
  }
}

bool take_bool(VarintReader& in) {
  return in.number(1) == 1;
}

std::vector<Replica> take_replicas(VarintReader& in) {
  std::vector<Replica> replicas(in.count(kMostReplicas));
  for (Replica& one : replicas) {
    one.member = in.number<MemberId>();
    one.id = in.number<ReplicaId>();
    one.is_complete = take_bool(in);
    one.is_stored = take_bool(in);
  }
  return replicas;
}

Entry take_entry(VarintReader& in) {
  switch (in.number<EntryKind>(static_cast<std::uint64_t>(EntryKind::end) - 1)) {
    case EntryKind::event: {
      Event event{.from = in.number<ReplicaId>(), .number = in.number(), .bytes = in.bytes()};
      if (event.bytes.size() > kMostEventBytes || event.number == 0) in.fail();
      return event;
    }
    case EntryKind::replica_list: return ReplicaList{in.number(), take_replicas(in)};
    case EntryKind::transfer_order: return TransferOrder{in.number<ReplicaId>(), in.number<ReplicaId>()};
    case EntryKind::end: break;
  }
  in.fail();
  return TransferOrder{};
}

/// The time is not negative in any message that this library makes.
std::int64_t take_time(VarintReader& in) {
  return in.number<std::int64_t>(INT64_MAX);
}

Hello take_hello(VarintReader& in) {
  Hello hello;
  hello.id = in.number<ReplicaId>();
  hello.is_complete = take_bool(in);
  hello.is_stored = take_bool(in);
  hello.loads_from = in.number<ReplicaId>();
  hello.stored.epoch = in.number();
  hello.stored.position = in.number();
  hello.stored.time = take_time(in);
  hello.persisted = in.number();
  return hello;
}

Result<void> check_version(VarintReader& in) {
  const auto version = in.number();
  if (!in.is_good()) return fail(Errc::protocol_error, "sent an empty message about a state");
  if (version != kVersion)
    return fail(Errc::version_mismatch, "speaks version " + std::to_string(version) +
                                            " of the messages about a state, we speak " +
                                            std::to_string(kVersion));
  return {};
}

std::unexpected<Error> malformed() {
  return fail(Errc::protocol_error, "sent a malformed message about a state");
}

}  // namespace

Bytes encode(const Batch& batch) {
  constexpr std::size_t kHead = 40;
  Bytes out;
  out.reserve(std::accumulate(batch.entries.begin(), batch.entries.end(), kHead,
                              [](std::size_t sum, const Entry& one) { return sum + length_of(one); }));
  put_varint(out, kVersion);
  put_varint(out, batch.position);
  put_varint(out, batch.time);
  put_varint(out, batch.seed);
  put_varint(out, batch.durable);
  put_varint(out, batch.entries.size());
  for (const Entry& entry : batch.entries) put(out, entry);
  return out;
}

Bytes encode(const Note& note) {
  constexpr std::size_t kHead = 32;
  const auto* const event = std::get_if<Forward>(&note);
  Bytes out;
  out.reserve(kHead + (event == nullptr ? 0 : event->bytes.size()));
  put_varint(out, kVersion);
  put_varint(out, note.index());
  if (const auto* const hello = std::get_if<Hello>(&note)) {
    put_varint(out, hello->id);
    put_varint(out, hello->is_complete);
    put_varint(out, hello->is_stored);
    put_varint(out, hello->loads_from);
    put_varint(out, hello->stored.epoch);
    put_varint(out, hello->stored.position);
    put_varint(out, hello->stored.time);
    put_varint(out, hello->persisted);
  } else if (const auto* const forward = std::get_if<Forward>(&note)) {
    put_varint(out, forward->number);
    put(out, forward->bytes);
  } else {
    put_varint(out, std::get<Persisted>(note).position);
  }
  return out;
}

Bytes encode(const SnapshotHead& head) {
  Bytes out;
  put_varint(out, kVersion);
  put_varint(out, head.position);
  put_varint(out, head.epoch);
  put_varint(out, head.time);
  put(out, head.replicas);
  put_varint(out, head.last.size());
  for (const auto& [replica, number] : head.last) {
    put_varint(out, replica);
    put_varint(out, number);
  }
  put_varint(out, head.departed.size());
  for (const MemberId member : head.departed) put_varint(out, member);
  return out;
}

Result<Batch> decode_batch(std::span<const std::byte> bytes) {
  VarintReader in(bytes);
  if (auto known = check_version(in); !known) return std::unexpected(known.error());
  Batch batch{.position = in.number(),
              .time = take_time(in),
              .seed = in.number(),
              .durable = in.number(),
              .entries = {}};
  const auto count = in.count();
  constexpr std::uint64_t kUsualEntries = 4096;  // Memory for more is taken only when they are there.
  batch.entries.reserve(std::min(count, kUsualEntries));
  for (std::uint64_t i = 0; i < count && in.is_good(); ++i) batch.entries.push_back(take_entry(in));
  if (!in.is_done() || batch.position + count < batch.position) return malformed();
  return batch;
}

Result<Note> decode_note(std::span<const std::byte> bytes) {
  VarintReader in(bytes);
  if (auto known = check_version(in); !known) return std::unexpected(known.error());
  Note note;
  switch (in.number<NoteKind>(static_cast<std::uint64_t>(NoteKind::end) - 1)) {
    case NoteKind::hello: note = take_hello(in); break;
    case NoteKind::forward: {
      const Forward forward{in.number(), in.bytes()};
      if (forward.bytes.size() > kMostEventBytes || forward.number == 0) in.fail();
      note = forward;
      break;
    }
    case NoteKind::persisted: note = Persisted{in.number()}; break;
    case NoteKind::end: return malformed();
  }
  if (!in.is_done()) return malformed();
  return note;
}

Result<SnapshotHead> decode_snapshot_head(std::span<const std::byte> bytes) {
  VarintReader in(bytes);
  if (auto known = check_version(in); !known) return std::unexpected(known.error());
  SnapshotHead head{
      .position = in.number(), .epoch = in.number(), .time = take_time(in), .replicas = take_replicas(in)};
  for (auto count = in.count(kMostReplicas); count > 0 && in.is_good(); --count) {
    const auto replica = in.number<ReplicaId>();
    head.last[replica] = in.number();
  }
  for (auto count = in.count(kMostReplicas); count > 0 && in.is_good(); --count)
    head.departed.push_back(in.number<MemberId>());
  if (!in.is_done()) return malformed();
  return head;
}

}  // namespace rdmc::state
