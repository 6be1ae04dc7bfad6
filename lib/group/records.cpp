#include "lib/group/records.hpp"

#include <algorithm>
#include <cassert>

#include "dataplane/base/bytes.hpp"

namespace rdmc::group {
namespace {

enum class Kind : std::uint8_t {
  of_group = 1,
  announcement,
  grant,
  end,
  small,
  report,
  verdict,
  note,
  mapped,
  not_made
};

constexpr std::size_t kPairBytes = 16, kPartBytes = 24, kNoteHead = 8, kGrantBody = 8 + relay::kGrantBytes,
                      kEndHead = 8, kReportBytes = 56, kMappedBytes = 32;
constexpr std::uint32_t kNobody = 0xFFFF'FFFF;
constexpr auto kLastCode = Errc::resource_limit;

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <typename... Cases>  // Clang 16, which builds the fuzz tests, needs this deduction guide.
Overloaded(Cases...)->Overloaded<Cases...>;

std::size_t body_bytes(const Record& record) {
  return std::visit(
      Overloaded{[](const OfGroup& of) { return of.name.part == 0 ? kPairBytes : kPartBytes; },
                 [](const Announcement& one) { return one.plan ? kPartBytes : kPairBytes; },
                 [](const GrantRecord&) { return kGrantBody; },
                 [](const End& end) { return kEndHead + std::min(end.what.size(), kMostEndText); },
                 [](const SmallMessage& small) { return 8 + small.bytes.size(); },
                 [](const Report&) { return kReportBytes; }, [](const Verdict&) { return kPairBytes; },
                 [](const Note& note) { return kNoteHead + note.bytes.size(); },
                 [](const MappedMessage&) { return kMappedBytes; },
                 [](const NotMade&) { return std::size_t{0}; }},
      record);
}

std::size_t put_pair(std::byte* out, std::uint64_t first, std::uint64_t second) {
  store_be(out, first);
  store_be(out + 8, second);
  return kPairBytes;
}

std::size_t put_end(std::byte* out, const End& end) {
  const std::size_t text = std::min(end.what.size(), kMostEndText);
  store_be(out, end.failed ? value_of(*end.failed) : kNobody);
  out[4] = static_cast<std::byte>(value_of(end.code));
  out[5] = std::byte{end.is_answer};
  out[6] = out[7] = std::byte{0};
  std::ranges::copy(std::as_bytes(std::span(end.what).first(text)), out + kEndHead);
  return kEndHead + text;
}

std::unexpected<Error> bad(const char* what) {
  return fail(Errc::protocol_error, what);
}

Result<Record> take_end(std::span<const std::byte> body) {
  if (body.size() < kEndHead || body.size() > kEndHead + kMostEndText)
    return bad("record: an end of a wrong length");
  const auto failed = load_be<std::uint32_t>(&body[0]);
  const auto code = static_cast<Errc>(body[4]);
  const auto answer = std::to_integer<std::uint8_t>(body[5]);
  if (code > kLastCode || answer > 1 || body[6] != std::byte{0} || body[7] != std::byte{0})
    return bad("record: an end that makes no sense");
  const auto text = body.subspan(kEndHead);
  return End{.is_answer = answer == 1,
             .failed = failed == kNobody ? std::nullopt : std::optional(Rank{failed}),
             .code = code,
             .what = {reinterpret_cast<const char*>(text.data()), text.size()}};
}

}  // namespace

std::size_t encoded_bytes(const Record& record) {
  return kRecordHeadBytes + body_bytes(record);
}

std::size_t encode(const Record& record, std::span<std::byte> out) {
  assert(out.size() >= encoded_bytes(record));
  std::byte* const body = out.data() + kRecordHeadBytes;
  const std::size_t bytes = std::visit(
      Overloaded{[&](const OfGroup& of) {
                   put_pair(body, of.name.number, of.name.epoch);
                   if (of.name.part == 0) return kPairBytes;
                   store_be(body + kPairBytes, of.name.part);
                   return kPartBytes;
                 },
                 [&](const Announcement& one) {
                   put_pair(body, one.message, one.bytes);
                   if (!one.plan) return kPairBytes;
                   store_be(body + kPairBytes, static_cast<std::uint32_t>(one.plan->algorithm));
                   store_be(body + kPairBytes + 4, one.plan->block_bytes);
                   return kPartBytes;
                 },
                 [&](const GrantRecord& one) {
                   store_be(body, one.message);
                   std::ranges::copy(relay::encode(one.grant), body + 8);
                   return kGrantBody;
                 },
                 [&](const End& end) { return put_end(body, end); },
                 [&](const SmallMessage& small) {
                   store_be(body, small.message);
                   std::ranges::copy(small.bytes, body + 8);
                   return 8 + small.bytes.size();
                 },
                 [&](const Report& report) {
                   put_pair(body, report.delivered, report.finished);
                   put_pair(body + kPairBytes, report.charge, report.closing);
                   store_be(body + 2 * kPairBytes, report.waited);
                   const Holder holder = report.holder.value_or(Holder{});
                   put_pair(body + 2 * kPairBytes + 8, value_of(holder.member), holder.message);
                   return kReportBytes;
                 },
                 [&](const Verdict& verdict) { return put_pair(body, verdict.stable, verdict.closed); },
                 [&](const Note& note) {
                   store_be(body, value_of(note.from));
                   store_be(body + 4, std::uint32_t{note.is_last});
                   std::ranges::copy(note.bytes, body + kNoteHead);
                   return kNoteHead + note.bytes.size();
                 },
                 [&](const MappedMessage& mapped) {
                   put_pair(body, mapped.message, mapped.bytes);
                   put_pair(body + kPairBytes, mapped.offer.arena, mapped.offer.offset);
                   return kMappedBytes;
                 },
                 [](const NotMade&) { return std::size_t{0}; }},
      record);
  store_be(out.data(), static_cast<std::uint32_t>(record.index() + 1) << 24);
  store_be(out.data() + 4, static_cast<std::uint32_t>(bytes));
  return kRecordHeadBytes + bytes;
}

Result<Record> RecordReader::next() {
  if (rest_.size() < kRecordHeadBytes) return bad("record: cut off");
  const auto head = load_be<std::uint32_t>(rest_.data());
  const auto bytes = load_be<std::uint32_t>(rest_.data() + 4);
  if ((head & 0xFF'FFFF) != 0) return bad("record: padding is not zero");
  if (bytes > rest_.size() - kRecordHeadBytes) return bad("record: longer than its frame");
  const auto body = rest_.subspan(kRecordHeadBytes, bytes);
  rest_ = rest_.subspan(kRecordHeadBytes + bytes);
  const auto pair = [&] {
    return std::pair(load_be<std::uint64_t>(&body[0]), load_be<std::uint64_t>(&body[8]));
  };
  switch (static_cast<Kind>(head >> 24)) {
    case Kind::of_group: {
      if (bytes != kPairBytes && bytes != kPartBytes) break;
      const auto part = bytes == kPartBytes ? load_be<std::uint64_t>(&body[kPairBytes]) : 0;
      if (bytes == kPartBytes && part == 0) return bad("record: a part that is none");
      return OfGroup{{.number = pair().first, .epoch = pair().second, .part = part}};
    }
    case Kind::announcement: {
      if (bytes != kPairBytes && bytes != kPartBytes) break;
      Announcement announcement{.message = pair().first, .bytes = pair().second};
      if (bytes == kPairBytes) return announcement;
      const auto algorithm = relay::algorithm_of(load_be<std::uint32_t>(&body[kPairBytes]));
      const auto block_bytes = load_be<std::uint32_t>(&body[kPairBytes + 4]);
      if (!algorithm || block_bytes == 0) return bad("record: a message that travels in no way");
      announcement.plan = relay::MessagePlan{*algorithm, block_bytes};
      return announcement;
    }
    case Kind::grant: {
      if (bytes != kGrantBody) break;
      auto grant = relay::decode_grant(body.subspan(8));
      if (!grant) return std::unexpected(grant.error());
      return GrantRecord{load_be<std::uint64_t>(&body[0]), *grant};
    }
    case Kind::end: return take_end(body);
    case Kind::small:
      if (bytes < 8) break;
      return SmallMessage{load_be<std::uint64_t>(&body[0]), body.subspan(8)};
    case Kind::report: {
      if (bytes != kReportBytes) break;
      const auto closing = load_be<std::uint64_t>(&body[24]);
      if (closing > 1) return bad("record: a report that makes no sense");
      const auto member = load_be<std::uint64_t>(&body[40]);
      const auto message = load_be<std::uint64_t>(&body[48]);
      if (member > UINT32_MAX || (member == 0 && message != 0))
        return bad("record: a report of a member that cannot be");
      std::optional<Holder> holder;
      if (member != 0) holder = {.member = Rank{static_cast<std::uint32_t>(member)}, .message = message};
      return Report{pair().first,
                    pair().second,
                    load_be<std::uint64_t>(&body[16]),
                    closing == 1,
                    load_be<std::uint64_t>(&body[32]),
                    holder};
    }
    case Kind::verdict:
      if (bytes != kPairBytes) break;
      if (pair().second > 1) return bad("record: a verdict that makes no sense");
      return Verdict{pair().first, pair().second == 1};
    case Kind::note: {
      if (bytes < kNoteHead) break;
      const auto last = load_be<std::uint32_t>(&body[4]);
      if (last > 1) return bad("record: a note that makes no sense");
      return Note{Rank{load_be<std::uint32_t>(&body[0])}, last == 1, body.subspan(kNoteHead)};
    }
    case Kind::mapped: {
      if (bytes != kMappedBytes) break;
      const auto arena = load_be<std::uint64_t>(&body[kPairBytes]);
      if (arena > 0xFFFF'FFFF) return bad("record: a mapped message that makes no sense");
      return MappedMessage{.message = pair().first,
                           .offer = {static_cast<std::uint32_t>(arena), load_be<std::uint64_t>(&body[24])},
                           .bytes = pair().second};
    }
    case Kind::not_made:
      if (bytes != 0) break;
      return NotMade{};
    default: return bad("record: of an unknown kind");
  }
  return bad("record: of a wrong length");
}

}  // namespace rdmc::group
