// One member process of a run: its port, its fabric and its engine, and the steps of every test before and
// after the timed part of the test.
#pragma once

#include <memory>

#include "bench/perf/account.hpp"
#include "bench/perf/options.hpp"
#include "bench/perf/payload.hpp"
#include "bench/perf/rendezvous.hpp"
#include "dataplane/engine/engine.hpp"
#include "dataplane/fabric/fabric_poller.hpp"
#include "dataplane/fabric/standard_fabrics.hpp"

namespace rdmc::perf {

class Member {
 public:
  /// Opens the port at a loopback address of its own, or at the address that `places` names. Errors: those of
  /// the port.
  static Result<std::unique_ptr<Member>> open(const Options& options, Rendezvous& rendezvous,
                                              std::uint32_t rank);

  std::uint32_t rank() const { return rank_; }
  const Options& options() const { return options_; }
  Rendezvous& meet() { return rendezvous_; }
  fabric::Fabric& fabric() { return *opened_.fabric; }
  engine::Engine& engine() { return *engine_; }

  /// Runs the engine until `done` returns true. Returns false if a member has failed.
  bool run_until(const std::function<bool()>& done);
  /// Waits for all members while the engine runs.
  bool barrier();
  /// Start and end the account of the timed part's CPU time.
  void start_account();
  void end_account();
  /// Returns a function that runs one turn of the engine.
  Meanwhile meanwhile();

 private:
  Member(const Options& options, Rendezvous& rendezvous, std::uint32_t rank)
      : options_(options), rendezvous_(rendezvous), rank_(rank) {}

  const Options& options_;
  Rendezvous& rendezvous_;
  std::uint32_t rank_;
  Account account_{rendezvous_.figures[rank_]};
  fabric::OpenedFabric opened_;
  std::unique_ptr<fabric::FabricPoller> poller_;
  std::unique_ptr<engine::Engine> engine_;
};

/// The tests. Each function runs in every member process. Errors: any failure, for the report.
Result<void> run_unicast(Member& member);
Result<void> run_latency(Member& member);
Result<void> run_rate(Member& member);
Result<void> run_group_rate(Member& member);
Result<void> run_bcast(Member& member);

/// These functions do the same as those of payload.hpp, and the engine runs meanwhile.
void stamp(Member& member, std::span<std::byte> bytes, std::uint32_t iteration, std::uint32_t sender = 0);
bool matches_digest(Member& member, std::span<const std::byte> bytes, std::uint32_t sender = 0);

}  // namespace rdmc::perf
