#include "apps/tools/ping_link.hpp"

#include <string>

#include "dataplane/base/clock.hpp"

namespace rdmc::tools {
namespace {

/// rping needs one each way.
constexpr std::uint8_t kReadsAtOnce = 1;
constexpr std::uint32_t kReceives = 2;

std::string reason_of(const cm::Event& event) {
  if (event.kind == cm::Event::Kind::unreachable) return "the peer does not answer";
  switch (event.reason) {
    case cm::RejectReason::invalid_service_id: return "the peer refused: nobody listens on that port";
    case cm::RejectReason::no_resources: return "the peer refused: it has no room";
    case cm::RejectReason::timeout: return "the peer gave up waiting";
    case cm::RejectReason::stale_connection: return "the peer refused: it knows this queue pair from before";
    case cm::RejectReason::consumer: return "the peer's program refused";
  }
  return "the peer refused for reason " + std::to_string(static_cast<unsigned>(event.reason));
}

}  // namespace

Result<PingMemory> PingMemory::make(StrangerHost& host, std::uint32_t size_bytes, RemoteAccess access) {
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

// A receive is posted before the peer can send: rping grants no second try.
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
  return StrangerHost::connect(end_, peer_, event.peer_queue_pair.qpn, event.peer_queue_pair.starting_psn,
                               true);
}

Result<PingLink> PingLink::connect(StrangerHost& host, ConnectionManager& connections, const Address& server,
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
    connections.manager().disconnect(*id, monotonic_now());
    return std::unexpected(joined.error());
  }
  connections.manager().confirm(*id);
  return link;
}

Result<PingLink> PingLink::accept(StrangerHost& host, ConnectionManager& connections, std::uint16_t port,
                                  Duration patience) {
  PingLink link(host, connections, patience);
  if (auto listening = connections.manager().listen(port); !listening)
    return std::unexpected(listening.error());
  const auto event = link.wait_for_event();
  if (!event) return std::unexpected(event.error());
  link.connection_ = event->connection;
  link.peer_ = event->peer;
  auto ready = link.prepare(event->path_mtu);
  if (ready) ready = link.join(*event);
  if (!ready) {
    connections.manager().reject(event->connection, cm::RejectReason::consumer, monotonic_now());
    return std::unexpected(ready.error());
  }
  connections.manager().accept(event->connection, link.parameters(), monotonic_now());
  return link;
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
    if (event.connection != connection_) {  // one client is enough
      if (event.kind == cm::Event::Kind::requested)
        connections_->manager().reject(event.connection, cm::RejectReason::no_resources, monotonic_now());
      continue;
    }
    if (event.kind == cm::Event::Kind::rejected || event.kind == cm::Event::Kind::unreachable)
      return fail(Errc::peer_failed, reason_of(event));
    disconnected_ = disconnected_ || event.kind == cm::Event::Kind::disconnected;
  }
  return {};
}

template <typename Condition>
Result<void> PingLink::wait_until(Condition condition) {
  Result<void> polled;
  const auto settled = [&] {
    polled = poll();
    return !polled || condition();
  };
  if (!host_->run_until(settled, monotonic_now() + patience_))
    return fail(Errc::timed_out, "the peer fell silent");
  return polled;
}

Result<void> PingLink::tell(const PingBuffer& buffer) {
  messages_->outgoing = encode(buffer);
  if (auto posted = end_.queue_pair->post_send({.work_id = 0, .bytes = messages_->outgoing}); !posted)
    return posted;
  // Who has what it wanted disconnects, and its last acknowledgement may have been lost.
  return wait_until([this, before = done_] { return done_ != before || disconnected_; });
}

Result<PingBuffer> PingLink::receive_buffer() {
  const auto more = wait_for_message();
  if (!more) return std::unexpected(more.error());
  if (!*more) return fail(Errc::peer_failed, "the peer disconnected");
  const auto buffer = decode_ping_buffer(std::span(messages_->incoming).first(received_bytes_));
  if (!buffer) return fail(Errc::protocol_error, "a message that is not rping's");
  ++taken_;
  // The peer sends the next only after our answer to this one.
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

Result<void> PingLink::wait_for_end() {
  return wait_until([this] { return disconnected_; });
}

Result<void> PingLink::end() {
  connections_->manager().disconnect(connection_, monotonic_now());
  return wait_for_end();
}

void PingLink::abandon() {
  connections_->manager().disconnect(connection_, monotonic_now());
  connections_->work(monotonic_now());
}

}  // namespace rdmc::tools
