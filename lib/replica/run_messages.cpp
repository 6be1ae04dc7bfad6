#include "lib/replica/run_messages.hpp"

#include <algorithm>
#include <limits>

#include "lib/replica/run_link.pb.h"

namespace rdmc::replica {
namespace {

constexpr std::size_t kRunNameBytes = 32;

std::unexpected<Error> malformed(const char* what) {
  return fail(Errc::protocol_error, std::string("sent ") + what);
}

template <typename Wire>
Bytes serialized(const Wire& wire) {
  Bytes bytes(wire.ByteSizeLong());
  wire.SerializeToArray(bytes.data(), static_cast<int>(bytes.size()));
  return bytes;
}

template <typename Wire>
bool parse(Wire& wire, std::span<const std::byte> bytes) {
  return wire.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

void put(wire::Address& to, const Address& from) {
  to.set_ip(from.ip().data(), from.ip().size());
  to.set_port(from.port);
}

std::optional<Address> address_of(const wire::Address& in) {
  const std::string& ip = in.ip();
  if ((ip.size() != 4 && ip.size() != 16) || in.port() == 0 || in.port() > 0xFFFF) return std::nullopt;
  Address address{.ipv6 = ip.size() == 16, .port = static_cast<std::uint16_t>(in.port())};
  std::ranges::copy(ip, reinterpret_cast<char*>(address.bytes.data()));
  return address;
}

void put(wire::FromProcess& to, const Done&) {
  to.mutable_done();
}
void put(wire::FromProcess& to, const Finished& finished) {
  auto& out = *to.mutable_finished();
  out.set_messages(finished.counters.messages);
  out.set_acknowledgements(finished.counters.acknowledgements);
  out.set_syncs(finished.counters.syncs);
  out.set_connections(finished.counters.connections);
  out.set_uncompared(finished.counters.uncompared);
}
void put(wire::FromProcess& to, const Abort& abort) {
  to.set_abort(static_cast<std::uint32_t>(abort.code));
}

void put(wire::FromProcess& to, const ForkReady& ready) {
  to.mutable_fork_ready()->set_request(value_of(ready.request));
}
void put(wire::FromProcess& to, const ForkRefused& refused) {
  to.mutable_fork_refused()->set_request(value_of(refused.request));
  to.mutable_fork_refused()->set_reason(refused.reason.substr(0, kMostCauseBytes));
  to.mutable_fork_refused()->set_is_final(refused.is_final);
}
void put(wire::FromProcess& to, const Forked& forked) {
  to.mutable_forked()->set_request(value_of(forked.request));
}

void put(wire::FromProcess& to, const SendDifference& difference) {
  auto& out = *to.mutable_difference();
  out.set_source(value_of(difference.source));
  out.set_context(static_cast<std::uint32_t>(difference.channel.context));
  out.set_destination(value_of(difference.channel.rank));
  out.set_tag(static_cast<std::uint32_t>(difference.channel.tag));
  out.set_sequence(difference.sequence);
  for (const auto& version : difference.versions) {
    auto& one = *out.add_versions();
    one.set_replica(version.replica);
    one.set_is_sent(version.sent.has_value());
    one.set_bytes(version.sent ? version.sent->bytes : 0);
    one.set_digest(version.sent ? version.sent->digest : 0);
  }
}

void put(wire::Event& to, const Died& died) {
  to.mutable_died()->set_process(value_of(died.process));
  to.mutable_died()->set_cause(died.cause.substr(0, kMostCauseBytes));
}
void put(wire::Event& to, const Joined& joined) {
  to.mutable_joined()->set_process(value_of(joined.process));
  put(*to.mutable_joined()->mutable_address(), joined.address);
}
void put(wire::Event& to, const Aborted& aborted) {
  to.set_aborted(static_cast<std::uint32_t>(aborted.code));
}
void put(wire::Event& to, const AllDone&) {
  to.mutable_all_done();
}

void put(wire::Event& to, const Recovering& recovering) {
  to.mutable_recovering()->set_process(value_of(recovering.process));
  to.mutable_recovering()->set_parent(value_of(recovering.parent));
}

void put(wire::ToProcess& to, const Started& started) {
  auto& out = *to.mutable_started();
  out.set_number(value_of(started.number));
  for (const auto& address : started.addresses) {
    auto* const one = out.add_addresses();
    if (address) put(*one, *address);
  }
}
void put(wire::ToProcess& to, const NumberedEvent& numbered) {
  auto& out = *to.mutable_event();
  out.set_number(value_of(numbered.number));
  std::visit([&](const auto& event) { put(out, event); }, numbered.event);
}
void put(wire::ToProcess& to, const Noted&) {
  to.mutable_noted();
}

void put(wire::ToProcess& to, const ForkRequest& request) {
  to.mutable_fork_request()->set_request(value_of(request.request));
  to.mutable_fork_request()->set_process(value_of(request.process));
}
void put(wire::ToProcess& to, const ForkNoted& noted) {
  to.mutable_fork_noted()->set_request(value_of(noted.request));
}

template <typename Wire, typename Message>
Bytes encode_as(const Message& message) {
  Wire wire;
  std::visit([&](const auto& one) { put(wire, one); }, message);
  return serialized(wire);
}

Result<FromProcess> take(const wire::SendDifference& in) {
  if (in.tag() > std::uint32_t{std::numeric_limits<std::int32_t>::max()})
    return malformed("a difference of a message with an impossible tag");
  if (static_cast<std::uint32_t>(in.versions_size()) > kMostDegree)
    return malformed("a difference between too many replicas");
  SendDifference difference{.source = Rank{in.source()},
                            .channel = {.context = ContextId{in.context()},
                                        .rank = Rank{in.destination()},
                                        .tag = static_cast<std::int32_t>(in.tag())},
                            .sequence = in.sequence(),
                            .versions = {}};
  for (const auto& one : in.versions()) {
    if (one.replica() >= kMostDegree) return malformed("a difference of an impossible replica");
    SendDifference::Version version{.replica = one.replica()};
    if (one.is_sent()) version.sent = {.bytes = one.bytes(), .digest = one.digest()};
    difference.versions.push_back(version);
  }
  return difference;
}

Result<ToProcess> take(const wire::Started& in, const Layout& layout) {
  if (static_cast<std::uint32_t>(in.addresses_size()) != layout.processes())
    return malformed("the addresses of another number of processes");
  Started started{EventNumber{in.number()}, {}};
  started.addresses.reserve(layout.processes());
  for (const auto& one : in.addresses()) {
    if (one.ip().empty()) {
      started.addresses.emplace_back();
    } else if (const auto address = address_of(one)) {
      started.addresses.emplace_back(*address);
    } else {
      return malformed("an address that is none");
    }
  }
  return started;
}

Result<ToProcess> take(const wire::Event& in, const Layout& layout) {
  const EventNumber number{in.number()};
  switch (in.body_case()) {
    case wire::Event::kDied:
      if (in.died().process() >= layout.processes()) return malformed("the death of an unknown process");
      return NumberedEvent{
          number, Died{ProcessId{in.died().process()}, in.died().cause().substr(0, kMostCauseBytes)}};
    case wire::Event::kJoined: {
      const auto address = address_of(in.joined().address());
      if (!address || in.joined().process() >= layout.processes())
        return malformed("an unknown process, or an address that is none");
      return NumberedEvent{number, Joined{ProcessId{in.joined().process()}, *address}};
    }
    case wire::Event::kAborted:
      if (in.aborted() > 255) return malformed("an exit code above 255");
      return NumberedEvent{number, Aborted{static_cast<int>(in.aborted())}};
    case wire::Event::kAllDone: return NumberedEvent{number, AllDone{}};
    case wire::Event::kRecovering: {
      const std::uint32_t process = in.recovering().process(), parent = in.recovering().parent();
      if (process >= layout.processes() || parent >= layout.processes() || process == parent ||
          layout.rank(ProcessId{process}) != layout.rank(ProcessId{parent}))
        return malformed("an impossible recovery");
      return NumberedEvent{number, Recovering{ProcessId{process}, ProcessId{parent}}};
    }
    case wire::Event::BODY_NOT_SET: break;
  }
  return malformed("an event of an unknown kind");
}

}  // namespace

Bytes encode(const Join& join) {
  wire::Join out;
  out.set_version(kRunVersion);
  out.set_run(join.run);
  out.set_process(value_of(join.process));
  out.set_pid(join.pid);
  put(*out.mutable_address(), join.address);
  out.set_recovery(value_of(join.recovery));
  out.set_last_event(value_of(join.last_event));
  return serialized(out);
}
Bytes encode(const FromProcess& message) {
  return encode_as<wire::FromProcess>(message);
}
Bytes encode(const ToProcess& message) {
  return encode_as<wire::ToProcess>(message);
}

Result<Join> decode_join(std::span<const std::byte> bytes, const Layout& layout) {
  wire::Join in;
  if (!parse(in, bytes)) return malformed("a malformed greeting");
  if (in.version() != kRunVersion)
    return fail(Errc::version_mismatch, "the process speaks version " + std::to_string(in.version()) +
                                            " of the protocol of rdmc_run, we speak " +
                                            std::to_string(kRunVersion));
  const auto address = address_of(in.address());
  if (!address) return malformed("an address that is none");
  if (in.run().size() != kRunNameBytes) return malformed("a name of a run of another length");
  if (in.process() >= layout.processes()) return malformed("a number that no process of this run has");
  return Join{in.run(), ProcessId{in.process()},    in.pid(),
              *address, EventNumber{in.recovery()}, EventNumber{in.last_event()}};
}

Result<FromProcess> decode_from_process(std::span<const std::byte> bytes) {
  wire::FromProcess in;
  if (!parse(in, bytes)) return malformed("a malformed message");
  switch (in.body_case()) {
    case wire::FromProcess::kDone: return Done{};
    case wire::FromProcess::kFinished:
      return Finished{{.messages = in.finished().messages(),
                       .acknowledgements = in.finished().acknowledgements(),
                       .syncs = in.finished().syncs(),
                       .connections = in.finished().connections(),
                       .uncompared = in.finished().uncompared()}};
    case wire::FromProcess::kAbort:
      if (in.abort() < kLeastAbortCode || in.abort() > kMostAbortCode)
        return malformed("an exit code that is not from 1 to 123");
      return Abort{static_cast<int>(in.abort())};
    case wire::FromProcess::kForkReady: return ForkReady{ForkNumber{in.fork_ready().request()}};
    case wire::FromProcess::kForkRefused:
      return ForkRefused{ForkNumber{in.fork_refused().request()},
                         in.fork_refused().reason().substr(0, kMostCauseBytes), in.fork_refused().is_final()};
    case wire::FromProcess::kForked: return Forked{ForkNumber{in.forked().request()}};
    case wire::FromProcess::kDifference: return take(in.difference());
    case wire::FromProcess::BODY_NOT_SET: break;
  }
  return malformed("a message of an unknown kind");
}

Result<ToProcess> decode_to_process(std::span<const std::byte> bytes, const Layout& layout) {
  wire::ToProcess in;
  if (!parse(in, bytes)) return malformed("a malformed message");
  switch (in.body_case()) {
    case wire::ToProcess::kStarted: return take(in.started(), layout);
    case wire::ToProcess::kEvent: return take(in.event(), layout);
    case wire::ToProcess::kNoted: return Noted{};
    case wire::ToProcess::kForkRequest:
      if (in.fork_request().process() >= layout.processes())
        return malformed("a request to be forked for an unknown process");
      return ForkRequest{ForkNumber{in.fork_request().request()}, ProcessId{in.fork_request().process()}};
    case wire::ToProcess::kForkNoted: return ForkNoted{ForkNumber{in.fork_noted().request()}};
    case wire::ToProcess::BODY_NOT_SET: break;
  }
  return malformed("a message of an unknown kind");
}

}  // namespace rdmc::replica
