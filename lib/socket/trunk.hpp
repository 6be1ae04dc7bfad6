// The channel between two processes: a link (one queue pair, and a frame ring on each side) and the
// connections that share this link. The link belongs to the fabric thread. The connections, in their Mux, are
// guarded by the sockets' lock. A trunk that was lost once stays lost.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "controlplane/peer/last_turns.hpp"
#include "dataplane/fabric/queue_pair.hpp"
#include "lib/group/link.hpp"
#include "lib/socket/fair_mutex.hpp"
#include "lib/socket/mux.hpp"

namespace rdmc::sockets {

class Trunk {
 public:
  /// The size of the frame ring on each side.
  static constexpr std::uint32_t kRingBytes = 256 * 1024;

  /// Makes a trunk. `lock` guards `mux`. Errors: those of group::Link::create.
  static Result<std::shared_ptr<Trunk>> create(fabric::Fabric& fabric, FairMutex& lock,
                                               std::shared_ptr<Mux> mux);

  const std::shared_ptr<Mux>& mux() const { return mux_; }
  fabric::ConnectionBlob local_blob() const { return link_->local_blob(); }
  Result<void> connect(std::span<const std::byte> blob) { return link_->connect(blob); }

  /// Does one turn's work: passes frames and chunks that have arrived to the connections, and sends what the
  /// connections want to send. If very much has arrived, the next turn handles the rest. Returns the amount
  /// of work that was done. Takes the lock if something has arrived, if the lanes are ready, or if `kicked`.
  std::size_t work(bool kicked);
  /// Sets the function `lost`, which is called once, by lose(), on the fabric thread.
  void on_lost(std::function<void()> lost) { on_lost_ = std::move(lost); }
  /// Ends every connection with `error`. Nothing is sent or received any more. Takes the lock.
  void lose(int error);
  /// Must be called when the peer has gone. The trunk sends nothing more. It is lost when everything that has
  /// arrived was handled.
  void leave(int error) {
    if (!leaving_) leaving_.emplace(Leaving{.error = error, .last_turns = {}});
  }
  /// Must be called after each turn. `done` is the amount of work that this trunk and the fabric have done in
  /// the turn. Returns the amount of work that this call has done.
  std::size_t end_turn(std::size_t done);
  bool is_lost() const { return !link_->is_open(); }
  /// True if everything that the connections have sent has arrived. Must be called with the lock.
  bool is_quiet() const {
    return is_lost() || (!mux_->has_something() && !mux_->has_chunks() && link_->is_quiet());
  }

 private:
  Trunk(fabric::Fabric& fabric, FairMutex& lock, std::shared_ptr<Mux> mux)
      : fabric_(fabric), lock_(lock), mux_(std::move(mux)) {}
  Result<void> on_completion(const fabric::Completion& completion);
  Result<std::size_t> say(std::unique_lock<FairMutex>& lock);
  Result<std::shared_ptr<LanePool>> exchange_lanes();
  Result<void> on_chunk(const fabric::Completion& completion);
  void make_slots(std::unique_lock<FairMutex>& lock);
  Result<std::size_t> write_chunks();

  struct Leaving {
    int error = 0;
    peer::LastTurns last_turns;
  };

  fabric::Fabric& fabric_;
  FairMutex& lock_;
  std::shared_ptr<Mux> mux_;
  std::unique_ptr<group::Link> link_;
  std::function<void()> on_lost_;
  std::optional<Leaving> leaving_;
  bool has_lanes_ = false;
  std::unique_ptr<fabric::MemoryRegion> slots_region_;
  // The chunks in flight. The oldest chunk completes first.
  std::deque<std::pair<std::shared_ptr<Stream>, Chunk>> under_way_;
};

}  // namespace rdmc::sockets
