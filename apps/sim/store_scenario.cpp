#include "apps/sim/store_world.hpp"

#include <algorithm>
#include <utility>

namespace rdmc::sim_app {
namespace {

constexpr std::size_t kMostViolations = 20;
constexpr Duration kLook = milliseconds(10);
constexpr std::int64_t kLeastLatencyNs = 20'000, kMostLatencyNs = 300'000;
/// The longest time from the end of a process until the processes that are connected to it learn of this.
constexpr Duration kNews = milliseconds(1);
/// The number by which `started` grows for each life of a node. Operators start a node less often than this
/// in one life (store::Node::Options::started).
constexpr std::uint64_t kRunsOfOneLife = 1'000;

view::View view_of(std::uint64_t epoch, std::uint64_t proposal) {
  return {.epoch = Epoch{epoch},
          .members = {{.id = view::MemberId{proposal},
                       .name = "proposer",
                       .address = Address::ipv4(10, 0, 0, 1, 7700),
                       .fabrics = {"udp"}}}};
}

std::string group_name(std::uint64_t number) {
  return "group-" + std::to_string(number);
}

}  // namespace

StoreWorld::StoreWorld(const StoreOptions& options)
    : options_(options), simulation_(options.seed), nodes_(options.nodes), clients_(options.clients) {}

StoreWorld::Process& StoreWorld::process(ProcessIndex index) {
  if (is_node(index)) return nodes_[index];
  return clients_[index - nodes_.size()];
}

void StoreWorld::start_node(ProcessIndex index) {
  NodeHost& host = nodes_[index];
  if (host.life != 0) return;
  store::Durable kept;
  if (host.disk.seen()) {
    auto recovered = store::recover(*host.disk.seen());
    if (!recovered)
      violation("node " + std::to_string(index) + ": " + recovered.error().what);
    else
      kept = std::move(*recovered);
  }
  host.life = ++last_life_;
  host.paused = false;
  host.armed = Time::never();
  host.missed.clear();
  host.clients.clear();
  host.journal = {};
  host.stage = store::Stage::fresh;
  host.epoch = kept.active.epoch;
  host.node = std::make_unique<store::Node>(store::Node::Options{.self = index,
                                                                 .nodes = options_.nodes,
                                                                 .fresh = any_id(),
                                                                 .proposer = any_id(),
                                                                 .seed = simulation_.random().next(),
                                                                 .started = kRunsOfOneLife * host.life},
                                            std::move(kept), simulation_.now());
  tell_links(index, true);
  pump(index);
}

void StoreWorld::stop_node(ProcessIndex index) {
  NodeHost& host = nodes_[index];
  if (host.life == 0) return;
  overtaken_ += host.node->counters().overtaken;
  host.life = 0;
  host.node.reset();
  tell_links(index, false);
}

void StoreWorld::start_client(ProcessIndex index) {
  ClientHost& host = clients_[index - nodes_.size()];
  host.life = ++last_life_;
  host.armed = Time::never();
  host.asked.reset();
  host.requester = std::make_unique<store::Requester>(store::Requester::Options{
      .nodes = options_.nodes, .self = any_id(), .seed = simulation_.random().next()});
  for (ProcessIndex node = 0; node < nodes_.size(); ++node)
    if (nodes_[node].life != 0) host.requester->link_up(node, simulation_.now());
  const Life life = host.life;
  simulation_.at(simulation_.now() + up_to(options_.think), [this, index, life] {
    if (runs(index, life)) ask(index);
  });
  pump(index);
}

/// Reports the start or end of a node to every process that is connected to it.
void StoreWorld::tell_links(ProcessIndex node, bool up) {
  const Life life = nodes_[node].life;
  for (ProcessIndex other = 0; other < nodes_.size() + clients_.size(); ++other) {
    if (other == node) continue;
    const Life listener = process(other).life;
    if (listener == 0) continue;
    simulation_.at(simulation_.now() + up_to(kNews), [this, node, other, up, life, listener] {
      if (nodes_[node].life != life || !runs(other, listener)) return;
      unless_paused(other, listener, [this, node, other, up] {
        if (is_node(other)) {
          if (up) nodes_[other].node->peer_up(simulation_.now());
        } else if (store::Requester& requester = *clients_[other - nodes_.size()].requester; up) {
          requester.link_up(node, simulation_.now());
        } else {
          requester.link_lost(node);
          requester.link_failed(node, {Errc::peer_failed, "nobody listens there"}, simulation_.now());
        }
        pump(other);
      });
    });
  }
}

void StoreWorld::unless_paused(ProcessIndex index, Life life, std::function<void()> step) {
  if (!runs(index, life)) return;
  if (process(index).paused)
    process(index).missed.push_back(std::move(step));
  else
    step();
}

/// Sends bytes from one process to another. The network's faults may lose, delay or duplicate them.
void StoreWorld::send(ProcessIndex from, ProcessIndex to, store::Bytes bytes,
                      std::function<void(const store::Bytes&)> deliver) {
  if (blocked_.contains({from, to})) return simulation_.faults().add(sim::Fault::partition);
  const Life life = process(to).life;
  const sim::Fate fate = sim::draw_fate(rates_, simulation_.random(), simulation_.faults());
  if (fate.lost || life == 0) return;
  const auto arrive = [&](Duration extra) {
    const Time at =
        simulation_.now() +
        nanoseconds(kLeastLatencyNs +
                    static_cast<std::int64_t>(simulation_.random().below(kMostLatencyNs - kLeastLatencyNs))) +
        extra;
    simulation_.at(at, [this, from, to, life, bytes, deliver] {
      simulation_.trace().record(simulation_.now(), sim::TraceKind::scenario,
                                 static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to),
                                 sim::digest(bytes.data(), bytes.size()));
      if (runs(to, life)) unless_paused(to, life, [deliver, bytes] { deliver(bytes); });
    });
  };
  arrive(fate.extra);
  if (fate.duplicated) arrive(fate.duplicate_extra);
}

void StoreWorld::request(ProcessIndex from, ProcessIndex to, const store::Request& request) {
  const Life asker = process(from).life;
  send(from, to, encode(request), [this, from, to, asker](const store::Bytes& bytes) {
    auto decoded = store::decode_request(bytes);
    if (!decoded) return violation("a request is refused: " + decoded.error().what);
    NodeHost& host = nodes_[to];
    host.clients[asker] = {from, asker};
    host.node->receive(asker, std::move(*decoded), simulation_.now());
    pump(to);
  });
}

void StoreWorld::pump(ProcessIndex index) {
  is_node(index) ? pump_node(index) : pump_client(index);
}

void StoreWorld::pump_node(ProcessIndex index) {
  NodeHost& host = nodes_[index];
  if (host.life == 0) return;
  for (const store::Node::ToPeer& to : host.node->take_requests()) request(index, to.node, to.request);
  for (const store::Node::ToClient& to : host.node->take_replies()) {
    if (to.client == kOperator) continue;
    const auto [asker, life] = host.clients.at(to.client);
    if (!runs(asker, life)) continue;
    send(index, asker, encode(to.reply), [this, index, asker](const store::Bytes& bytes) {
      const auto reply = store::decode_reply(bytes);
      if (!reply) return violation("an answer is refused: " + reply.error().what);
      if (is_node(asker))
        nodes_[asker].node->hear(index, *reply, simulation_.now());
      else
        clients_[asker - nodes_.size()].requester->hear(index, *reply, simulation_.now());
      pump(asker);
    });
  }
  static_cast<void>(host.node->take_hints());
  write(index);
  on_stage(index);
  if (host.life != 0) arm(index, host.node->next_deadline());
}

void StoreWorld::pump_client(ProcessIndex index) {
  ClientHost& host = clients_[index - nodes_.size()];
  if (host.life == 0) return;
  for (const store::Requester::ToNode& to : host.requester->take_requests())
    request(index, to.node, to.request);
  for (const store::Requester::Finished& finished : host.requester->take_finished()) finish(index, finished);
  arm(index, host.requester->next_deadline());
}

void StoreWorld::arm(ProcessIndex index, Time deadline) {
  Process& host = process(index);
  if (deadline == Time::never() || host.armed <= deadline) return;
  const Time at = std::max(deadline, simulation_.now() + microseconds(1));
  host.armed = at;
  simulation_.at(at, [this, index, at, life = host.life] {
    unless_paused(index, life, [this, index, at] {
      if (process(index).armed == at) process(index).armed = Time::never();
      if (is_node(index))
        nodes_[index].node->tick(simulation_.now());
      else
        clients_[index - nodes_.size()].requester->tick(simulation_.now());
      pump(index);
    });
  });
}

/// Only one write is in progress at a time. Writes that are requested meanwhile are combined in the next one.
void StoreWorld::write(ProcessIndex index) {
  NodeHost& host = nodes_[index];
  if (!options_.disks) {
    for (const store::Acceptor::Write& write : host.node->take_writes()) {
      host.node->synced(write.sequence, simulation_.now());
      pump(index);
      if (host.life == 0) return;
    }
    return;
  }
  if (host.disk.is_writing()) return;
  for (const store::Acceptor::Write& write : host.node->take_writes()) {
    host.disk.begin(write, host.journal);
    const Duration time = microseconds(50) + up_to(host.slow ? milliseconds(300) : milliseconds(3));
    simulation_.at(simulation_.now() + time, [this, index, life = host.life, sequence = write.sequence] {
      if (!runs(index, life)) return;
      NodeHost& writer = nodes_[index];
      const bool refused = std::exchange(writer.refuse_next, false);
      const bool full = std::exchange(writer.full_next, false);
      if (!refused && !full) {
        writer.disk.finish();
        writer.node->synced(sequence, simulation_.now());
        return pump(index);
      }
      refused ? writer.disk.refuse() : writer.disk.run_full(simulation_.random());
      writer.node->fail({full ? Errc::no_space : Errc::io_error, "the disk refuses"});
      pump(index);
      const StoreFault how = simulation_.random().below(2) == 0 ? StoreFault::power : StoreFault::kill;
      simulation_.at(simulation_.now() + up_to(milliseconds(300)), [this, index, life, how] {
        if (runs(index, life)) end_node(index, how, milliseconds(20));
      });
    });
  }
}

void StoreWorld::ask(ProcessIndex index) {
  ClientHost& host = clients_[index - nodes_.size()];
  if (host.asked) return;
  Random& random = simulation_.random();
  ClientHost::Asked asked{
      .group = group_name(random.below(options_.groups)), .at = simulation_.now(), .survivals = survivals_};
  const std::uint64_t what = random.below(10);
  if (what < 5) {
    asked.next = view_of(value_of(host.seen[asked.group]) + 1, ++proposals_);
    history_.proposed(asked.group, *asked.next, asked.at);
    asked.number = host.requester->change(asked.group, store::swap_to(*asked.next), asked.at);
  } else if (what < 9) {
    asked.number = host.requester->read(asked.group, asked.at);
  } else {
    asked.group.clear();
    asked.number = host.requester->list(asked.at);
  }
  host.asked = std::move(asked);
  pump(index);
}

void StoreWorld::finish(ProcessIndex index, const store::Requester::Finished& finished) {
  ClientHost& host = clients_[index - nodes_.size()];
  if (!host.asked || host.asked->number != finished.number) return;
  const ClientHost::Asked asked = *std::exchange(host.asked, std::nullopt);
  const auto told = [&](const std::string& group, const store::Accepted& accepted) {
    const auto current = store::view_in(accepted);
    if (!current) return violation("a client is told of no view");
    history_.told(group, *current, asked.at, simulation_.now());
    host.seen[group] = std::max(host.seen[group], current->epoch);
  };
  if (!finished.outcome) {
    ++failures_;
  } else if (asked.survivals == survivals_) {  // Without this condition, the answer might come from a state
                                               // that was lost.
    if (!asking_) slowest_ = std::max(slowest_, simulation_.now() - asked.at);
    answered_.insert(index);
    if (const auto* const one = std::get_if<store::Accepted>(&*finished.outcome)) {
      told(asked.group, *one);
    } else {
      const auto& all = std::get<store::Registers>(*finished.outcome);
      for (std::uint64_t i = 0; i < options_.groups; ++i) {
        const auto found = all.find(group_name(i));
        told(group_name(i), found == all.end() ? store::Accepted{} : found->second);
      }
    }
  }
  const Life life = host.life;
  simulation_.at(simulation_.now() + up_to(options_.think), [this, index, life] {
    if (runs(index, life)) ask(index);
  });
}

bool StoreWorld::wait_until(const std::function<bool()>& done, const std::string& what) {
  const Time limit = simulation_.now() + kStoreSettledWithin;
  while (!done()) {
    if (simulation_.now() >= limit) {
      violation(what);
      return false;
    }
    simulation_.run_until(simulation_.now() + kLook);
  }
  return true;
}

bool StoreWorld::everybody_serves() const {
  return std::ranges::all_of(nodes_, [](const NodeHost& host) {
    return host.life != 0 && host.node->stage() == store::Stage::serving;
  });
}

bool StoreWorld::everybody_is_answered() {
  return answered_.size() == clients_.size() && everybody_serves();
}

void StoreWorld::run() {
  for (ProcessIndex index = 0; index < nodes_.size(); ++index)
    simulation_.at(simulation_.now() + up_to(milliseconds(50)), [this, index] { start_node(index); });
  for (ProcessIndex index = nodes_.size(); index < nodes_.size() + clients_.size(); ++index)
    simulation_.at(simulation_.now() + up_to(milliseconds(50)), [this, index] { start_client(index); });
  plan_faults();
  simulation_.run_until(quiet_);
  heal();
  asking_ = false;
  answered_.clear();
  if (!wait_until([this] { return everybody_is_answered(); }, "the store does not serve after the faults")) {
    for (ProcessIndex index = 0; index < nodes_.size(); ++index) violation(words_about(index));
    return;
  }
  answered_.clear();
  wait_until([this] { return everybody_is_answered(); }, "the store has ceased to serve");
}

std::string StoreWorld::words_about(ProcessIndex index) const {
  const NodeHost& host = nodes_[index];
  const std::string name = "node " + std::to_string(index);
  if (host.life == 0) return name + " does not run";
  const store::Acceptor& acceptor = host.node->acceptor();
  return name + " is at stage " + std::to_string(value_of(host.node->stage())) + ", has state of epoch " +
         std::to_string(acceptor.kept().active.epoch) + ", knows of epoch " +
         std::to_string(acceptor.newest().epoch) + (acceptor.is_sealed() ? ", is sealed" : "") +
         (host.disk.is_writing() ? ", writes" : "") + ": " + host.node->state().text;
}

void StoreWorld::violation(const std::string& what) {
  if (violations_.size() < kMostViolations)
    violations_.push_back(what + " (at " + std::to_string(simulation_.now().ns / 1000) + " us)");
}

ScenarioResult StoreWorld::result() {
  ScenarioResult result;
  result.trace_hash = simulation_.trace().hash();
  result.virtual_seconds = (simulation_.now() - Time{}).seconds();
  result.events = simulation_.events();
  result.violations = violations_;
  for (std::string& violation : history_.violations()) result.violations.push_back(std::move(violation));
  for (std::size_t i = 0; i < kStoreFaults.size(); ++i)
    result.faults[std::string(kStoreFaults[i])] = struck_[i];
  for (const sim::Fault fault :
       {sim::Fault::loss, sim::Fault::duplicate, sim::Fault::reorder, sim::Fault::delay})
    result.faults[std::string(sim::name(fault))] = simulation_.faults()[fault];
  for (const NodeHost& host : nodes_)
    if (host.node) overtaken_ += host.node->counters().overtaken;
  result.figures = {{"views", history_.views()},
                    {"answers", history_.observations()},
                    {"failures", failures_},
                    {"configurations", configurations_},
                    {"joins", joins_},
                    {"overtaken", overtaken_},
                    {"torn", torn_},
                    {"lost", lost_},
                    {"slowest_us", static_cast<std::uint64_t>(slowest_.ns / 1000)}};
  return result;
}

ScenarioResult run_store(const StoreOptions& options) {
  StoreWorld world(options);
  world.run();
  return world.result();
}

}  // namespace rdmc::sim_app
