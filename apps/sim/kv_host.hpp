// A host with one server of a replicated key-value service. Its process runs kv::Service over a StateProcess.
// When the others have gone on without it, the server joins again, and keeps its clients. When the process
// dies, it is started again without any data. One thread uses it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "apps/sim/kv_clients.hpp"
#include "apps/sim/kv_scenario.hpp"
#include "apps/sim/state_world.hpp"
#include "dataplane/sim/trace.hpp"

namespace rdmc::sim_app {

class KvHost final : public StateApplication, public kv::Order, public KvServer {
 public:
  /// `world` and `trace` must exist longer.
  KvHost(StateWorld& world, sim::Trace& trace, std::uint32_t index, const KvOptions& options)
      : world_(world), trace_(trace), index_(index), options_(options) {}

  /// Starts the process, as one of those that begin the service.
  void begin();
  void start();
  /// The clients lose their connections before.
  void kill();
  void end_turn();
  bool is_running() const { return service_ != nullptr; }
  /// The member that this server is, or null while it takes no part.
  StateProcess* process() const { return process_; }
  /// True if it has the whole state, as far as it knows.
  bool is_complete() const { return process_ != nullptr && process_->status.is_complete; }
  void set_clock_ahead(std::int64_t nanoseconds);
  state::Bytes state() const;
  std::uint64_t reads_at_main() const { return reads_at_main_; }

  kv::Service& service() override { return *service_; }
  kv::Milliseconds clock() const override;
  bool takes_requests() const override { return process_ == nullptr || !process_->is_paused(); }

  Result<std::uint64_t> submit(std::span<const std::byte> event) override;
  bool may_answer(std::uint64_t applied) const override;

  void on_event(const OrderedEvent& event) override;
  void on_stable(const StableEvents& stable) override;
  void on_status(const ReplicaStatus& status) override;
  state::Bytes save() override { return state(); }
  void on_load(const LoadState& load) override;
  void on_end(const Error& cause) override;

  /// Until this time, a dead process stays dead, and a server that was left out does not join again.
  std::int64_t waits_until = 0;

 private:
  void make_service();
  void take_part(StateProcess& process);
  void join();
  void record(std::uint32_t what, std::uint64_t digest);

  StateWorld& world_;
  sim::Trace& trace_;
  const std::uint32_t index_;
  const KvOptions& options_;
  std::unique_ptr<kv::Service> service_;
  StateProcess* process_ = nullptr;
  std::int64_t clock_ahead_ = 0;
  std::uint64_t lives_ = 0;
  mutable std::uint64_t reads_at_main_ = 0;
};

}  // namespace rdmc::sim_app
