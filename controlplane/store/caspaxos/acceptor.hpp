// The acceptor of CASPaxos: for each register it promises ballots and accepts values, in one configuration at
// a time. It keeps what must be durable, says after which write an answer may leave, and leaves writing and
// sending to its owner. Pure; one thread.
//
// Three rules carry the safety of a change of configurations:
// - An acceptor answers for groups only in the epoch that it is active in. Once it has accepted a value for
//   the configuration register of that epoch, it is sealed, and answers for groups no more.
// - It becomes active in the next epoch only with a state that contains all that was chosen before: from a
//   majority of the sealed acceptors of the epoch before, or from one that is active already.
// - Its id stands for its durable state. Without that state it has another id, which no configuration names.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "controlplane/store/caspaxos/messages.hpp"

namespace rdmc::store {

class Acceptor {
 public:
  static constexpr std::size_t kMostRegisters = 16384;
  static constexpr std::size_t kMostKeptBytes = 8 << 20;  ///< of all values
  /// Promises that were never followed by a value; beyond, all are raised to the highest.
  static constexpr std::size_t kMostPromises = 8192;
  /// The ceiling of promises is raised, and written, by so much.
  static constexpr std::uint64_t kCeilingStep = 1 << 16;
  /// A counter may be ahead of the ceiling by so much: nobody uses the numbers up.
  static constexpr std::uint64_t kMostLeap = std::uint64_t{1} << 32;
  /// A configuration that an operator forces is at least so many epochs ahead: of all that may have been
  /// agreed. Of every three runs of so many epochs each node has one for those that are forced on it and
  /// those that follow them. So two nodes never make two configurations of one epoch. A node that has lost
  /// its state does not know which runs it has used: it takes none with a lower number than
  /// Node::Options::started of its present life.
  static constexpr std::uint64_t kForcedEpochs = 1 << 20;

  /// What it says, when the write of that number, and all before, are durable. 0: at once.
  struct Answer {
    decltype(Reply::body) body;
    std::uint64_t after = 0;
  };

  /// Something to be appended to the journal, or, if it is whole, to take the journal's place.
  struct Write {
    std::uint64_t sequence = 0;
    bool whole = false;
    Bytes entry;
  };

  /// `kept` is what was read from the disk, or a new id alone. Its first write is everything: what was read
  /// may never have reached the disk itself.
  explicit Acceptor(Durable kept);

  Answer query(const Query& query) const;
  Answer list(const ListQuery& query) const;
  Answer prepare(const Prepare& prepare);
  Answer accept(Accept accept);
  /// For a first configuration; at most one in each epoch, and none once it is part of a configuration.
  Answer vote(const Configuration& configuration);
  /// The vote is again for `first`, for which it had voted, because what it voted for since cannot begin.
  void return_to(const Configuration& first) { kept_.vote = first; }
  /// The state with which `next` begins, if it has that.
  Answer contents_for(const Configuration& next) const;

  /// A configuration that was agreed: from now on it answers in no earlier one. False: it has no part in
  /// that. Without state it then forgets the one that it was to join, too, and can ask for its place anew.
  bool adopt(const Configuration& next);
  /// `next` begins here, with this state.
  void activate(Registers registers);
  /// Begins an epoch with the registers that it keeps. It is the only acceptor of that epoch, at place `self`
  /// of `nodes`, in the run `earliest_run` or later.
  void survive(std::size_t self, std::size_t nodes, std::uint64_t earliest_run);

  bool has_state() const { return kept_.active.epoch != 0; }
  bool is_serving() const { return has_state() && kept_.next.epoch == 0; }
  bool is_sealed() const { return kept_.registers.contains(kConfigurationRegister); }
  /// A configuration without it has been agreed.
  bool is_replaced() const { return kept_.next.epoch != 0 && !kept_.next.contains(kept_.id); }
  /// The newest that it knows to be agreed.
  const Configuration& newest() const { return kept_.next.epoch != 0 ? kept_.next : kept_.active; }
  const Durable& kept() const { return kept_; }
  /// Registers of groups.
  std::size_t groups() const { return kept_.registers.size() - (is_sealed() ? 1 : 0); }
  /// All that it keeps for groups.
  Registers contents() const;

  /// What has changed since the last write; nothing, if nothing has.
  std::optional<Write> take_write();
  /// All writes up to this one are durable.
  void synced(std::uint64_t sequence);
  /// The number of the write after which everything so far is durable.
  std::uint64_t everything() const { return is_dirty() ? next_write_ : next_write_ - 1; }

 private:
  std::optional<Refusal> refusal(std::uint64_t epoch, const std::string& name) const;
  std::optional<Refusal> refusal(const Ballot& ballot, const std::string& name) const;
  Ballot promised(const std::string& name) const;
  void reserve(std::uint64_t counter);
  void remember_promise(const std::string& name, const Ballot& ballot);
  std::uint64_t durable_after(const std::string& name) const;
  bool has_room(const std::string& name, const Bytes& value) const;
  bool is_dirty() const { return whole_dirty_ || head_dirty_ || !dirty_.empty(); }

  Durable kept_;
  Ballot floor_;  ///< everything up to it counts as promised, for every register
  std::map<std::string, Ballot> promises_;
  std::size_t kept_bytes_ = 0;

  std::uint64_t next_write_ = 1;
  bool whole_dirty_ = true, head_dirty_ = false;
  std::set<std::string> dirty_;                   ///< registers, since the last write
  std::map<std::string, std::uint64_t> written_;  ///< the write that made each durable, until it has
  std::uint64_t head_written_ = 1;                ///< the same for everything else
  std::size_t journal_bytes_ = 0, whole_bytes_ = 0;
};

}  // namespace rdmc::store
