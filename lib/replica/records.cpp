#include "lib/replica/records.hpp"

#include <cassert>
#include <limits>

#include "dataplane/base/bytes.hpp"

namespace rdmc::replica {
namespace {

enum class Kind : std::uint8_t {
  eager = 1,
  announcement,
  grant,
  consumed,
  acknowledgement,
  question,
  sighting,
  fence,
  send_report,
  sends_ended,
  chase
};

constexpr std::size_t kEnvelopeBytes = 16, kAnnouncementBytes = kEnvelopeBytes + 16, kGrantBytes = 32,
                      kConsumedBytes = 8, kAcknowledgementBytes = 16, kSightBytes = 16, kFenceBytes = 16,
                      kReportBytes = 16, kChaseBytes = kSightBytes + 16;
static_assert(kEagerHeadBytes == kRecordHeadBytes + kEnvelopeBytes);
static_assert(kSendReportHeadBytes == kRecordHeadBytes + kReportBytes);
static_assert(kLongestRecordBytes == kRecordHeadBytes + kAnnouncementBytes &&
              kAnnouncementBytes >= kGrantBytes && kAnnouncementBytes >= kChaseBytes);

void put(std::byte* out, const Envelope& envelope) {
  store_be(out, static_cast<std::uint32_t>(envelope.context));
  store_be(out + 4, envelope.source);
  store_be(out + 8, static_cast<std::uint32_t>(envelope.tag));
  store_be(out + 12, envelope.sequence);
}

Envelope envelope_at(const std::byte* from) {
  return {.context = ContextId{load_be<std::uint32_t>(from)},
          .source = load_be<std::uint32_t>(from + 4),
          .tag = static_cast<std::int32_t>(load_be<std::uint32_t>(from + 8)),
          .sequence = load_be<std::uint32_t>(from + 12)};
}

void put_head(std::byte* out, Kind kind, std::size_t body) {
  store_be(out, static_cast<std::uint32_t>(kind) << 24);
  store_be(out + 4, static_cast<std::uint32_t>(body));
}

std::size_t put_body(std::byte* out, const Eager& eager) {
  put(out, eager.envelope);
  std::ranges::copy(eager.bytes, out + kEnvelopeBytes);
  return kEnvelopeBytes + eager.bytes.size();
}

std::size_t put_body(std::byte* out, const Announcement& announcement) {
  put(out, announcement.envelope);
  store_be(out + 16, announcement.transfer);
  store_be(out + 20, std::uint32_t{0});
  store_be(out + 24, announcement.bytes);
  return kAnnouncementBytes;
}

std::size_t put_body(std::byte* out, const Grant& grant) {
  store_be(out, grant.transfer);
  store_be(out + 4, grant.arrival);
  store_be(out + 8, grant.bytes);
  store_be(out + 16, grant.remote_address);
  store_be(out + 24, value_of(grant.remote_key));
  store_be(out + 28, std::uint32_t{0});
  return kGrantBytes;
}

std::size_t put_body(std::byte* out, const Consumed& consumed) {
  store_be(out, consumed.bytes);
  return kConsumedBytes;
}

std::size_t put_body(std::byte* out, const Acknowledgement& acknowledgement) {
  store_be(out, static_cast<std::uint32_t>(acknowledgement.context));
  store_be(out + 4, static_cast<std::uint32_t>(acknowledgement.tag));
  store_be(out + 8, acknowledgement.sequence);
  store_be(out + 12, std::uint32_t{0});
  return kAcknowledgementBytes;
}

std::size_t put(std::byte* out, const Sight& sight) {
  store_be(out, static_cast<std::uint32_t>(sight.channel.context));
  store_be(out + 4, value_of(sight.channel.rank));
  store_be(out + 8, static_cast<std::uint32_t>(sight.channel.tag));
  store_be(out + 12, sight.sequence);
  return kSightBytes;
}

std::size_t put_body(std::byte* out, const Question& question) {
  return put(out, question.sight);
}

std::size_t put_body(std::byte* out, const Sighting& sighting) {
  return put(out, sighting.sight);
}

std::size_t put_body(std::byte* out, const Fence& fence) {
  store_be(out, fence.number);
  store_be(out + 8, std::uint32_t{fence.is_answer});
  store_be(out + 12, std::uint32_t{0});
  return kFenceBytes;
}

std::size_t put_body(std::byte* out, const SendReport& report) {
  put(out, Sight{.channel = report.channel, .sequence = report.first});
  std::ranges::copy(report.sent, out + kReportBytes);
  return kReportBytes + report.sent.size();
}

std::size_t put_body(std::byte*, const SendsEnded&) {
  return 0;
}

std::size_t put_body(std::byte* out, const Chase& chase) {
  put(out, chase.sight);
  store_be(out + kSightBytes, chase.origin);
  store_be(out + kSightBytes + 4, std::uint32_t{0});
  store_be(out + kSightBytes + 8, chase.number);
  return kChaseBytes;
}

Sight sight_at(const std::byte* from) {
  return {.channel = {.context = ContextId{load_be<std::uint32_t>(from)},
                      .rank = Rank{load_be<std::uint32_t>(from + 4)},
                      .tag = static_cast<std::int32_t>(load_be<std::uint32_t>(from + 8))},
          .sequence = load_be<std::uint32_t>(from + 12)};
}

std::unexpected<Error> bad(const char* what) {
  return fail(Errc::protocol_error, what);
}

}  // namespace

std::size_t encoded_bytes(const Record& record) {
  if (const auto* eager = std::get_if<Eager>(&record)) return kEagerHeadBytes + eager->bytes.size();
  if (const auto* report = std::get_if<SendReport>(&record))
    return kSendReportHeadBytes + report->sent.size();
  constexpr std::size_t kBodies[] = {0,
                                     kAnnouncementBytes,
                                     kGrantBytes,
                                     kConsumedBytes,
                                     kAcknowledgementBytes,
                                     kSightBytes,
                                     kSightBytes,
                                     kFenceBytes,
                                     0,
                                     0,
                                     kChaseBytes};
  return kRecordHeadBytes + kBodies[record.index()];
}

std::size_t encode(const Record& record, std::span<std::byte> out) {
  assert(out.size() >= encoded_bytes(record));
  const std::size_t bytes =
      std::visit([&](const auto& one) { return put_body(out.data() + kRecordHeadBytes, one); }, record);
  put_head(out.data(), static_cast<Kind>(record.index() + 1), bytes);
  return kRecordHeadBytes + bytes;
}

void put_sent(std::byte* out, const SentMessages& sent) {
  store_be(out, sent.count);
  store_be(out + 4, std::uint32_t{0});
  store_be(out + 8, sent.bytes);
  store_be(out + 16, sent.digest);
}

Result<SentMessages> sent_at(std::span<const std::byte> sent, std::size_t index) {
  const std::byte* const at = sent.subspan(index * kSentMessagesBytes, kSentMessagesBytes).data();
  const SentMessages found{.count = load_be<std::uint32_t>(at),
                           .bytes = load_be<std::uint64_t>(at + 8),
                           .digest = load_be<std::uint64_t>(at + 16)};
  if (load_be<std::uint32_t>(at + 4) != 0) return bad("record: padding is not zero");
  if (found.count == 0 || found.count > kMostSentMessages)
    return bad("record: an impossible number of messages");
  if (found.bytes > std::numeric_limits<std::int64_t>::max() && found.bytes != SentMessages::kUnknown)
    return bad("record: a message of an impossible length");
  return found;
}

Result<Record> RecordReader::next() {
  if (rest_.size() < kRecordHeadBytes) return bad("record: cut off");
  const auto head = load_be<std::uint32_t>(rest_.data());
  const auto bytes = load_be<std::uint32_t>(rest_.data() + 4);
  if ((head & 0xFF'FFFF) != 0) return bad("record: padding is not zero");
  if (bytes > rest_.size() - kRecordHeadBytes) return bad("record: longer than its frame");
  const auto body = rest_.subspan(kRecordHeadBytes, bytes);
  rest_ = rest_.subspan(kRecordHeadBytes + bytes);
  switch (static_cast<Kind>(head >> 24)) {
    case Kind::eager: {
      if (bytes < kEnvelopeBytes) break;
      const Eager eager{.envelope = envelope_at(body.data()), .bytes = body.subspan(kEnvelopeBytes)};
      if (eager.envelope.tag < 0) return bad("record: a message with an impossible tag");
      return eager;
    }
    case Kind::announcement: {
      if (bytes != kAnnouncementBytes) break;
      const Announcement announcement{.envelope = envelope_at(body.data()),
                                      .transfer = load_be<std::uint32_t>(&body[16]),
                                      .bytes = load_be<std::uint64_t>(&body[24])};
      if (announcement.envelope.tag < 0) return bad("record: a message with an impossible tag");
      if (load_be<std::uint32_t>(&body[20]) != 0) return bad("record: padding is not zero");
      if (announcement.bytes > std::numeric_limits<std::int64_t>::max())
        return bad("record: a message of an impossible length");
      return announcement;
    }
    case Kind::grant: {
      if (bytes != kGrantBytes) break;
      if (load_be<std::uint32_t>(&body[28]) != 0) return bad("record: padding is not zero");
      return Grant{.transfer = load_be<std::uint32_t>(&body[0]),
                   .arrival = load_be<std::uint32_t>(&body[4]),
                   .bytes = load_be<std::uint64_t>(&body[8]),
                   .remote_address = load_be<std::uint64_t>(&body[16]),
                   .remote_key = RemoteKey{load_be<std::uint32_t>(&body[24])}};
    }
    case Kind::consumed:
      if (bytes != kConsumedBytes) break;
      return Consumed{load_be<std::uint64_t>(&body[0])};
    case Kind::acknowledgement: {
      if (bytes != kAcknowledgementBytes) break;
      const Acknowledgement acknowledgement{
          .context = ContextId{load_be<std::uint32_t>(&body[0])},
          .tag = static_cast<std::int32_t>(load_be<std::uint32_t>(&body[4])),
          .sequence = load_be<std::uint32_t>(&body[8])};
      if (acknowledgement.tag < 0) return bad("record: an acknowledgement with an impossible tag");
      if (load_be<std::uint32_t>(&body[12]) != 0) return bad("record: padding is not zero");
      return acknowledgement;
    }
    case Kind::question:
    case Kind::sighting: {
      if (bytes != kSightBytes) break;
      const Sight sight = sight_at(body.data());
      if (sight.channel.tag < 0) return bad("record: a channel with an impossible tag");
      if (static_cast<Kind>(head >> 24) == Kind::question) return Question{sight};
      return Sighting{sight};
    }
    case Kind::fence: {
      if (bytes != kFenceBytes) break;
      const auto is_answer = load_be<std::uint32_t>(&body[8]);
      if (is_answer > 1 || load_be<std::uint32_t>(&body[12]) != 0) return bad("record: padding is not zero");
      return Fence{.number = load_be<std::uint64_t>(&body[0]), .is_answer = is_answer == 1};
    }
    case Kind::send_report: {
      if (bytes < kReportBytes || (bytes - kReportBytes) % kSentMessagesBytes != 0) break;
      const Sight channel = sight_at(body.data());
      if (channel.channel.tag < 0) return bad("record: a channel with an impossible tag");
      return SendReport{
          .channel = channel.channel, .first = channel.sequence, .sent = body.subspan(kReportBytes)};
    }
    case Kind::sends_ended:
      if (bytes != 0) break;
      return SendsEnded{};
    case Kind::chase: {
      if (bytes != kChaseBytes) break;
      const Sight sight = sight_at(body.data());
      if (sight.channel.tag < 0) return bad("record: a channel with an impossible tag");
      if (load_be<std::uint32_t>(&body[kSightBytes + 4]) != 0) return bad("record: padding is not zero");
      return Chase{.sight = sight,
                   .origin = load_be<std::uint32_t>(&body[kSightBytes]),
                   .number = load_be<std::uint64_t>(&body[kSightBytes + 8])};
    }
    default: return bad("record: of an unknown kind");
  }
  return bad("record: of a wrong length");
}

}  // namespace rdmc::replica
