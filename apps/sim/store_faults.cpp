// The faults that strike a simulated store, and how they end.
#include <algorithm>
#include <utility>

#include "apps/sim/store_world.hpp"

namespace rdmc::sim_app {

Duration StoreWorld::up_to(Duration most) {
  return nanoseconds(
      static_cast<std::int64_t>(simulation_.random().below(static_cast<std::uint64_t>(most.ns) + 1)));
}

/// Returns the time that is `time` from now, but not a time after the end of the faults.
Time StoreWorld::by_the_end(Duration time) const {
  return std::max(simulation_.now(), std::min(quiet_, simulation_.now() + time));
}

void StoreWorld::plan_faults() {
  rates_ = options_.rates;
  quiet_ = simulation_.now() + options_.faulty_time;
  for (std::size_t i = 0; i < kStoreFaults.size(); ++i)
    for (std::uint32_t times = options_.strikes[i]; times > 0; --times)
      simulation_.at(simulation_.now() + up_to(options_.faulty_time),
                     [this, i] { strike(static_cast<StoreFault>(i)); });
}

/// Returns the state that the node would still have after a loss of power. Without disks, returns the state
/// of the running node.
store::Durable StoreWorld::kept_by(ProcessIndex index) const {
  const NodeHost& host = nodes_[index];
  if (options_.disks)
    return host.disk.durable() ? store::recover(*host.disk.durable()).value_or(store::Durable{})
                               : store::Durable{};
  return host.life != 0 ? host.node->acceptor().kept() : store::Durable{};
}

/// True if the store can continue without the state of that node.
bool StoreWorld::may_lose(ProcessIndex index) const {
  if (survivor_ == index) return false;
  // If the configuration has only the surviving node and one node that is joining or about to join, both of
  // these nodes are needed.
  if (current_.epoch != 0 && current_.size() < nodes_.size()) return false;
  if (current_.epoch != 0 && !may_lose(index, current_)) return false;
  // A first configuration may begin as soon as all nodes have voted for it.
  for (ProcessIndex node = 0; node < nodes_.size(); ++node)
    if (const auto vote = kept_by(node).vote; vote.epoch > current_.epoch && !may_lose(index, vote))
      return false;
  return true;
}

/// Returns true if the store can lose the node `index`. Without it, a majority of the configuration's
/// acceptors must remain. Each of these must have its state, or must be able to get the state from another
/// one of them.
bool StoreWorld::may_lose(ProcessIndex index, const store::Configuration& configuration) const {
  if (kept_by(index).id != configuration.acceptors[index]) return true;
  std::size_t active = 0, others = 0;
  for (ProcessIndex other = 0; other < nodes_.size(); ++other) {
    const store::Durable kept = kept_by(other);
    if (other == index || kept.id != configuration.acceptors[other]) continue;
    if (kept.active.epoch >= configuration.epoch)
      ++active;
    else if (kept.active.epoch == configuration.from_epoch)
      ++others;
  }
  return (configuration.from.empty() || active > 0) && active + others >= configuration.majority();
}

void StoreWorld::end_node(ProcessIndex index, StoreFault how, Duration away) {
  NodeHost& host = nodes_[index];
  const bool wiped = how == StoreFault::wipe || how == StoreFault::wipe_joining || !options_.disks;
  if (wiped && !may_lose(index)) return;
  struck(how);
  stop_node(index);
  if (wiped) {
    host.disk.wipe();
  } else if (how == StoreFault::power) {
    switch (host.disk.lose_power(simulation_.random())) {
      case SimDisk::Outcome::kept: break;
      case SimDisk::Outcome::lost: ++lost_; break;
      case SimDisk::Outcome::torn: ++torn_; break;
    }
  } else {
    host.disk.kill_process();
  }
  simulation_.at(by_the_end(away), [this, index] { start_node(index); });
}

void StoreWorld::strike(StoreFault fault) {
  const ProcessIndex index = simulation_.random().below(nodes_.size());
  NodeHost& host = nodes_[index];
  const auto later = [this](Duration time, std::function<void()> undo) {
    simulation_.at(by_the_end(up_to(time)), std::move(undo));
  };
  switch (fault) {
    case StoreFault::kill:
    case StoreFault::power:
    case StoreFault::wipe:
      // The node starts again after up to 2 ms, while messages to its former life are still in flight, or
      // after up to 200 ms.
      return end_node(index, fault,
                      up_to(simulation_.random().below(2) == 0 ? milliseconds(2) : milliseconds(200)));
    case StoreFault::wipe_joining: ++wipe_joining_; return end_node(index, StoreFault::wipe, milliseconds(1));
    case StoreFault::kill_joining: ++kill_joining_; return end_node(index, StoreFault::wipe, milliseconds(1));
    case StoreFault::refused_flush:
      struck(fault);
      host.refuse_next = true;
      return;
    case StoreFault::full_disk:
      struck(fault);
      host.full_next = true;
      return;
    case StoreFault::slow_disk:
      struck(fault);
      host.slow = true;
      return later(seconds(1), [this, index] { nodes_[index].slow = false; });
    case StoreFault::cut: {
      struck(fault);
      for (ProcessIndex other = 0; other < nodes_.size() + clients_.size(); ++other) {
        if (other == index) continue;
        blocked_.insert({index, other});
        blocked_.insert({other, index});
      }
      return later(milliseconds(800), [this, index] {
        std::erase_if(blocked_,
                      [index](const auto& way) { return way.first == index || way.second == index; });
      });
    }
    case StoreFault::one_way: {
      struck(fault);
      const ProcessIndex from = simulation_.random().below(nodes_.size() + clients_.size());
      const auto way = simulation_.random().below(2) == 0 ? std::pair(from, index) : std::pair(index, from);
      blocked_.insert(way);
      return later(milliseconds(800), [this, way] { blocked_.erase(way); });
    }
    case StoreFault::pause: {
      if (host.life == 0 || host.paused) return;
      struck(fault);
      host.paused = true;
      return later(seconds(1), [this, index, life = host.life] {
        if (!runs(index, life)) return;
        nodes_[index].paused = false;
        for (const auto& step : std::exchange(nodes_[index].missed, {}))
          if (runs(index, life)) step();
      });
    }
    case StoreFault::restart_client: {
      struck(fault);
      const ProcessIndex client = nodes_.size() + simulation_.random().below(clients_.size());
      return start_client(client);
    }
    case StoreFault::survivor: return lose_majority(index);
  }
}

/// Makes all nodes except the survivor lose their state. A joining node has no state yet, and may remain as
/// it is.
void StoreWorld::lose_majority(ProcessIndex survivor) {
  const store::Durable kept = kept_by(survivor);
  const bool has_state = kept.active.epoch != 0 && current_.contains(kept.id) &&
                         (kept.active.epoch == current_.epoch || kept.active.epoch == current_.from_epoch);
  if (options_.nodes == 1 || survivor_ || nodes_[survivor].life == 0 || !has_state) return;
  struck(StoreFault::survivor);
  survivor_ = survivor;
  for (ProcessIndex other = 0; other < nodes_.size(); ++other) {
    NodeHost& host = nodes_[other];
    const bool is_joining =
        host.life != 0 && !host.node->acceptor().has_state() && host.node->acceptor().newest().epoch != 0;
    if (other == survivor || (is_joining && simulation_.random().below(2) == 0)) continue;
    stop_node(other);
    host.disk.wipe();
    simulation_.at(by_the_end(up_to(milliseconds(50))), [this, other] { start_node(other); });
  }
  name_survivor();
}

/// Names the survivor repeatedly, like an operator who has been asked to do this. The node refuses while it
/// is not needed.
void StoreWorld::name_survivor() {
  if (everybody_serves()) survivor_.reset();
  if (!survivor_) return;
  const ProcessIndex index = *survivor_;
  if (nodes_[index].life != 0 && !nodes_[index].paused) {
    nodes_[index].node->receive(kOperator, {1, store::Survive{}}, simulation_.now());
    pump(index);
  }
  simulation_.at(simulation_.now() + milliseconds(50), [this] { name_survivor(); });
}

/// Called when the store continues with the survivor's state. From now on, clients may get older views than
/// before.
void StoreWorld::survived() {
  ++survivals_;
  history_.begin_anew();
  for (ClientHost& client : clients_) client.seen.clear();
}

/// Checks the state of a node after each of its steps.
void StoreWorld::on_stage(ProcessIndex index) {
  NodeHost& host = nodes_[index];
  if (host.life == 0) return;
  const store::Configuration& active = host.node->acceptor().kept().active;
  const std::uint64_t before = std::exchange(host.epoch, active.epoch);
  if (before != 0 && active.epoch >= before + store::Acceptor::kForcedEpochs) survived();
  if (active.epoch > current_.epoch) {
    current_ = active;
    ++configurations_;
  }
  const store::Stage stage = host.node->stage();
  if (stage == std::exchange(host.stage, stage)) return;
  if (stage == store::Stage::replaced && survivals_ == 0) violation("a node was replaced that had its state");
  // An operator who has named a survivor empties the disks of the other nodes.
  if (stage == store::Stage::replaced)
    simulation_.at(simulation_.now(), [this, index, life = host.life] {
      if (!runs(index, life)) return;
      stop_node(index);
      nodes_[index].disk.wipe();
      start_node(index);
    });
  if (stage != store::Stage::joining || host.node->acceptor().has_state()) return;
  ++joins_;
  int& wanted = kill_joining_ > 0 ? kill_joining_ : wipe_joining_;
  if (wanted == 0) return;
  const StoreFault how = &wanted == &kill_joining_ ? StoreFault::kill_joining : StoreFault::wipe_joining;
  --wanted;
  // The fault happens during the join, shortly before it or shortly after it.
  simulation_.at(simulation_.now() + up_to(milliseconds(2)), [this, index, how, life = host.life] {
    if (runs(index, life))
      end_node(index, how, how == StoreFault::kill_joining ? up_to(seconds(1)) : milliseconds(1));
  });
}

void StoreWorld::heal() {
  rates_ = {};
  blocked_.clear();
  wipe_joining_ = kill_joining_ = 0;
  for (ProcessIndex index = 0; index < nodes_.size(); ++index) {
    NodeHost& host = nodes_[index];
    host.slow = host.refuse_next = host.full_next = false;
    // An operator restarts the nodes whose disk has failed.
    if (host.life != 0 && host.node->stage() == store::Stage::failed) {
      stop_node(index);
      host.disk.kill_process();
    }
    start_node(index);
    tell_links(index, true);
  }
}

}  // namespace rdmc::sim_app
