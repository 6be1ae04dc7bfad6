// What strikes a simulated store, and the end of it all.
#include <algorithm>
#include <utility>

#include "apps/sim/store_world.hpp"

namespace rdmc::sim_app {

Duration StoreWorld::up_to(Duration most) {
  return nanoseconds(
      static_cast<std::int64_t>(simulation_.random().below(static_cast<std::uint64_t>(most.ns) + 1)));
}

/// After `time`, and no later than the faults end.
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

/// What would be there after the worst.
store::Durable StoreWorld::kept_by(Place place) const {
  const NodeHost& host = nodes_[place];
  if (options_.disks)
    return host.disk.durable() ? store::recover(*host.disk.durable()).value_or(store::Durable{})
                               : store::Durable{};
  return host.life != 0 ? host.node->acceptor().kept() : store::Durable{};
}

/// Whether the store can go on without what that node keeps.
bool StoreWorld::may_lose(Place place) const {
  if (current_.epoch != 0 && !may_lose(place, current_)) return false;
  // A first configuration may begin as soon as all have voted for it.
  for (Place node = 0; node < nodes_.size(); ++node)
    if (const auto vote = kept_by(node).vote; vote.epoch > current_.epoch && !may_lose(place, vote))
      return false;
  return true;
}

/// A majority of the configuration's acceptors is still there, and has its state or can have it from one of
/// them.
bool StoreWorld::may_lose(Place place, const store::Configuration& configuration) const {
  if (kept_by(place).id != configuration.acceptors[place]) return true;
  std::size_t active = 0, others = 0;
  for (Place other = 0; other < nodes_.size(); ++other) {
    const store::Durable kept = kept_by(other);
    if (other == place || kept.id != configuration.acceptors[other]) continue;
    if (kept.active.epoch >= configuration.epoch)
      ++active;
    else if (kept.active.epoch == configuration.from_epoch)
      ++others;
  }
  return (configuration.from.empty() || active > 0) && active + others >= configuration.majority();
}

void StoreWorld::end_node(Place place, StoreFault how, Duration away) {
  NodeHost& host = nodes_[place];
  const bool wiped = how == StoreFault::wipe || how == StoreFault::wipe_joining || !options_.disks;
  if (wiped && !may_lose(place)) return;
  struck(how);
  stop_node(place);
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
  simulation_.at(by_the_end(away), [this, place] { start_node(place); });
}

void StoreWorld::strike(StoreFault fault) {
  const Place place = simulation_.random().below(nodes_.size());
  NodeHost& host = nodes_[place];
  const auto later = [this](Duration time, std::function<void()> undo) {
    simulation_.at(by_the_end(up_to(time)), std::move(undo));
  };
  switch (fault) {
    case StoreFault::kill:
    case StoreFault::power:
    case StoreFault::wipe:
      // Back at once, while messages to its former life are still on their way, or later.
      return end_node(place, fault,
                      up_to(simulation_.random().below(2) == 0 ? milliseconds(2) : milliseconds(200)));
    case StoreFault::wipe_joining: ++wipe_joining_; return end_node(place, StoreFault::wipe, milliseconds(1));
    case StoreFault::kill_joining: ++kill_joining_; return end_node(place, StoreFault::wipe, milliseconds(1));
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
      return later(seconds(1), [this, place] { nodes_[place].slow = false; });
    case StoreFault::cut: {
      struck(fault);
      for (Place other = 0; other < nodes_.size() + clients_.size(); ++other) {
        if (other == place) continue;
        blocked_.insert({place, other});
        blocked_.insert({other, place});
      }
      return later(milliseconds(800), [this, place] {
        std::erase_if(blocked_,
                      [place](const auto& way) { return way.first == place || way.second == place; });
      });
    }
    case StoreFault::one_way: {
      struck(fault);
      const Place from = simulation_.random().below(nodes_.size() + clients_.size());
      const auto way = simulation_.random().below(2) == 0 ? std::pair(from, place) : std::pair(place, from);
      blocked_.insert(way);
      return later(milliseconds(800), [this, way] { blocked_.erase(way); });
    }
    case StoreFault::pause: {
      if (host.life == 0 || host.paused) return;
      struck(fault);
      host.paused = true;
      return later(seconds(1), [this, place, life = host.life] {
        if (!runs(place, life)) return;
        nodes_[place].paused = false;
        for (const auto& step : std::exchange(nodes_[place].missed, {}))
          if (runs(place, life)) step();
      });
    }
    case StoreFault::restart_client: {
      struck(fault);
      const Place client = nodes_.size() + simulation_.random().below(clients_.size());
      return start_client(client);
    }
  }
}

/// Looks at what has become of a node after each of its steps.
void StoreWorld::on_stage(Place place) {
  NodeHost& host = nodes_[place];
  if (host.life == 0) return;
  const store::Configuration& active = host.node->acceptor().kept().active;
  if (active.epoch > current_.epoch) {
    current_ = active;
    ++configurations_;
  }
  const store::Stage stage = host.node->stage();
  if (stage == std::exchange(host.stage, stage)) return;
  if (stage == store::Stage::replaced) violation("a node was replaced that had its state");
  if (stage != store::Stage::joining || host.node->acceptor().has_state()) return;
  ++joins_;
  int& wanted = kill_joining_ > 0 ? kill_joining_ : wipe_joining_;
  if (wanted == 0) return;
  const StoreFault how = &wanted == &kill_joining_ ? StoreFault::kill_joining : StoreFault::wipe_joining;
  --wanted;
  // In the middle of it, or shortly before or after.
  simulation_.at(simulation_.now() + up_to(milliseconds(2)), [this, place, how, life = host.life] {
    if (runs(place, life))
      end_node(place, how, how == StoreFault::kill_joining ? up_to(seconds(1)) : milliseconds(1));
  });
}

void StoreWorld::heal() {
  rates_ = {};
  blocked_.clear();
  wipe_joining_ = kill_joining_ = 0;
  for (Place place = 0; place < nodes_.size(); ++place) {
    NodeHost& host = nodes_[place];
    host.slow = host.refuse_next = host.full_next = false;
    // Whoever looks after the nodes starts those again whose disk has failed them.
    if (host.life != 0 && host.node->stage() == store::Stage::failed) {
      stop_node(place);
      host.disk.kill_process();
    }
    start_node(place);
    tell_links(place, true);
  }
}

}  // namespace rdmc::sim_app
