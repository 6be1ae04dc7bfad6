#include "apps/tools/ping_link.hpp"

#include <string>

#include "dataplane/base/clock.hpp"

namespace rdmc::tools {
namespace {

/// The time for which a silent requester is kept while others wait. It is long enough for the reply of this
/// side and two repetitions of the reply. A requester that answers none of these is dropped.
constexpr Duration kGrace = milliseconds(2500);
/// rping needs one READ at a time in each direction.
constexpr std::uint8_t kReadsAtOnce = 1;
constexpr std::uint32_t kReceives = 2;

std::string reason_of(const cm::Event& event) {
  if (event.kind == cm::Event::Kind::unreachable) return "the peer does not answer";
  return "the peer refused: " + cm::explain(event.reason);
}

/// Returns the reason for the reject message to a peer with which no connection is possible.
cm::RejectReason reason_for(const Error& error) {
  switch (error.code) {
    case Errc::unsupported: return cm::RejectReason::invalid_path_mtu;
    case Errc::resource_limit: return cm::RejectReason::no_resources;
    default: return cm::RejectReason::consumer;
  }
}

}  // namespace

Result<PingMemory> PingMemory::make(ForeignHost& host, std::uint32_t size_bytes, RemoteAccess access) {
  PingMemory memory{.bytes = std::vector<std::byte>(size_bytes), .region = nullptr};
  if (access == RemoteAccess::none) return memory;
  auto region = host.fabric().register_memory(memory.bytes, fabric::MemoryUse::general, access);
  if (!region) return std::unexpected(region.error());
  memory.region = std::move(*region);
  return memory;
}

Result<cm::Event> PingLink::wait_for_event() {
  auto& events = connections_->events();
  if (!host_->run_until([&] { return !events.empty(); }, monotonic_now() + patience_))
    return fail(Errc::timed_out, "no connection came about");
  cm::Event event = std::move(events.front());
  events.pop_front();
  return event;
}

// A receive is posted before the peer can send, because rping allows no retry after an RNR NAK.
Result<void> PingLink::prepare(std::uint32_t path_mtu) {
  auto end = host_->create(path_mtu, kReceives, kReadsAtOnce);
  if (!end) return std::unexpected(end.error());
  end_ = std::move(*end);
  path_mtu_ = path_mtu;
  return end_.queue_pair->post_receive({.work_id = 0, .bytes = messages_->incoming});
}

cm::QueuePairParameters PingLink::parameters() const {
  return {.qpn = end_.info.qpn,
          .starting_psn = end_.info.first_psn,
          .responder_resources = kReadsAtOnce,
          .initiator_depth = kReadsAtOnce};
}

Result<void> PingLink::join(const cm::Event& event) {
  return ForeignHost::connect(end_, {.address = peer_,
                                     .qpn = event.peer_queue_pair.qpn,
                                     .first_psn = event.peer_queue_pair.starting_psn,
                                     .psn_for_other = true,
                                     .reads_at_once = event.peer_queue_pair.responder_resources});
}

Result<PingLink> PingLink::connect(ForeignHost& host, ConnectionManager& connections, const Address& server,
                                   std::uint32_t path_mtu, Duration patience) {
  PingLink link(host, connections, patience);
  link.peer_ = server;
  if (auto prepared = link.prepare(path_mtu); !prepared) return std::unexpected(prepared.error());
  const auto id = connections.manager().connect(server, link.parameters(), path_mtu, monotonic_now());
  if (!id) return std::unexpected(id.error());
  link.connection_ = *id;
  const auto event = link.wait_for_event();
  if (!event) return std::unexpected(event.error());
  if (event->kind != cm::Event::Kind::accepted) return fail(Errc::peer_failed, reason_of(*event));
  if (auto joined = link.join(*event); !joined) {
    connections.disconnect(*id);
    return std::unexpected(joined.error());
  }
  connections.manager().confirm(*id);
  return link;
}

Result<PingLink> PingLink::accept(ForeignHost& host, ConnectionManager& connections, Others others,
                                  Duration patience) {
  const Time deadline = monotonic_now() + patience;
  auto& requests = connections.requests();
  std::string refused;
  while (host.run_until([&] { return !requests.empty(); }, deadline)) {
    const cm::Event request = std::move(requests.front());
    requests.pop_front();
    connections.events().clear();  // These events belong to earlier connections.
    PingLink link(host, connections, patience);
    const auto met = link.meet(request);
    if (met) {
      link.others_ = others;
      return link;
    }
    refused = "; " + host_string(request.peer) + " came, but: " + met.error().what;
  }
  return fail(Errc::timed_out, "no connection came about" + refused);
}

// Connects to the requester. A peer that requests a connection and then stays silent is given up, and the
// next requester is served.
Result<void> PingLink::meet(const cm::Event& request) {
  connection_ = request.connection;
  peer_ = request.peer;
  // The server of rping gets the text by a READ, so the client must accept READs.
  if (request.peer_queue_pair.responder_resources == 0) {
    connections_->reject(connection_, cm::RejectReason::too_few_responder_resources);
    return fail(Errc::unsupported, "it can have no READ under way");
  }
  auto ready = prepare(request.path_mtu);
  if (ready) ready = join(request);
  if (!ready) {
    connections_->reject(connection_, reason_for(ready.error()));
    return ready;
  }
  connections_->manager().accept(connection_, parameters(), monotonic_now());
  auto met = wait_for_confirmation();
  if (met && !established_) met = fail(Errc::peer_failed, "the peer disconnected");
  if (!met) connections_->reject(connection_, cm::RejectReason::timeout);
  return met;
}

Result<void> PingLink::wait_for_confirmation() {
  const auto settled = [this] { return established_ || disconnected_; };
  const Duration grace = std::min(kGrace, patience_);
  auto met = wait_until(settled, grace);
  if (met || met.error().code != Errc::timed_out) return met;
  const auto others_wait = [this] { return !connections_->requests().empty(); };
  met = wait_until([&] { return settled() || others_wait(); }, patience_ - grace);
  if (met && !settled()) return fail(Errc::timed_out, "the peer fell silent, and others wait");
  return met;
}

Result<void> PingLink::poll() {
  std::array<fabric::Completion, 4> completions;
  const std::size_t count = end_.queue_pair->poll_completions(completions);
  for (const fabric::Completion& completion : std::span(completions).first(count)) {
    if (completion.status != fabric::WorkStatus::success)
      return fail(Errc::peer_failed,
                  std::string(fabric::name(completion.status)) + ": " + end_.queue_pair->error_cause());
    if (completion.kind != fabric::WorkKind::receive) {
      ++done_;
      continue;
    }
    ++received_;
    received_bytes_ = completion.byte_count;
    connections_->manager().on_data(connection_, monotonic_now());
  }
  for (auto& events = connections_->events(); !events.empty(); events.pop_front()) {
    const cm::Event& event = events.front();
    if (event.connection != connection_) continue;  // This event belongs to an earlier connection.
    if (event.kind == cm::Event::Kind::rejected || event.kind == cm::Event::Kind::unreachable)
      return fail(Errc::peer_failed, reason_of(event));
    established_ = established_ || event.kind == cm::Event::Kind::established;
    disconnected_ = disconnected_ || event.kind == cm::Event::Kind::disconnected;
  }
  if (others_ == Others::refuse) {  // Only one client is served.
    for (auto& requests = connections_->requests(); !requests.empty();) {
      const cm::CommunicationId other = requests.front().connection;
      requests.pop_front();
      connections_->reject(other, cm::RejectReason::no_resources);
    }
  }
  return {};
}

template <typename Condition>
Result<void> PingLink::wait_until(Condition condition, Duration patience) {
  Result<void> polled;
  const auto settled = [&] {
    polled = poll();
    return !polled || condition();
  };
  if (!host_->run_until(settled, monotonic_now() + patience))
    return fail(Errc::timed_out, "the peer fell silent");
  return polled;
}

Result<void> PingLink::tell(const PingBuffer& buffer) {
  messages_->outgoing = encode(buffer);
  if (auto posted = end_.queue_pair->post_send({.work_id = 0, .bytes = messages_->outgoing}); !posted)
    return posted;
  // A peer that has finished disconnects, so its last acknowledgement may be lost.
  return wait_until([this, before = done_] { return done_ != before || disconnected_; });
}

Result<PingBuffer> PingLink::receive_buffer() {
  const auto more = wait_for_message();
  if (!more) return std::unexpected(more.error());
  if (!*more) return fail(Errc::peer_failed, "the peer disconnected");
  const auto buffer = decode_ping_buffer(std::span(messages_->incoming).first(received_bytes_));
  if (!buffer) return fail(Errc::protocol_error, "a message that is not rping's");
  ++taken_;
  // The peer sends its next message only after this side has answered the current one.
  if (auto posted = end_.queue_pair->post_receive({.work_id = 0, .bytes = messages_->incoming}); !posted)
    return std::unexpected(posted.error());
  return *buffer;
}

Result<void> PingLink::read(std::span<std::byte> into, const PingBuffer& from) {
  if (auto posted = end_.queue_pair->post_read(
          {.work_id = 0, .bytes = into, .remote_address = from.address, .remote_key = from.key});
      !posted)
    return posted;
  return wait_until([this, before = done_] { return done_ != before; });
}

Result<void> PingLink::write(std::span<const std::byte> bytes, const PingBuffer& to) {
  if (auto posted = end_.queue_pair->post_write(
          {.work_id = 0, .bytes = bytes, .remote_address = to.address, .remote_key = to.key});
      !posted)
    return posted;
  return wait_until([this, before = done_] { return done_ != before; });
}

Result<bool> PingLink::wait_for_message() {
  if (auto waited = wait_until([this] { return received_ != taken_ || disconnected_; }); !waited)
    return std::unexpected(waited.error());
  return received_ != taken_;
}

Result<void> PingLink::wait_for_end(Duration patience) {
  return wait_until([this] { return disconnected_; }, patience);
}

Result<void> PingLink::end() {
  connections_->disconnect(connection_);
  return wait_for_end(patience_);
}

void PingLink::abandon() {
  connections_->disconnect(connection_);
}

}  // namespace rdmc::tools
