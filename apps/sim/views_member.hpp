// A simulated process that takes part in a view. It has the product's FailureView over datagrams. Its
// application sends data to every member at intervals, and accepts the data that the fence admits.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "apps/sim/views_store.hpp"
#include "controlplane/view/failure_view.hpp"
#include "dataplane/sim/network.hpp"

namespace rdmc::sim_app {

inline constexpr std::uint16_t kViewsPort = 7700;

/// Returns the machine of a host. Each machine has two hosts of a group. Processes on one machine notice each
/// other's exits.
inline std::uint64_t machine_of(sim::HostId host) {
  return 1U + value_of(host) / 2U;
}
/// The machine of a host that belongs to no group.
inline constexpr std::uint64_t kMachineElsewhere = 1000;

class ViewsMember final : public sim::Process, public sim::Socket {
 public:
  struct Observer {
    std::function<void(ViewsMember&, const view::View&)> installed;
    std::function<void(ViewsMember&)> removed;
    std::function<void(ViewsMember&)> proposing;
    /// Called when the application has accepted data that `from` sent in `epoch`.
    std::function<void(ViewsMember&, Epoch epoch, view::MemberId from)> delivered;
    /// Called at the end of the member's turn.
    std::function<void(ViewsMember&)> turned;
  };
  /// The properties in which this process differs from the others, apart from its identity.
  struct Nature {
    Duration lease{};  ///< The term of the lease that the process requests.
    /// The difference between the process's clock and the simulation's clock at the start.
    Duration clock_offset{};
    std::int64_t clock_rate = 0;  ///< The number of millionths by which the process's clock is faster.
    std::uint64_t machine = 0;    ///< The machine on which the process claims to be.
  };

  /// Makes a process. `at` is the host whose address the process claims to have. Datagrams to that address
  /// reach the process on that host.
  ViewsMember(sim::Network& network, SimStore& store, sim::HostId host, sim::HostId at, view::MemberId id,
              const view::Timing& timing, const Nature& nature, const Observer& observer);

  void run(Time now) override;
  Time next_deadline() override;
  void deliver(sim::DatagramId datagram) override;

  /// Reports to this process that the member's host has answered that no process listens at the member's
  /// address.
  void tell_refused(view::MemberId member, bool had_connection);
  /// Reports to this process the exit of that process, which was on the same machine.
  void tell_exited(view::MemberId member);
  /// Requests, as an operator, that this process removes that member.
  void remove(view::MemberId member);
  /// If `refused` is true, this process behaves as if a firewall refused its messages: for each member that
  /// it sends to, it gets the answer that no process listens at the member's address.
  void be_refused(bool refused) { refused_ = refused; }
  /// If true, the network thread gets no processor time: datagrams in both directions wait.
  void starve(bool starved);
  void leave();
  void jump_clock(Duration by) { clock_offset_ = clock_offset_ + by; }

  /// Returns the time, in the simulation's clock, from which the lease lets this member serve what the view
  /// assigns to one member only. The result is right if nothing changes before that time.
  Time serves_from() const { return true_time(core_.takeover_at()); }
  Time serves_until() const { return true_time(core_.lease_until()); }

  const view::FailureView& core() const { return core_; }
  view::MemberId id() const { return core_.self().id; }
  sim::ProcessId process() const { return process_; }
  sim::HostId host() const { return host_; }
  bool alive() const { return network_.simulation().state(process_) != sim::ProcessState::killed; }
  /// Returns the epoch that the core's outputs have installed. It can differ from the epoch in the core's
  /// state.
  Epoch installed() const { return installed_; }
  bool was_removed() const { return removed_; }
  std::uint64_t stores_lost() const { return stores_lost_; }

 private:
  static constexpr Duration kSendEvery = milliseconds(40);
  static constexpr std::int64_t kMillion = 1'000'000;

  /// Runs the action at the next turn, with the time of the process's own clock.
  void post(std::function<void(Time clock)> action);
  void take_in(std::span<const std::byte> bytes, const Address& from, Time clock);
  void ask_who_listens(const view::AskListener& asked);
  void say_who_listens(std::span<const std::byte> question, const Address& asker);
  void hear_who_listens(std::span<const std::byte> answer, Time clock);
  void drain();
  void handle(view::Output& output);
  void send(const Address& to, std::span<const std::byte> bytes);
  void listen(Time now);
  void send_data(Time now);
  Time clock(Time now) const {
    return now + clock_offset_ + nanoseconds((now - Time{}).ns * clock_rate_ / kMillion);
  }
  Time true_time(Time clock) const {
    if (clock == Time{} || clock == Time::never()) return clock;
    return Time{(clock - clock_offset_).ns * kMillion / (kMillion + clock_rate_)};
  }

  sim::Network& network_;
  SimStore& store_;
  const sim::HostId host_;
  view::FailureView core_;
  const Observer& observer_;
  const sim::ProcessId process_;
  Duration clock_offset_;
  const std::int64_t clock_rate_;
  std::vector<sim::DatagramId> arrived_;
  std::vector<view::RequestId> listens_;
  std::vector<std::function<void(Time)>> posted_;
  std::vector<std::pair<Address, std::vector<std::byte>>> unsent_;
  bool removed_ = false, refused_ = false, starved_ = false;
  Epoch installed_{};
  Time timer_{}, next_data_{};
  std::uint64_t stores_lost_ = 0;
};

}  // namespace rdmc::sim_app
