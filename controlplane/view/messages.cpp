#include "controlplane/view/messages.hpp"

#include <algorithm>

#include "controlplane/view/view_store.hpp"

// The generated code causes warnings at this project's warning level, so they are turned off for it.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "controlplane/view/view.pb.h"
#pragma GCC diagnostic pop

namespace rdmc::view {
namespace {

static_assert(kMaxMembers * (kMaxNameBytes + kMaxFabrics * (kMaxFabricBytes + 3) + 140 + 2 * 32) <
                  kMaxMessageBytes,
              "what has no more members than a view may have, and none that is malformed, can be read");

bool is_text(const std::string& text, std::size_t most_bytes) {
  return text.size() <= most_bytes &&
         std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
}

void store(wire::Member& to, const Member& from) {
  to.set_id(value_of(from.id));
  to.set_name(from.name);
  to.set_ip(from.address.ip().data(), from.address.ip().size());
  to.set_port(from.address.port);
  for (const std::string& fabric : from.fabrics) to.add_fabrics(fabric);
  to.set_since(value_of(from.since));
  to.set_host(from.host);
  to.set_lease_ns(static_cast<std::uint64_t>(from.lease.ns));
  if (from.process.pid == 0) return;
  wire::Process& process = *to.mutable_process();
  process.set_host(from.process.host);
  process.set_pid_namespace(from.process.pid_namespace);
  process.set_pid(from.process.pid);
  process.set_started(from.process.started);
  process.set_time_namespace(from.process.time_namespace);
}

Result<Member> load(const wire::Member& from) {
  Member to{
      .id = MemberId{from.id()}, .name = from.name(), .host = from.host(), .since = Epoch{from.since()}};
  to.address = Address{.ipv6 = from.ip().size() == 16, .port = static_cast<std::uint16_t>(from.port())};
  const bool ip = from.ip().size() == to.address.ip().size();
  if (ip) std::ranges::copy(from.ip(), reinterpret_cast<char*>(to.address.bytes.data()));
  to.fabrics.assign(from.fabrics().begin(), from.fabrics().end());
  const bool lease = from.lease_ns() <= static_cast<std::uint64_t>(kMaxLease.ns);
  if (lease) to.lease = nanoseconds(static_cast<std::int64_t>(from.lease_ns()));
  const wire::Process& process = from.process();
  to.process = {.host = process.host(),
                .pid_namespace = process.pid_namespace(),
                .pid = process.pid(),
                .started = process.started(),
                .time_namespace = process.time_namespace()};
  if (!ip || !lease || from.port() > 0xFFFF || !check(to))
    return fail(Errc::protocol_error, "sent a malformed member of a view");
  return to;
}

void store(wire::View& to, const View& from) {
  to.set_epoch(value_of(from.epoch));
  for (const Member& member : from.members) store(*to.add_members(), member);
  for (const Held& held : from.held) {
    wire::Held& one = *to.add_held();
    one.set_holder(value_of(held.holder));
    one.set_remaining_ns(static_cast<std::uint64_t>(held.remaining.ns));
  }
}

Result<View> load(const wire::View& from) {
  if (from.members_size() > static_cast<int>(kMaxMembers) ||
      from.held_size() > 2 * static_cast<int>(kMaxMembers))
    return fail(Errc::protocol_error, "sent a view of too many members");
  View to{.epoch = Epoch{from.epoch()}};
  MemberSet ids;
  std::set<Address> addresses;
  for (const wire::Member& member : from.members()) {
    auto loaded = load(member);
    if (!loaded) return std::unexpected(loaded.error());
    if (!ids.insert(loaded->id).second || !addresses.insert(loaded->address).second)
      return fail(Errc::protocol_error, "sent a view with one member twice");
    to.members.push_back(std::move(*loaded));
  }
  for (const wire::Held& held : from.held()) {
    if (held.remaining_ns() > static_cast<std::uint64_t>(kMaxHeld.ns))
      return fail(Errc::protocol_error, "sent a view with a lease that is too long");
    to.held.push_back({MemberId{held.holder()}, nanoseconds(static_cast<std::int64_t>(held.remaining_ns()))});
  }
  return to;
}

Result<Status> load(const wire::Status& from) {
  constexpr int kMost = 2 * static_cast<int>(kMaxMembers);
  if (from.hears_size() > kMost || from.gone_size() > kMost || from.granted_size() > kMost ||
      from.exited_size() > kMost)
    return fail(Errc::protocol_error, "sent a status with too many members");
  Status to{.from = MemberId{from.from()}, .sequence = from.sequence(), .epoch = Epoch{from.epoch()}};
  to.hears.reserve(static_cast<std::size_t>(from.hears_size()));
  for (const auto id : from.hears()) to.hears.insert(MemberId{id});
  for (const auto id : from.gone()) to.gone.insert(MemberId{id});
  to.asks = from.asks();
  for (const wire::Granted& one : from.granted())
    to.granted.push_back({MemberId{one.holder()}, one.sequence()});
  for (const auto id : from.exited()) to.exited.insert(MemberId{id});
  if (!from.has_joining()) return to;
  auto joining = load(from.joining());
  if (!joining) return std::unexpected(joining.error());
  if (joining->id != to.from) return fail(Errc::protocol_error, "asks to join as somebody else");
  to.joining = std::move(*joining);
  return to;
}

template <typename Wire>
Bytes serialize(const Wire& from) {
  Bytes bytes(from.ByteSizeLong());
  from.SerializeToArray(bytes.data(), static_cast<int>(bytes.size()));
  return bytes;
}

template <typename Wire>
Result<Wire> parse(std::span<const std::byte> bytes) {
  Wire to;
  if (bytes.size() > kMaxMessageBytes || !to.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return fail(Errc::protocol_error, "sent a malformed message about views");
  return to;
}

}  // namespace

Result<void> check(const Member& member) {
  const bool fabrics = member.fabrics.size() <= kMaxFabrics &&
                       std::ranges::all_of(member.fabrics, [](const std::string& fabric) {
                         return is_text(fabric, kMaxFabricBytes);
                       });
  const bool lease = member.lease == Duration{} || (member.lease >= kMinLease && member.lease <= kMaxLease);
  if (!fabrics || !lease || !is_text(member.name, kMaxNameBytes))
    return fail(Errc::invalid_argument, "a member's name, fabrics or lease that no view can hold");
  return {};
}

Result<void> check_group(const std::string& name) {
  if (!name.empty() && is_text(name, kMaxGroupBytes) && !is_claim(name)) return {};
  return fail(Errc::invalid_argument, "a group's name has 1 to " + std::to_string(kMaxGroupBytes) +
                                          " bytes, no control characters, and does not end in " +
                                          std::string(kClaimSuffix));
}

Bytes encode(const Message& message) {
  wire::Envelope envelope;
  if (const View* const agreed = std::get_if<View>(&message)) {
    store(*envelope.mutable_agreed(), *agreed);
    return serialize(envelope);
  }
  const Status& from = std::get<Status>(message);
  wire::Status& to = *envelope.mutable_status();
  to.set_from(value_of(from.from));
  to.set_sequence(from.sequence);
  to.set_epoch(value_of(from.epoch));
  for (const MemberId id : from.hears) to.add_hears(value_of(id));
  for (const MemberId id : from.gone) to.add_gone(value_of(id));
  to.set_asks(from.asks);
  for (const Granted& granted : from.granted) {
    wire::Granted& one = *to.add_granted();
    one.set_holder(value_of(granted.holder));
    one.set_sequence(granted.sequence);
  }
  for (const MemberId id : from.exited) to.add_exited(value_of(id));
  if (from.joining) store(*to.mutable_joining(), *from.joining);
  return serialize(envelope);
}

Result<Message> decode(std::span<const std::byte> bytes) {
  const auto envelope = parse<wire::Envelope>(bytes);
  if (!envelope) return std::unexpected(envelope.error());
  const auto as_message = [](auto loaded) -> Result<Message> {
    if (!loaded) return std::unexpected(loaded.error());
    return Message(std::move(*loaded));
  };
  if (envelope->has_agreed()) return as_message(load(envelope->agreed()));
  if (envelope->has_status()) return as_message(load(envelope->status()));
  return fail(Errc::protocol_error, "sent a message about views of an unknown kind");
}

Bytes encode_view(const View& view) {
  wire::View to;
  store(to, view);
  return serialize(to);
}

Result<View> decode_view(std::span<const std::byte> bytes) {
  const auto view = parse<wire::View>(bytes);
  if (!view) return std::unexpected(view.error());
  return load(*view);
}

}  // namespace rdmc::view
