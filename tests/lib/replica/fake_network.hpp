// A network of Messengers in memory. Frames and writes of a pair of processes arrive in an order that the
// seed decides: frames in their own order, and writes at any time after they were posted. Space for frames
// and for writes is sometimes missing.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "lib/replica/messenger.hpp"
#include "tests/lib/replica/messenger_fork.hpp"

namespace rdmc::replica::testing {

class FakeNetwork {
 public:
  /// A network of ranks without replicas.
  FakeNetwork(std::uint32_t ranks, std::uint64_t seed)
      : FakeNetwork(*Layout::uniform(ranks, 1), "sdr", {}, seed) {}
  FakeNetwork(const Layout& layout, const char* protocol, Messenger::Options options, std::uint64_t seed)
      : random_(seed) {
    std::vector<Rank> all;
    for (std::uint32_t rank = 0; rank < layout.ranks(); ++rank) all.push_back(Rank{rank});
    for (std::uint32_t i = 0; i < layout.processes(); ++i) {
      const ReplicaId id = layout.replica(ProcessId{i});
      carriers_.push_back(std::make_unique<End>(*this, ProcessId{i}, layout.processes()));
      carriers_.back()->messenger =
          std::make_unique<Messenger>(*carriers_.back(), *make_protocol(protocol, layout, id), options);
      messenger(i).add_context(ContextId{1}, all, value_of(id.rank));
    }
  }

  Messenger& messenger(std::uint32_t process) { return *carriers_[process]->messenger; }
  std::size_t draw(std::size_t below) {
    return std::uniform_int_distribution<std::size_t>(0, below - 1)(random_);
  }
  /// The number of memory regions that are exposed now.
  std::size_t exposed() const {
    std::size_t all = 0;
    for (const auto& end : carriers_) all += end->exposed.size();
    return all;
  }
  std::size_t exposed_of_living() const {
    std::size_t all = 0;
    for (const auto& end : carriers_) all += end->is_dead ? 0 : end->exposed.size();
    return all;
  }
  std::size_t writes() const { return writes_; }
  /// If false, there is always space.
  bool is_tight = true;

  /// Lets one event happen. Returns false if nothing is left to happen.
  bool step() {
    std::vector<std::pair<End*, std::uint32_t>> busy;
    for (auto& end : carriers_) {
      for (std::uint32_t to = 0; to < carriers_.size(); ++to)
        if (!end->frames[to].empty() || !end->writes[to].empty() || end->is_blocked[to])
          busy.emplace_back(end.get(), to);
    }
    if (busy.empty()) return false;
    const auto [from, to] = busy[draw(busy.size())];
    move(*from, to);
    return true;
  }
  void run() {
    while (step()) {
    }
  }
  /// The process dies: nothing of it arrives any more, and everybody learns of its death.
  void kill(std::uint32_t process) {
    stop(process);
    for (std::uint32_t other = 0; other < carriers_.size(); ++other) report(process, other);
  }
  /// The process does nothing any more. What it has sent may still arrive.
  void stop(std::uint32_t process) {
    carriers_[process]->is_dead = true;
    carriers_[process]->is_linked.assign(carriers_.size(), false);
    for (std::uint32_t other = 0; other < carriers_.size(); ++other) {
      carriers_[other]->frames[process].clear();
      carriers_[other]->writes[process].clear();
      carriers_[other]->is_linked[process] = false;
      carriers_[other]->is_blocked[process] = false;
      carriers_[process]->is_blocked[other] = false;
    }
  }
  /// `other` learns that the process is dead. Nothing of it arrives there any more.
  void report(std::uint32_t process, std::uint32_t other) {
    carriers_[process]->frames[other].clear();
    carriers_[process]->writes[other].clear();
    if (!carriers_[other]->is_dead)
      messenger(other).on_failed(ProcessId{process}, {Errc::peer_failed, "the process is dead"});
  }
  bool is_dead(std::uint32_t process) const { return carriers_[process]->is_dead; }
  /// The process `parent` is forked. The child is the process with the number `child`, which is dead, and has
  /// no links. `moved` says where the child has the memory of the program of the parent.
  void fork(std::uint32_t parent, std::uint32_t child, const MessengerFork::Moved& moved) {
    const auto processes = static_cast<std::uint32_t>(carriers_.size());
    auto made = std::make_unique<End>(*this, ProcessId{child}, processes);
    made->is_linked.assign(carriers_.size(), false);
    made->messenger = MessengerFork::copy(messenger(parent), *made, moved);
    carriers_[child] = std::move(made);
    messenger(child).become(ProcessId{child});
    messenger(parent).on_forked(ProcessId{child});
  }
  bool are_linked(std::uint32_t one, std::uint32_t other) const { return carriers_[one]->is_linked[other]; }
  /// The two processes are connected.
  void link(std::uint32_t one, std::uint32_t other) {
    carriers_[one]->is_linked[other] = carriers_[other]->is_linked[one] = true;
    messenger(one).on_room(ProcessId{other});
    messenger(other).on_room(ProcessId{one});
  }
  /// Everything that is due is sent, and arrives.
  void settle() {
    for (bool is_busy = true; is_busy;) {
      run();
      is_busy = false;
      for (auto& end : carriers_) {
        if (end->is_dead || !end->messenger->has_deferred()) continue;
        end->messenger->send_deferred();
        is_busy = true;
      }
    }
  }

 private:
  struct End final : Carrier {
    End(FakeNetwork& owner, ProcessId own, std::uint32_t processes)
        : network(owner),
          self(own),
          frames(processes),
          writes(processes),
          is_blocked(processes),
          is_linked(processes, true) {}

    std::span<std::byte> room(ProcessId to, std::size_t least) override {
      const auto index = static_cast<std::uint32_t>(to);
      if (!is_linked[index]) return {};
      if (network.is_tight && network.draw(4) == 0) {
        is_blocked[index] = true;
        return {};
      }
      open.assign(least, std::byte{0xEE});
      return open;
    }
    void fill(ProcessId to, std::size_t bytes) override {
      if (network.carriers_[static_cast<std::uint32_t>(to)]->is_dead) return;
      open.resize(bytes);
      const auto index = static_cast<std::uint32_t>(to);
      frames[index].push_back({.bytes = open, .after = writes[index].size()});
    }
    bool can_write(ProcessId to) override {
      const auto index = static_cast<std::uint32_t>(to);
      if (!is_linked[index]) return false;
      const bool can = !network.is_tight || writes[index].size() < 2;
      is_blocked[index] = is_blocked[index] || !can;
      return can;
    }
    void write(ProcessId to, const Write& write) override {
      if (network.carriers_[static_cast<std::uint32_t>(to)]->is_dead) return;
      writes[static_cast<std::uint32_t>(to)].push_back(write);
    }
    Result<Exposed> expose(ProcessId, std::span<std::byte> memory, std::size_t) override {
      const auto handle = ++next_handle;
      exposed.emplace(handle, memory);
      return Exposed{.handle = handle,
                     .remote_address = reinterpret_cast<std::uint64_t>(memory.data()),
                     .remote_key = RemoteKey{static_cast<std::uint32_t>(handle)}};
    }
    void withdraw(std::uint64_t handle) override { exposed.erase(handle); }

    FakeNetwork& network;
    ProcessId self;
    struct Frame {
      std::vector<std::byte> bytes;
      std::size_t after = 0;  ///< the number of writes that must arrive before it
    };
    std::unique_ptr<Messenger> messenger;
    std::vector<std::byte> open;
    std::vector<std::deque<Frame>> frames;
    std::vector<std::deque<Write>> writes;
    std::vector<bool> is_blocked, is_linked;
    std::map<std::uint64_t, std::span<std::byte>> exposed;
    std::uint64_t next_handle = 0;
    bool is_dead = false;
  };

  void move(End& from, std::uint32_t to) {
    End& there = *carriers_[to];
    const std::size_t kinds = 3, first = draw(kinds);
    for (std::size_t i = 0; i < kinds; ++i) {
      switch ((first + i) % kinds) {
        case 0:
          if (from.frames[to].empty() || from.frames[to].front().after != 0) break;
          {
            const auto frame = std::move(from.frames[to].front());
            from.frames[to].pop_front();
            if (const auto handled = there.messenger->on_records(from.self, frame.bytes); !handled)
              throw std::logic_error("a frame is refused: " + handled.error().what);
          }
          return;
        case 1:
          if (from.writes[to].empty()) break;
          {
            const auto write = from.writes[to].front();
            from.writes[to].pop_front();
            for (auto& frame : from.frames[to])
              if (frame.after != 0) --frame.after;
            ++writes_;
            const auto region = there.exposed.find(static_cast<std::uint64_t>(write.remote_key));
            if (region == there.exposed.end()) throw std::logic_error("a write to no region");
            const auto offset = write.remote_address - reinterpret_cast<std::uint64_t>(region->second.data());
            std::ranges::copy(write.bytes, region->second.subspan(offset, write.bytes.size()).begin());
            if (!there.messenger->on_write_arrived(from.self, write.arrival, write.bytes.size()))
              throw std::logic_error("a write is refused");
            if (!from.is_dead) from.messenger->on_written(there.self, write.transfer);
          }
          return;
        default:
          if (!from.is_blocked[to]) break;
          from.is_blocked[to] = false;
          from.messenger->on_room(there.self);
          return;
      }
    }
  }

  std::mt19937_64 random_;
  std::vector<std::unique_ptr<End>> carriers_;
  std::size_t writes_ = 0;
};

}  // namespace rdmc::replica::testing
