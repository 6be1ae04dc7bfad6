// The values of a CASPaxos register (Rystsov, "CASPaxos: Replicated State Machines without logs", 2018): the
// acceptors that keep the register, the order of proposals, and the proposals that were accepted. The types
// are plain values. Any thread may use them.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace rdmc::store {

using Bytes = std::vector<std::byte>;

/// The greatest number of nodes of a store. A store has one node or three.
inline constexpr std::size_t kMostNodes = 3;
inline constexpr std::size_t kMaxRegisterNameBytes = 255;
inline constexpr std::size_t kMaxValueBytes = 1 << 20;
/// The highest epoch of a configuration. No store reaches it in practice.
inline constexpr std::uint64_t kMaxEpoch = std::uint64_t{1} << 60;

/// 128 random bits from the operating system, which identify an acceptor or a proposer. An acceptor draws its
/// id when it creates its durable state. So if an acceptor has lost this state, it has a new id. A proposer
/// draws its id each time that it starts, so that two lives of one process never use the same ballot. The id
/// zero stands for no acceptor and no proposer.
struct Id {
  std::uint64_t high = 0, low = 0;
  explicit operator bool() const { return high != 0 || low != 0; }
  friend auto operator<=>(const Id&, const Id&) = default;
};

/// The number that orders proposals. Each ballot of a later configuration is higher than all ballots of
/// earlier configurations. A ballot of epoch 0 means that nothing was accepted.
struct Ballot {
  std::uint64_t epoch = 0;  ///< The epoch of the configuration in which the proposal was made.
  std::uint64_t counter = 0;
  Id proposer;
  friend auto operator<=>(const Ballot&, const Ballot&) = default;
};

/// The proposal that an acceptor has accepted for one register. It is empty if the acceptor has accepted
/// none.
struct Accepted {
  Ballot ballot;
  Bytes value;
  bool empty() const { return ballot.epoch == 0; }
  friend bool operator==(const Accepted&, const Accepted&) = default;
};
using Registers = std::map<std::string, Accepted>;

/// The acceptors of one epoch. Each epoch has exactly one configuration. Epoch 0 stands for no configuration.
struct Configuration {
  std::uint64_t epoch = 0;
  std::vector<Id>
      /// Indexed by node number. The id is zero if the configuration has no acceptor at that node.
      acceptors;
  /// The state of this configuration comes from a majority of the acceptors in `from`. These acceptors were
  /// sealed in the epoch `from_epoch`. If `from` is empty, the store is new.
  std::uint64_t from_epoch = 0;
  std::vector<Id> from;  ///< Indexed by node number, as `acceptors` is.

  static std::size_t count_of(const std::vector<Id>& ids) {
    return static_cast<std::size_t>(std::ranges::count_if(ids, [](const Id& id) { return bool(id); }));
  }
  static std::size_t majority_of(const std::vector<Id>& ids) { return count_of(ids) / 2 + 1; }
  static bool is_among(const std::vector<Id>& ids, const Id& id) {
    return id && std::ranges::find(ids, id) != ids.end();
  }
  /// The number of acceptors. Entries that are zero do not count.
  std::size_t size() const { return count_of(acceptors); }
  std::size_t majority() const { return majority_of(acceptors); }
  bool contains(const Id& id) const { return is_among(acceptors, id); }
  friend bool operator==(const Configuration&, const Configuration&) = default;
};

/// The name of the register that contains the next configuration. Each epoch has such a register. The name is
/// empty, and no group can have an empty name.
inline const std::string kConfigurationRegister;

/// All state that an acceptor must not forget.
struct Durable {
  Id id;                 ///< Zero if no state was ever kept.
  Configuration active;  ///< The configuration in which the acceptor answers, unless `next` is set.
  /// The agreed configuration that replaces `active`. Epoch 0 if the acceptor knows no such configuration.
  Configuration next;
  Configuration vote;  ///< The first configuration that the acceptor has voted for.
  /// The acceptor may have promised any ballot with a counter up to this value. The promises themselves are
  /// not kept. After a restart, the acceptor treats all ballots up to this counter as promised.
  std::uint64_t ceiling = 0;
  Registers registers;
  friend bool operator==(const Durable&, const Durable&) = default;
};

}  // namespace rdmc::store
