// A group socket as the application's calls see it: messages that have arrived and were not read, events
// about members between these messages, and on the root the messages that some members lack. GroupSession
// moves the bytes and fills and empties this object. A core without I/O. The caller must hold the sockets'
// lock.
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
  /// How many bytes, beyond one message, the root keeps for members that lack them, and a member keeps for an
  /// application that does not read.
  static constexpr std::size_t kMostKept = 16 << 20;
  static constexpr std::size_t kMostMessageBytes = 1 << 30;
  /// The most events that may wait to be read. If there are more, the oldest one is dropped.
  static constexpr std::size_t kMostEvents = 256;
  /// The bytes of a message. Their values are undefined at first, because zeroing 1 GB would take the fabric
  /// thread longer than its peers wait.
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
  /// How much a message of this length counts in all limits: its bytes, and roughly the cost of keeping it.
  static constexpr std::size_t charge(std::size_t bytes) { return bytes + 256; }

  enum class State { idle, joining, open, ended };
  State state() const { return state_; }
  bool is_root() const { return is_root_; }

  // -- calls of the application --

  void watch(Watcher* watcher) override { watcher_ = watcher; }
  /// Errors of both functions: EAGAIN, ENOTCONN, EOPNOTSUPP (not the root), EMSGSIZE, EPIPE.
  std::expected<Draft, int> begin_send(std::size_t bytes) override;
  Answer end_send(Draft draft) override;
  /// True if the application's receive calls take member events. Events are kept until a receive call does
  /// not want them.
  void want_events(bool wanted);
  /// Skips the member events before the oldest message. Errors: EAGAIN, ENOTCONN, or the error that ended the
  /// group.
  std::expected<Message, int> take(bool peek) override;
  std::size_t unread() const override;
  bool has_message() const override { return !received_.empty() && received_.front().bytes != nullptr; }
  /// Takes the oldest member event before the oldest message. Returns nullopt if there is none.
  std::optional<rdmc_member_event> take_event();
  int take_error() override { return std::exchange(error_, 0); }
  void close(bool) override { watcher_ = nullptr, state_ = State::ended; }
  short events() const override;

  // -- calls of the group session --

  void begin(bool root);
  /// `next` is the number of the first message for this member.
  void open(std::uint64_t next);
  /// The group has ended. Error 0 means that its root has closed it.
  void end(int error);
  void on_event(const rdmc_member_event& event);
  /// The group's message `number` has arrived. Returns false if it is ignored, because it has arrived before
  /// or the group is not open.
  bool on_message(std::uint64_t number, Bytes bytes);

  /// On the root: called when there is a new message, which can be seen as soon as the lock is released. If
  /// the callback throws, the message is dropped.
  std::function<void()> on_send;
  /// Called when the application has read a message of this charge. Must not throw.
  std::function<void(std::size_t)> on_room;
  /// Some member may lack the messages from first() up to, but not including, next().
  std::uint64_t first() const { return first_; }
  std::uint64_t next() const { return next_; }
  const Bytes& message(std::uint64_t number) const { return kept_.at(number - first_); }
  /// All members have the messages below `number`. Returns those of them that were kept until now. The caller
  /// should destroy them without the lock, because unmapping much memory takes long.
  std::deque<Bytes> on_stable(std::uint64_t number);
  std::uint32_t members = 0;  ///< the number of members in the view, the root included

 private:
  struct Received {
    Bytes bytes;  // null if this is an event
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
