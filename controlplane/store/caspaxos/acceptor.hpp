// The acceptor of CASPaxos. For each register it promises ballots and accepts values. It does this in one
// configuration at a time. It keeps the state that must be durable, and determines after which write an
// answer may be sent. The owner writes the journal and sends the answers. This is a core without I/O. Only
// one thread may use it.
//
// Three rules make a change of the configuration safe:
// - An acceptor answers requests about groups only in the epoch of its active configuration. It becomes
//   sealed when it accepts a value for the configuration register of that epoch. A sealed acceptor answers no
//   more requests about groups.
// - An acceptor becomes active in the next epoch only with a state that contains everything that was chosen
//   before. It gets this state from a majority of the sealed acceptors of the earlier epoch, or from an
//   acceptor that is already active in the next epoch.
// - The id of an acceptor stands for its durable state. If a node has lost its state, its acceptor has
//   another id. No configuration contains this id yet.
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
  /// The largest size of all values together, in bytes.
  static constexpr std::size_t kMostKeptBytes = 8 << 20;
  /// The number of promises that are remembered separately. When there are more, the highest of these
  /// promises counts as promised for all registers. A promise is forgotten when a value is accepted for its
  /// register.
  static constexpr std::size_t kMostPromises = 8192;
  /// When a promise needs a higher ceiling, the ceiling becomes the promised counter plus this number. So
  /// only few promises need a write.
  static constexpr std::uint64_t kCeilingStep = 1 << 16;
  /// A ballot's counter must not exceed the ceiling by more than this number. This limit prevents a client
  /// from using up all counters.
  static constexpr std::uint64_t kMostLeap = std::uint64_t{1} << 32;
  /// The number of epochs in a run. The epochs are divided into runs of this length. A configuration that an
  /// operator forces on a node begins a new run, at least one run length above every epoch that may have been
  /// agreed. Of every three successive runs, each node owns one run. It uses this run for the configurations
  /// that are forced on it and for the configurations that follow them. So two nodes never make two different
  /// configurations of one epoch. A node that has lost its state does not know which runs it has used. So it
  /// uses no run with a number lower than Node::Options::started of its present life.
  static constexpr std::uint64_t kForcedEpochs = 1 << 20;

  /// An answer. If `after` is 0, the answer may be sent at once. Otherwise it must not be sent before the
  /// write with the number `after` and all earlier writes are durable.
  struct Answer {
    decltype(Reply::body) body;
    std::uint64_t after = 0;
  };

  /// An entry for the journal. If `whole` is true, the entry contains the whole state and replaces the
  /// journal. Otherwise it must be appended.
  struct Write {
    std::uint64_t sequence = 0;
    bool whole = false;
    Bytes entry;
  };

  /// `kept` is the state that was read from the disk, or only a new id. The first write contains the whole
  /// state, because the state that was read may have come from a cache and may not be on the disk.
  explicit Acceptor(Durable kept);

  Answer query(const Query& query) const;
  Answer list(const ListQuery& query) const;
  Answer prepare(const Prepare& prepare);
  Answer accept(Accept accept);
  /// Votes for a first configuration. An acceptor votes for at most one configuration in each epoch. When it
  /// is part of a configuration, it does not vote any more.
  Answer vote(const Configuration& configuration);
  /// Changes the vote back to `first`. Preconditions: the acceptor has voted for `first` before, and the
  /// configuration for which it has voted after that cannot begin.
  void return_to(const Configuration& first) { kept_.vote = first; }
  /// Returns the state with which the configuration `next` begins. Returns a refusal if the acceptor does not
  /// have that state.
  Answer contents_for(const Configuration& next) const;

  /// Stores a configuration that was agreed. After that, the acceptor does not answer in an earlier
  /// configuration. Returns false if `next` is not newer than the known configuration, or if the acceptor has
  /// no part in `next`. If an acceptor has no state and no part in `next`, it also forgets the configuration
  /// that it was to join. It can then ask again to be admitted.
  bool adopt(const Configuration& next);
  /// Makes the configuration `Durable::next` the active configuration, with `registers` as its state.
  void activate(Registers registers);
  /// Begins a new epoch with the registers that this acceptor keeps. This acceptor is the only one of that
  /// epoch, as node `self` of `nodes` nodes. The new epoch is the first epoch of a run. The number of the run
  /// is `earliest_run` or higher (see kForcedEpochs).
  void survive(std::size_t self, std::size_t nodes, std::uint64_t earliest_run);

  bool has_state() const { return kept_.active.epoch != 0; }
  bool is_serving() const { return has_state() && kept_.next.epoch == 0; }
  bool is_sealed() const { return kept_.registers.contains(kConfigurationRegister); }
  /// True if a configuration that does not contain this acceptor has been agreed.
  bool is_replaced() const { return kept_.next.epoch != 0 && !kept_.next.contains(kept_.id); }
  /// Returns the newest configuration that this acceptor knows to be agreed.
  const Configuration& newest() const { return kept_.next.epoch != 0 ? kept_.next : kept_.active; }
  const Durable& kept() const { return kept_; }
  /// Returns the number of registers of groups.
  std::size_t groups() const { return kept_.registers.size() - (is_sealed() ? 1 : 0); }
  /// Returns all registers of groups that this acceptor keeps.
  Registers contents() const;

  /// Returns the changes since the last write, or nullopt if nothing has changed.
  std::optional<Write> take_write();
  /// The owner must call this when all writes up to the number `sequence` are durable.
  void synced(std::uint64_t sequence);
  /// Returns the number of a write. When this write is durable, all changes up to now are durable.
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
  Ballot floor_;  ///< For every register, all ballots up to this ballot count as promised.
  std::map<std::string, Ballot> promises_;
  std::size_t kept_bytes_ = 0;

  std::uint64_t next_write_ = 1;
  bool whole_dirty_ = true, head_dirty_ = false;
  std::set<std::string> dirty_;  ///< The registers that have changed since the last write.
  /// For each changed register that is not durable yet, the number of the write that makes it durable.
  std::map<std::string, std::uint64_t> written_;
  /// The number of the write that makes everything except the registers durable.
  std::uint64_t head_written_ = 1;
  std::size_t journal_bytes_ = 0, whole_bytes_ = 0;
};

}  // namespace rdmc::store
