// The transfer of the state of one replica to another. The two make a group of their own for it, in which the
// donor is the root. Its messages are pieces of the state. Threads: the functions may be called from any
// thread, but not in an upcall of a group. The hooks run on threads of the library.
#pragma once

#include <functional>
#include <memory>

#include "lib/include/rdmc/replicated_state.hpp"
#include "lib/state/messages.hpp"

namespace rdmc::state {

/// The number of the group for one transfer. `transfer` is Save::group or Load::group.
GroupNumber group_of(GroupNumber state, std::uint32_t transfer);

/// The side of the replica that has the state.
class Donor {
 public:
  /// Sends `head`, and then what is written. Errors: those of Membership::create_group.
  static Result<std::unique_ptr<Donor>> open(Membership& membership, GroupNumber number, const Bytes& head);
  /// Does the same as close().
  ~Donor();

  void write(Bytes bytes);
  void finish();
  /// Ends the transfer. What is written after that is dropped.
  void close();
  /// What is not sent yet is dropped, and so is what is written after that. May be called in an upcall.
  void abandon();
  std::size_t waiting_bytes() const;

 private:
  class Impl;
  explicit Donor(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  const std::shared_ptr<Impl> impl_;
};

/// The side of the replica that gets the state.
class Recipient {
 public:
  struct Hooks {
    std::function<void(SnapshotHead)> begun;
    std::function<void(std::shared_ptr<const Bytes> piece)> got;
    std::function<void()> ended;
    /// The transfer has failed. No other hook follows.
    std::function<void()> failed;
    /// False while too much waits for the application.
    std::function<bool()> has_room;
  };
  /// `donor` is the member that sends the state. Errors: those of Membership::create_group.
  static Result<std::unique_ptr<Recipient>> open(Membership& membership, GroupNumber number, MemberId donor,
                                                 Hooks hooks);
  /// Ends the transfer. When the destructor has returned, no hook runs.
  ~Recipient();
  /// To be called again and again while has_room() is true: messages may wait for memory.
  void give_room();
  /// True if the donor has sent something.
  bool has_begun() const;

 private:
  class Impl;
  explicit Recipient(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  const std::shared_ptr<Impl> impl_;
};

}  // namespace rdmc::state
