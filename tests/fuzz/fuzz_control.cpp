// Fuzzes the messages of the control plane, and SENDs between members. The first byte selects the parser for
// the other bytes. Besides crashes, the target checks two properties of an accepted message: it means the
// same after it is written and read again, and it needs at most a few times its size in memory.
#include <deque>

#include "apps/bcast-cli/transfer_messages.hpp"
#include "controlplane/connect/channel_protocol.hpp"
#include "controlplane/connect/framing.hpp"
#include "controlplane/connect/pingpong.hpp"
#include "controlplane/session/messages.hpp"
#include "controlplane/session/takeover.hpp"
#include "dataplane/fabric/connection_blob.hpp"
#include "lib/group/records.hpp"
#include "tests/fuzz/input.hpp"

using namespace rdmc;
using namespace rdmc::fuzz;

namespace {

void connection_blob(Bytes bytes) {
  const auto info = fabric::decode_connection(bytes);
  if (refused(info)) return;
  const auto blob = fabric::encode(*info);
  const auto again = fabric::decode_connection(blob);
  require(again.has_value() && fabric::encode(*again) == blob);
  const auto mtu = fabric::agree_path_mtu(*info, *again);
  require(refused(mtu) || (*mtu >= 256 && *mtu <= info->path_mtu));
}

void records(Bytes bytes) {
  for (group::RecordReader reader(bytes); !reader.done();) {
    const auto record = reader.next();
    if (refused(record)) return;
    std::vector<std::byte> written(group::encoded_bytes(*record));
    require(group::encode(*record, written) == written.size() && written.size() <= bytes.size());
    require(std::ranges::equal(written, bytes.first(written.size())));
    bytes = bytes.subspan(written.size());
  }
}

void job(Bytes bytes) {
  const auto job = bcast::decode_job(bytes);
  if (refused(job)) return;
  const auto again = bcast::decode_job(bcast::encode(*job));
  require(again.has_value() && *again == *job);
}

/// The input contains the size and the block size of a file, and then the parameters of an epoch of this
/// file.
void parameters(Bytes bytes) {
  Input input(bytes);
  const std::uint64_t size = std::uint64_t{input.next32()} << (input.next() & 31);
  const auto shape = bcast::FileShape::make(size, std::uint64_t{input.next()} * bcast::kMinBlockSize);
  if (refused(shape)) return;
  const auto rest = input.take(SIZE_MAX);
  const auto parameters = bcast::decode_parameters(rest, *shape);
  if (!refused(parameters)) {
    const auto again = bcast::decode_parameters(bcast::encode(*parameters), *shape);
    require(again.has_value() && *again == *parameters);
  }
  const auto map = bcast::BlockMap::decode(rest, shape->blocks());
  if (refused(map)) return;
  require(map->encode() == std::vector(rest.begin(), rest.end()) && map->count() <= shape->blocks());
}

void takeover(Bytes bytes) {
  const auto takeover = session::takeover_of(bytes);
  if (takeover) require(takeover->leader != session::kRoot);
}

void envelope(Bytes bytes) {
  const auto envelope = session::parse_envelope(bytes);
  if (refused(envelope)) return;
  const auto written = session::serialize(*envelope);
  const auto again = session::parse_envelope(written);
  require(again.has_value() && session::serialize(*again) == written);
  require(!session::name(*envelope).empty());
  if (envelope->has_failed()) {
    const Error error = session::load(envelope->failed().cause());
    require(session::printable(error.what) == error.what);
  }
}

/// A stream must give the same messages for all sizes of the pieces in which it arrives.
void frames(Bytes bytes) {
  constexpr std::uint32_t kLimit = 4096;
  const auto read = [&](std::size_t piece) {
    control::FrameReader reader(kLimit);
    std::deque<control::Message> messages;
    bool sound = true;
    for (Bytes rest = bytes; !rest.empty() && sound;) {
      const auto next = rest.first(std::min(piece, rest.size()));
      rest = rest.subspan(next.size());
      sound = !refused(reader.feed(next, messages));
    }
    return std::tuple(sound, reader.ended(), std::move(messages));
  };
  const auto whole = read(SIZE_MAX);
  require(read(1) == whole && read(7) == whole);
  for (const auto& message : std::get<2>(whole)) require(message.size() <= kLimit);
}

/// The input is what a server receives before the client has proved anything. The server has no key.
void channel(Bytes bytes) {
  control::ChannelProtocol server(control::Role::server, {.security = control::Insecure{}});
  server.start();
  Input input(bytes);
  while (!input.empty()) server.receive(input.take(1 + input.next()));
  require(server.output().size() <= 256);
  if (server.failure()) require(!server.failure()->what.empty());
}

void pingpong(Bytes bytes) {
  const auto end = control::decode_pingpong(bytes);
  if (refused(end)) return;
  const auto again = control::decode_pingpong(control::encode_pingpong(*end));
  require(again.has_value() && *again == *end);
}

constexpr std::array kReaders{connection_blob, records, job,     parameters, takeover,
                              envelope,        frames,  channel, pingpong};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return read_by_first_byte(kReaders, data, size);
}
