// Says when what a process proves itself with cannot be read from its files any more, and when it can again:
// meanwhile it goes on with what it had read, also with a key that somebody meant to revoke. Whoever creates
// it owns it, and destroys it before the loop and on any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "controlplane/connect/channel_options.hpp"
#include "controlplane/connect/control_loop.hpp"

namespace rdmc::control {

/// For people.
std::string words_about_identity(const Result<void>& readable);

class IdentityWatch {
 public:
  /// Between two looks.
  static constexpr Duration kEvery = milliseconds(500);
  /// Why, once, or success when it is over. On the loop's thread; must not destroy the watch.
  using Changed = std::function<void(const Result<void>& readable)>;

  IdentityWatch(ControlLoop& loop, Security security, Changed changed);
  ~IdentityWatch();
  IdentityWatch(const IdentityWatch&) = delete;
  IdentityWatch& operator=(const IdentityWatch&) = delete;

  // On the loop's thread.

  bool readable() const;
  /// How often it ceased to be. Monotone.
  std::uint64_t failures() const;

 private:
  struct State;
  ControlLoop& loop_;
  const std::shared_ptr<State> state_;
};

}  // namespace rdmc::control
