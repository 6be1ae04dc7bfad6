// A group socket as the application's calls see it. It keeps messages that have arrived and were not read,
// events about members between these messages, and on the root the messages that some members lack. A
// GroupSession transfers the bytes, and adds and removes what this object keeps. A core without I/O. The
// caller must hold the sockets' lock.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "dataplane/memory/aligned_mapping.hpp"
#include "dataplane/memory/arena.hpp"
#include "lib/include/rdmc/socket.h"
#include "lib/socket/endpoint.hpp"

namespace rdmc::sockets {

class GroupEnd final : public Endpoint {
 public:
  /// A limit in bytes, in addition to one message. It applies to what the root keeps for members that lack
  /// messages, and to what a member keeps for an application that does not read.
  static constexpr std::size_t kMostKept = 16 << 20;
  static constexpr std::size_t kMostMessageBytes = 1 << 30;
  /// The most events that may wait to be read. If there are more, the oldest one is dropped.
  static constexpr std::size_t kMostEvents = 256;
  /// The bytes of a message. Their values are undefined at first, because zeroing 1 GB would take the fabric
  /// thread longer than its peers wait. From kInPages bytes on, they have pages of their own. Then an
  /// application can get the pages, and the kernel can use huge pages, which are much faster to get.
  class Memory {
   public:
    static constexpr std::size_t kInPages = memory::kHugePageBytes;
    /// Throws std::bad_alloc.
    explicit Memory(std::size_t size);
    std::byte* data() const { return bytes_.data(); }
    std::byte* begin() const { return bytes_.data(); }
    std::byte* end() const { return bytes_.data() + bytes_.size(); }
    std::size_t size() const { return bytes_.size(); }

   private:
    std::unique_ptr<std::byte[]> small_;
    memory::Arena pages_;
    std::span<std::byte> bytes_;
  };
  using Bytes = std::shared_ptr<Memory>;
  /// Returns how much a message of this length counts in all limits: its bytes, and roughly the cost of
  /// keeping it.
  static constexpr std::size_t charge(std::size_t bytes) { return bytes + 256; }

  enum class State { idle, joining, open, ended };
  State state() const { return state_; }
  bool is_root() const { return is_root_; }

  // -- called by the application's calls --

  void watch(Watcher* watcher) override { watcher_ = watcher; }
  /// Errors of begin_send() and end_send(): EAGAIN, ENOTCONN, EOPNOTSUPP (this member is not the root),
  /// EMSGSIZE, EPIPE.
  std::expected<Draft, int> begin_send(std::size_t bytes) override;
  Answer end_send(Draft draft) override;
  /// Sets whether the application's receive calls return member events. Events are kept until a receive call
  /// with `wanted` = false.
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

  // -- called by the group session --

  void begin(bool root);
  /// Opens the socket for messages. `next` is the number of the first message for this member.
  void open(std::uint64_t next);
  /// Must be called when the group has ended. Error 0 means that the root has closed the group.
  void end(int error);
  void on_event(const rdmc_member_event& event);
  /// Must be called when the group's message `number` has arrived. Returns false if the message is ignored,
  /// because it has arrived before or the group is not open.
  bool on_message(std::uint64_t number, Bytes bytes);

  /// On the root: called when there is a new message. Other threads see this message as soon as the lock is
  /// released. If the callback throws, the message is dropped.
  std::function<void()> on_send;
  /// Called when the application has read a message. The argument is the charge() of this message. Must not
  /// throw.
  std::function<void(std::size_t)> on_room;
  /// The messages that some member may lack have the numbers from first() up to, but not including, next().
  std::uint64_t first() const { return first_; }
  std::uint64_t next() const { return next_; }
  const Bytes& message(std::uint64_t number) const { return kept_.at(number - first_); }
  /// Must be called when all members have the messages below `number`. Returns those of these messages that
  /// were kept until now. The caller should destroy them without the lock, because unmapping much memory
  /// takes long.
  std::deque<Bytes> on_stable(std::uint64_t number);
  std::uint32_t members = 0;  ///< the number of members in the view, including the root

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
