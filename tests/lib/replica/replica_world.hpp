// A run of a program whose processes are simulated: they take steps in a random order, die at any point, and
// are replaced. The world does what rdmc_run does: it puts deaths and recoveries in one order, and each
// process learns of them in this order, but at its own time.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "tests/lib/replica/replica_programs.hpp"

namespace rdmc::replica::testing {

struct Struck {
  int kills = 0, recoveries = 0, failed_recoveries = 0;
  std::uint64_t repeated = 0, sent_for_dead = 0, acknowledgements = 0, questions = 0;
};

template <typename SomeProcess>
class ReplicaWorld {
 public:
  struct Options {
    /// A process dies with a probability of one in `kills_in` in each round, but never all of one rank.
    std::size_t kills_in = 1000;
    int most_kills = 1 << 20;
    bool recovers = false;
  };

  ReplicaWorld(FakeNetwork& network, const Layout& layout,
               std::vector<std::unique_ptr<SomeProcess>>& processes, const Options& options, Struck& struck)
      : network_(network),
        layout_(layout),
        programs_(processes),
        options_(options),
        struck_(struck),
        processes_(layout.processes()) {}

  /// Lets everything happen until nothing is left to happen.
  void play() {
    int idle = 0;
    for (int rounds = 0; idle < 4 || is_unfinished(); ++rounds) {
      if (rounds > 2'000'000) throw std::logic_error("the program does not end");
      bool is_busy = false;
      for (std::uint32_t i = 0; i < count(); ++i)
        if (network_.draw(3) == 0) is_busy = step(i) || is_busy;
      for (std::uint32_t i = 0; i < count(); ++i) {
        if (network_.is_dead(i)) continue;
        if (network_.draw(20) == 0 && processes_[i].runs) network_.messenger(i).send_deferred();
        // The driver does this while a hold lasts. It may last for any number of rounds.
        if (network_.draw(50) == 0 && processes_[i].runs) network_.messenger(i).chase_hold();
        if (network_.draw(is_in_recovery(i) ? options_.kills_in / 10 + 1 : options_.kills_in) == 0) kill(i);
      }
      if (options_.recovers) recover();
      for (std::uint32_t i = 0; i < count(); ++i)
        if (network_.draw(30) == 0) learn(i);
      is_busy = network_.step() || is_busy;
      if (!is_busy && network_.draw(2) == 0) {
        for (std::uint32_t i = 0; i < count(); ++i)
          if (!network_.is_dead(i) && processes_[i].runs) network_.messenger(i).send_deferred();
      }
      idle = is_busy ? 0 : idle + 1;
      if (idle >= 4 && !is_unfinished()) {
        network_.settle();
        for (std::uint32_t i = 0; i < count(); ++i)
          if (step(i)) idle = 0;
      }
    }
    network_.settle();
    for (std::uint32_t i = 0; i < count(); ++i) {
      const auto& counters = network_.messenger(i).counters();
      struck_.repeated += counters.repeated;
      struck_.sent_for_dead += counters.sent_for_dead;
      struck_.acknowledgements += counters.acknowledgements;
      struck_.questions += counters.questions;
    }
  }

 private:
  enum class Kind : std::uint8_t { died, recovering };
  struct Event {
    Kind kind{};
    std::uint32_t process = 0, parent = 0;
  };
  struct Recovery {
    std::uint32_t parent = 0;
    std::size_t number = 0;  ///< of its event
    bool is_forked = false;
  };
  struct Process {
    bool runs = true;
    std::size_t learned = 0;  ///< the number of events that it has learned of
    std::size_t born = 0;     ///< the number of the event with which its recovery began
    std::optional<Recovery> recovery{};
  };

  std::uint32_t count() const { return layout_.processes(); }
  Rank rank_of(std::uint32_t process) const { return layout_.rank(ProcessId{process}); }

  bool step(std::uint32_t i) { return processes_[i].runs && programs_[i]->step(); }

  bool is_unfinished() const {
    for (std::uint32_t i = 0; i < count(); ++i) {
      if (processes_[i].recovery) return true;
      if (!processes_[i].runs) continue;
      if (processes_[i].learned != events_.size()) return true;
      for (std::uint32_t other = 0; other < count(); ++other)
        if (other != i && processes_[other].runs && !network_.are_linked(i, other)) return true;
    }
    return false;
  }

  /// True if the process is being forked or copied, or was copied a short time ago.
  bool is_in_recovery(std::uint32_t i) const {
    if (processes_[i].recovery || (processes_[i].born != 0 && events_.size() < processes_[i].born + 3))
      return true;
    for (const Process& one : processes_)
      if (one.recovery && one.recovery->parent == i) return true;
    return false;
  }

  void kill(std::uint32_t i) {
    if (struck_.kills - killed_before_ >= options_.most_kills) return;
    int others = 0;
    for (std::uint32_t other = 0; other < count(); ++other)
      others += other != i && processes_[other].runs && rank_of(other) == rank_of(i) ? 1 : 0;
    if (processes_[i].runs && others == 0) return;
    ++struck_.kills;
    if (!processes_[i].runs) return fail_recovery(i);
    processes_[i].runs = false;
    network_.stop(i);
    events_.push_back({.kind = Kind::died, .process = i});
    for (std::uint32_t child = 0; child < count(); ++child)
      if (processes_[child].recovery && processes_[child].recovery->parent == i) fail_recovery(child);
  }

  void fail_recovery(std::uint32_t i) {
    ++struck_.failed_recoveries;
    processes_[i].recovery.reset();
    network_.stop(i);
    events_.push_back({.kind = Kind::died, .process = i});
  }

  void recover() {
    for (std::uint32_t i = 0; i < count(); ++i) {
      Process& one = processes_[i];
      if (one.recovery) {
        go_on(i);
      } else if (!one.runs) {
        const std::uint32_t degree = layout_.degree(rank_of(i));
        const auto parent =
            value_of(layout_.process({rank_of(i), static_cast<std::uint32_t>(network_.draw(degree))}));
        if (!processes_[parent].runs || network_.draw(20) != 0) continue;
        events_.push_back({.kind = Kind::recovering, .process = i, .parent = parent});
        one.recovery = Recovery{.parent = parent, .number = events_.size()};
      } else {
        for (std::uint32_t other = 0; other < count(); ++other)
          if (other != i && processes_[other].runs && !network_.are_linked(i, other) &&
              network_.draw(8) == 0 && one.learned >= processes_[other].born &&
              processes_[other].learned >= one.born)
            network_.link(i, other);
      }
    }
  }

  void go_on(std::uint32_t i) {
    Process& one = processes_[i];
    const std::uint32_t parent = one.recovery->parent;
    if (one.recovery->is_forked) {
      if (network_.draw(5) != 0) return;
      one.runs = true;
      one.born = one.recovery->number;
      one.recovery.reset();
      ++struck_.recoveries;
    } else if (network_.draw(2000) == 0) {
      fail_recovery(i);
    } else if (processes_[parent].learned >= one.recovery->number &&
               network_.messenger(parent).may_fork(ProcessId{i}) && network_.draw(3) == 0) {
      programs_[i]->copy(*programs_[parent]);
      network_.fork(parent, i,
                    [&](const std::byte* at) { return programs_[i]->moved(*programs_[parent], at); });
      one.learned = processes_[parent].learned;
      one.recovery->is_forked = true;
    }
  }

  /// The process learns of the next event.
  void learn(std::uint32_t i) {
    Process& one = processes_[i];
    if (!one.runs || one.learned == events_.size()) return;
    const Event event = events_[one.learned++];
    if (event.kind == Kind::died)
      network_.report(event.process, i);
    else
      network_.messenger(i).on_recovering(ProcessId{event.process}, ProcessId{event.parent}, one.learned);
  }

  FakeNetwork& network_;
  const Layout& layout_;
  std::vector<std::unique_ptr<SomeProcess>>& programs_;
  const Options options_;
  Struck& struck_;
  const int killed_before_ = struck_.kills;
  std::vector<Process> processes_;
  std::vector<Event> events_;
};

}  // namespace rdmc::replica::testing
