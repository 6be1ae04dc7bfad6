// A group socket as its calls see it: messages that have come and not been read, what was told of the
// members in between, and at the root messages on their way to them. Whoever moves the bytes (GroupSession)
// fills and empties it. Pure; under the sockets' lock.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "lib/include/rdmc/socket.h"
#include "lib/socket/endpoint.hpp"

namespace rdmc::sockets {

class GroupEnd final : public Endpoint {
 public:
  /// What the root keeps for members that have not got it, and a member for an application that does not
  /// read, beyond one message.
  static constexpr std::size_t kMostKept = 16 << 20;
  static constexpr std::size_t kMostMessageBytes = 1 << 30;
  /// What was told of members and waits to be read; the oldest goes when there is more.
  static constexpr std::size_t kMostEvents = 256;
  /// A message's bytes, of any value at first: zeros for 1 GB would take an engine longer than its peers
  /// wait.
  class Memory {
   public:
    explicit Memory(std::size_t size)
        : bytes_(std::make_unique_for_overwrite<std::byte[]>(size)), size_(size) {}
    std::byte* data() const { return bytes_.get(); }
    std::byte* begin() const { return bytes_.get(); }
    std::byte* end() const { return bytes_.get() + size_; }
    std::size_t size() const { return size_; }

   private:
    std::unique_ptr<std::byte[]> bytes_;
    std::size_t size_;
  };
  using Bytes = std::shared_ptr<Memory>;
  /// What a message of so many bytes counts for wherever they are counted: with about what keeping it costs.
  static constexpr std::size_t charge(std::size_t bytes) { return bytes + 256; }

  enum class State { idle, joining, open, ended };
  State state() const { return state_; }
  bool is_root() const { return is_root_; }

  // -- the application's calls --

  void watch(Watcher* watcher) override { watcher_ = watcher; }
  /// Errors of both: EAGAIN, ENOTCONN, EOPNOTSUPP (not the root), EMSGSIZE, EPIPE.
  std::expected<Draft, int> begin_send(std::size_t bytes) override;
  Answer end_send(Draft draft) override;
  /// Whether its receive calls take what is told of members. It is kept until a call does not.
  void want_events(bool wanted);
  /// Passes over what was told of members. Errors: EAGAIN, ENOTCONN, or what ended the group.
  std::expected<Message, int> take(bool peek) override;
  std::size_t unread() const override;
  bool has_message() const override { return !received_.empty() && received_.front().bytes != nullptr; }
  /// What was told of a member before the oldest message, once.
  std::optional<rdmc_member_event> take_event();
  int take_error() override { return std::exchange(error_, 0); }
  void close(bool) override { watcher_ = nullptr, state_ = State::ended; }
  short events() const override;

  // -- what moves the bytes --

  void begin(bool root);
  /// `next`: the first message that is for us.
  void open(std::uint64_t next);
  /// The group is no more: error 0, its root has closed it.
  void end(int error);
  void on_event(const rdmc_member_event& event);
  /// Message number `number` of the group's. False: it is ignored, it has come before.
  bool on_message(std::uint64_t number, Bytes bytes);

  /// The root: there is a new message, as soon as the lock is let go of. If it throws there is none.
  std::function<void()> on_send;
  /// The application has read a message of this charge. Must not throw.
  std::function<void(std::size_t)> on_room;
  /// Of those that some member may lack, the first one's number, and the number after the last.
  std::uint64_t first() const { return first_; }
  std::uint64_t next() const { return next_; }
  const Bytes& message(std::uint64_t number) const { return kept_.at(number - first_); }
  /// All members have those below. They are for the caller to let go of without the lock: to unmap much takes
  /// long.
  std::deque<Bytes> on_stable(std::uint64_t number);
  std::uint32_t members = 0;  ///< in the view, the root included

 private:
  struct Received {
    Bytes bytes;  // null: an event
    rdmc_member_event event;
  };
  Answer check_send(std::size_t bytes);
  void changed(bool data = false) {
    if (watcher_ != nullptr) watcher_->on_change(data);
  }

  Watcher* watcher_ = nullptr;
  State state_ = State::idle;
  bool is_root_ = false;
  int error_ = 0;
  std::deque<Received> received_;
  std::size_t kept_bytes_ = 0, events_ = 0;
  bool wants_events_ = true;
  std::deque<Bytes> kept_;
  std::uint64_t first_ = 0, next_ = 0;
};

}  // namespace rdmc::sockets
