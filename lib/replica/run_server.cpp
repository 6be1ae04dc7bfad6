#include "lib/replica/run_server.hpp"

#include <map>
#include <utility>

#include "controlplane/connect/control_loop.hpp"

namespace rdmc::replica {
/// Only the control loop uses this class, after it was made.
class RunServer::State : public std::enable_shared_from_this<State> {
 public:
  State(Layout layout, std::string run, Handlers handlers)
      : layout_(std::move(layout)), run_(std::move(run)), handlers_(std::move(handlers)) {}

  void on_request(peer::Request request) {
    const auto join = decode_join(request.offer().greeting, layout_);
    if (!join) return request.refuse(join.error());
    if (join->run != run_) return request.refuse({Errc::not_found, "this is another run"});
    const ProcessId process = join->process;
    const auto expected = recoveries_.find(process);
    if (join->recovery != (expected == recoveries_.end() ? EventNumber{} : expected->second))
      return request.refuse({Errc::cancelled, "this recovery of the process has failed"});
    if (entries_.contains(process))
      return request.refuse({Errc::already_exists,
                             "another process has joined as replica " + to_string(layout_.replica(process))});
    auto channel = request.accept({});
    if (!channel) return;
    Entry& entry = entries_.try_emplace(process, std::move(*channel)).first->second;
    entry.channel.start(
        [weak = weak_from_this(), process](const std::vector<std::byte>& message) {
          if (const auto self = weak.lock()) self->on_message(process, message);
        },
        [weak = weak_from_this(), process](const Error& cause) {
          if (const auto self = weak.lock()) self->lose(process, cause);
        });
    handlers_.joined(*join);
  }

  void start(ProcessId process, const Started& started) {
    const auto found = entries_.find(process);
    if (found == entries_.end() || found->second.is_started) return;
    found->second.is_started = true;
    send(process, started);
  }

  void send(const NumberedEvent& event) {
    const bool to_all = std::holds_alternative<Aborted>(event.event);
    std::vector<ProcessId> receivers;  // A send that fails removes an entry.
    for (const auto& [process, entry] : entries_)
      if (to_all || entry.is_started) receivers.push_back(process);
    for (const ProcessId process : receivers) send(process, event);
  }

  void expect(ProcessId process, EventNumber recovery) { recoveries_[process] = recovery; }
  void tell(ProcessId process, const ToProcess& message) {
    const auto found = entries_.find(process);
    if (found != entries_.end() && found->second.is_started) send(process, message);
  }
  void forget(ProcessId process) { entries_.erase(process); }
  void forget_all() { entries_.clear(); }

 private:
  struct Entry {
    explicit Entry(control::Channel its_channel) : channel(std::move(its_channel)) {}
    control::Channel channel;
    bool is_started = false;
  };

  void send(ProcessId process, const ToProcess& message) {
    const auto found = entries_.find(process);
    if (found == entries_.end()) return;
    // The queue of a process that reads nothing fills up. Such a process cannot take part any more.
    if (const auto sent = found->second.channel.send(encode(message)); !sent) lose(process, sent.error());
  }

  void on_message(ProcessId process, const std::vector<std::byte>& bytes) {
    const auto message = decode_from_process(bytes);
    if (!message) return lose(process, message.error());
    if (std::holds_alternative<Done>(*message)) {
      handlers_.done(process);
    } else if (const auto* const ready = std::get_if<ForkReady>(&*message)) {
      handlers_.fork_ready(process, *ready);
    } else if (const auto* const refused = std::get_if<ForkRefused>(&*message)) {
      handlers_.fork_refused(process, *refused);
    } else if (const auto* const forked = std::get_if<Forked>(&*message)) {
      handlers_.forked(process, *forked);
    } else if (const auto* const difference = std::get_if<SendDifference>(&*message)) {
      handlers_.differed(process, *difference);
    } else if (const auto* const finished = std::get_if<Finished>(&*message)) {
      handlers_.finished(process, finished->counters);
      send(process, Noted{});
    } else {
      handlers_.aborted(process, std::get<Abort>(*message).code);
    }
  }

  void lose(ProcessId process, const Error& cause) {
    const Error kept = cause;  // The cause may belong to the channel.
    if (entries_.erase(process) != 0) handlers_.lost(process, kept);
  }

  const Layout layout_;
  const std::string run_;
  const Handlers handlers_;
  std::map<ProcessId, Entry> entries_;
  std::map<ProcessId, EventNumber> recoveries_;  ///< the newest one of each process that was replaced
};

Result<std::unique_ptr<RunServer>> RunServer::open(Layout layout, std::string run, const Address& address,
                                                   const control::ClusterKey& key, peer::Context& context,
                                                   Handlers handlers) {
  auto loop = context.loop();
  if (!loop) return std::unexpected(std::move(loop.error()));
  auto security = control::TlsContext::create(key);
  if (!security) return std::unexpected(std::move(security.error()));
  auto peers =
      peer::Peers::create(**loop, {.security = *security, .max_message_bytes = kMostRunMessageBytes});
  if (!peers) return std::unexpected(std::move(peers.error()));
  auto state = std::make_shared<State>(std::move(layout), std::move(run), std::move(handlers));
  std::unique_ptr<RunServer> server(new RunServer(std::move(*loop), std::move(*peers), state));
  auto service = server->peers_->serve(kRunService, [weak = std::weak_ptr(state)](peer::Request request) {
    if (const auto self = weak.lock()) self->on_request(std::move(request));
  });
  if (!service) return std::unexpected(std::move(service.error()));
  server->service_ = std::move(*service);
  // All processes connect at the same moment when the run begins.
  auto listener = server->peers_->listen(
      address, {.channel = server->peers_->options(), .max_unauthenticated = Layout::kMostProcesses});
  if (!listener) return std::unexpected(std::move(listener.error()));
  server->listener_.emplace(std::move(*listener));
  return server;
}

RunServer::RunServer(std::shared_ptr<control::ControlLoop> loop, std::shared_ptr<peer::Peers> peers,
                     std::shared_ptr<State> state)
    : loop_(std::move(loop)), peers_(std::move(peers)), state_(std::move(state)) {}

RunServer::~RunServer() {
  service_ = {};
  listener_.reset();
  loop_->call([this] { state_->forget_all(); });
}

const Address& RunServer::address() const {
  return listener_->address();
}

void RunServer::start(ProcessId process, Started started) {
  loop_->post([state = state_, process, started = std::move(started)] { state->start(process, started); });
}
void RunServer::expect(ProcessId process, EventNumber recovery) {
  loop_->post([state = state_, process, recovery] { state->expect(process, recovery); });
}
void RunServer::tell(ProcessId process, ToProcess message) {
  loop_->post([state = state_, process, message = std::move(message)] { state->tell(process, message); });
}
void RunServer::send(NumberedEvent event) {
  loop_->post([state = state_, event = std::move(event)] { state->send(event); });
}
void RunServer::forget(ProcessId process) {
  loop_->post([state = state_, process] { state->forget(process); });
}

}  // namespace rdmc::replica
