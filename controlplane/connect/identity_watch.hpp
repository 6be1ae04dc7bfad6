// Calls a function when a process's credentials can no longer be read from their files, and when they can be
// read again. Between these two calls the process uses the credentials that it read before. These may include
// a key that was meant to be revoked. The creator owns the watch. It must destroy the watch before the loop,
// and may do so on any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "controlplane/connect/channel_options.hpp"
#include "controlplane/connect/control_loop.hpp"

namespace rdmc::control {

/// Returns a message for the user that describes the change.
std::string words_about_identity(const Result<void>& readable);

class IdentityWatch {
 public:
  /// The time between two checks of the files.
  static constexpr Duration kEvery = milliseconds(500);
  /// Called once with the error when the files become unreadable, and once with success when they become
  /// readable again. Called on the loop's thread. Must not destroy the watch.
  using Changed = std::function<void(const Result<void>& readable)>;

  IdentityWatch(ControlLoop& loop, Security security, Changed changed);
  ~IdentityWatch();
  IdentityWatch(const IdentityWatch&) = delete;
  IdentityWatch& operator=(const IdentityWatch&) = delete;

  // The functions below must be called on the loop's thread.

  bool readable() const;
  /// The number of times that the files became unreadable. It never decreases.
  std::uint64_t failures() const;

 private:
  struct State;
  ControlLoop& loop_;
  const std::shared_ptr<State> state_;
};

}  // namespace rdmc::control
