// One connection of an endpoint. The application's threads ask for operations. The fabric thread posts them
// to the queue pair in batches and takes the completions. A mutex, which is held only briefly, protects what
// both sides use. This class is separate from DataPath because a handle of a connection may outlive the
// endpoint. The queue pair and its memory are made and destroyed on the fabric thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "dataplane/fabric/queue_pair.hpp"
#include "dataplane/roce/fixed_ring.hpp"
#include "lib/include/rdmc/unicast.hpp"

namespace rdmc::unicast {

/// An operation, as an application's thread asks for it.
using Work = std::variant<fabric::SendRequest, fabric::WriteRequest, fabric::ReadRequest,
                          fabric::AtomicRequest, fabric::ReceiveRequest>;

struct LinkOptions {
  std::uint32_t send_depth = 256, receive_depth = 512;
  Duration receive_patience = seconds(10);
  Capabilities capabilities = {};
};

class Link {
 public:
  /// `kick` wakes the fabric thread after a request was stored. It is called while the mutex is held.
  Link(ConnectionId id, const LinkOptions& options, std::function<void()> kick);
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // -- Any thread may call these functions. --

  ConnectionId id() const { return id_; }
  bool is_open() const { return state_ == State::open; }
  /// Stores an operation, which the fabric thread will post. Errors: would_block, peer_failed,
  /// invalid_argument if the operation is too long, unsupported.
  Result<void> ask(const Work& work);
  Result<void> ask_copy(std::span<const std::byte> bytes, std::uint64_t work_id,
                        std::optional<std::uint32_t> immediate);
  /// Ends the link at the request of the application. Has no effect unless the link is open.
  void disconnect();
  /// Ends the link at the request of the control plane. May be called several times; the first cause counts.
  /// Must not be called after the endpoint has ended.
  void ask_for_end(Error cause) noexcept;
  /// Called when the application gets these completions of this link. It may then ask for that many more
  /// operations.
  void hand_over(std::span<const Completion> completions);
  /// The peer's description. It is known from the moment when the link opens.
  const PeerInfo& peer() const { return peer_; }

  /// The upcall that gets the result of the application's connect(), once. It is set before anything can
  /// fail. Only the dialing thread uses it until the link is added to the data path. From then on only the
  /// fabric thread uses it.
  void set_done(Endpoint::ConnectDone done) { done_ = std::move(done); }
  Endpoint::ConnectDone take_done() { return std::exchange(done_, {}); }

  // -- Only the fabric thread may call these functions. --

  /// Makes the queue pair, and returns its connection blob. Errors: those of the fabric.
  Result<fabric::ConnectionBlob> make_queue_pair(fabric::Fabric& fabric);
  /// Connects the queue pair with the peer's blob. Errors: those of QueuePair::connect.
  Result<void> connect(std::span<const std::byte> blob) { return queue_pair_->connect(blob); }
  /// Allows operations from now on. Returns false if the link was closed before.
  bool open(PeerInfo peer);
  bool was_opened() const { return was_opened_; }
  bool is_closed() const { return state_ == State::closed; }
  /// Posts the operations that were asked for, and returns their number.
  std::size_t post_asked();
  /// Takes completions from the queue pair, and returns their number. `polled` is a buffer for the fabric's
  /// completions. `out` must be as long as `polled`.
  std::size_t poll(std::span<fabric::Completion> polled, std::span<Completion> out);
  struct Fault {
    Error error;
    /// An operation of the local side failed, and `error` names the cause. Otherwise the peer may know the
    /// cause.
    bool is_explained = false;
    /// The local side has refused a request of the peer. The packet with the refusal may be lost, and only
    /// the queue pair can repeat it.
    bool is_our_refusal = false;
  };
  /// Returns the reason why the link cannot go on, or nullopt if it can.
  std::optional<Fault> fault() const;
  /// Closes the link to new operations.
  void close();
  /// Returns the cause of the end that was asked for since the last call, or nullopt.
  std::optional<Error> take_end_wish();
  /// Destroys the queue pair. From then on flush() returns the operations that have no completion.
  void destroy_queue_pair();
  /// Writes a flushed completion for each operation that has no completion yet, in order. Returns the number
  /// of completions that it has written. This is 0 when no operation is left.
  std::size_t flush(std::span<Completion> out);
  /// The queue pair, for registering regions. Null if it was not made yet or was destroyed.
  fabric::QueuePair* queue_pair() { return queue_pair_.get(); }

 private:
  enum class State : std::uint8_t { connecting, open, closed };
  struct Posted {
    std::uint64_t work_id = 0;
    WorkKind kind = WorkKind::send;
    std::optional<std::uint32_t> slot;  // the slot of a copied message
  };
  struct Asked {
    Work work;
    std::optional<std::uint32_t> slot;
  };

  Result<void> check(const Work& work) const;
  Result<void> reserve(bool receives);
  void note(Asked asked);
  void wish_end(Error cause) noexcept;
  Result<void> post(const Work& work);
  void give_back(std::optional<std::uint32_t> slot);
  std::span<std::byte> bytes_of(std::uint32_t slot) const;

  const ConnectionId id_;
  const LinkOptions options_;
  const std::function<void()> kick_;
  PeerInfo peer_;  // written before state_ becomes open
  Endpoint::ConnectDone done_;
  std::atomic<State> state_ = State::connecting;
  // The numbers of operations whose completions the application does not have yet. They increase only while
  // the mutex is held.
  std::atomic<std::uint32_t> sends_held_ = 0, receives_held_ = 0;
  // These flags allow a turn without new work to skip the mutex.
  std::atomic<bool> has_asked_ = false, has_end_wish_ = false;

  std::mutex mutex_;  // protects the members that follow, up to free_slots_
  std::vector<Asked> asked_;
  std::optional<Error> end_wish_;
  std::vector<std::uint32_t> free_slots_;

  // Only the fabric thread uses the following members.
  std::vector<Asked> posting_;  // swapped with asked_ to post a batch
  memory::Arena slots_;
  std::unique_ptr<fabric::MemoryRegion> pinned_;
  std::unique_ptr<fabric::QueuePair> queue_pair_;  // declared after its memory, so that it is destroyed first
  roce::FixedRing<Posted> sends_, receives_;       // posted operations without a completion
  std::optional<Error> fault_;
  WorkStatus first_failure_ = WorkStatus::success;
  bool was_opened_ = false;
};

}  // namespace rdmc::unicast
