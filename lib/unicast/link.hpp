// One connection of an endpoint. Two sides meet here under a mutex that is held for moments: applications'
// threads, which ask for operations, and the fabric thread, which posts them to the queue pair a batch at a
// time and takes the completions. It exists apart from DataPath so that a handle of it can outlive the
// endpoint; the queue pair and its memory live and end on the fabric thread.
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

/// An operation as an application's thread asks for it.
using Work = std::variant<fabric::SendRequest, fabric::WriteRequest, fabric::ReadRequest,
                          fabric::AtomicRequest, fabric::ReceiveRequest>;

struct LinkOptions {
  std::uint32_t send_depth = 256, receive_depth = 512;
  Duration receive_patience = seconds(10);
  Capabilities capabilities = {};
};

class Link {
 public:
  /// `kick` tells the fabric thread that something was asked for; it is called with the mutex.
  Link(ConnectionId id, const LinkOptions& options, std::function<void()> kick);
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // -- any thread --

  ConnectionId id() const { return id_; }
  bool is_open() const { return state_ == State::open; }
  /// Errors: would_block, peer_failed, invalid_argument (too long), unsupported.
  Result<void> ask(const Work& work);
  Result<void> ask_copy(std::span<const std::byte> bytes, std::uint64_t work_id,
                        std::optional<std::uint32_t> immediate);
  /// The application wants its end: nothing happens unless it is open.
  void disconnect();
  /// The control plane wants its end. It may have been told so before: the first cause stands. Not after the
  /// endpoint has ended.
  void ask_for_end(Error cause) noexcept;
  /// The application has these completions of ours now: it may ask for as many operations more.
  void hand_over(std::span<const Completion> completions);
  /// Who is at the other end: known when the link opens.
  const PeerInfo& peer() const { return peer_; }

  /// What the dialing application is to be told, once: here from before anything can fail until it is told.
  /// Before the link is added to the data path, and then on the fabric thread.
  void set_done(Endpoint::ConnectDone done) { done_ = std::move(done); }
  Endpoint::ConnectDone take_done() { return std::exchange(done_, {}); }

  // -- the fabric thread --

  /// Errors: those of the fabric.
  Result<fabric::ConnectionBlob> make_queue_pair(fabric::Fabric& fabric);
  /// Errors: those of QueuePair::connect.
  Result<void> connect(std::span<const std::byte> blob) { return queue_pair_->connect(blob); }
  /// Takes operations from now on. False: it was closed before.
  bool open(PeerInfo peer);
  bool was_opened() const { return was_opened_; }
  bool is_closed() const { return state_ == State::closed; }
  /// Posts what was asked for; returns how much.
  std::size_t post_asked();
  /// Takes completions from the queue pair; returns how many. They come in `polled` as the fabric has them;
  /// `out` is as long.
  std::size_t poll(std::span<fabric::Completion> polled, std::span<Completion> out);
  struct Fault {
    Error error;
    bool is_explained = false;  ///< one of our operations failed, by name; false: the peer may know why
    /// We have refused what the peer sent. The refusal may have been lost, and only the queue pair can repeat
    /// it.
    bool is_our_refusal = false;
  };
  /// Why it cannot go on; nothing: it can.
  std::optional<Fault> fault() const;
  /// Takes no more operations.
  void close();
  /// Why its end was asked for since the last call; nothing: it was not.
  std::optional<Error> take_end_wish();
  /// Destroys the queue pair. From then on flush() gives what was not completed.
  void destroy_queue_pair();
  /// Completions of operations that were not completed, in order; how many of them there were, 0: no more.
  std::size_t flush(std::span<Completion> out);
  /// For regions; null: it is over.
  fabric::QueuePair* queue_pair() { return queue_pair_.get(); }

 private:
  enum class State : std::uint8_t { connecting, open, closed };
  struct Posted {
    std::uint64_t work_id = 0;
    WorkKind kind = WorkKind::send;
    std::optional<std::uint32_t> slot;  // of a copy
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
  PeerInfo peer_;  // written before state_ is open
  Endpoint::ConnectDone done_;
  std::atomic<State> state_ = State::connecting;
  // Asked for, and not handed over; they grow with the mutex only.
  std::atomic<std::uint32_t> sends_held_ = 0, receives_held_ = 0;
  // So that a turn without anything new takes no mutex.
  std::atomic<bool> has_asked_ = false, has_end_wish_ = false;

  std::mutex mutex_;  // of what follows
  std::vector<Asked> asked_;
  std::optional<Error> end_wish_;
  std::vector<std::uint32_t> free_slots_;

  // The fabric thread's.
  std::vector<Asked> posting_;  // asked_'s other half: the two change places
  memory::Arena slots_;
  std::unique_ptr<fabric::MemoryRegion> pinned_;
  std::unique_ptr<fabric::QueuePair> queue_pair_;  // goes before the memory that it uses
  roce::FixedRing<Posted> sends_, receives_;       // posted, and not completed
  std::optional<Error> fault_;
  WorkStatus first_failure_ = WorkStatus::success;
  bool was_opened_ = false;
};

}  // namespace rdmc::unicast
