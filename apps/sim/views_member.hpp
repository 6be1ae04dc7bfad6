// A simulated process that takes part in a view: the product's FailureView over datagrams, and an application
// that sends every member something now and then and takes in what the fence lets through.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "apps/sim/views_store.hpp"
#include "controlplane/view/failure_view.hpp"
#include "dataplane/sim/network.hpp"

namespace rdmc::sim_app {

inline constexpr std::uint16_t kViewsPort = 7700;

/// Two hosts of a group are on one machine, where processes see each other's exits.
inline std::uint64_t machine_of(sim::HostId host) {
  return 1U + value_of(host) / 2U;
}
/// Of hosts that are none of a group's.
inline constexpr std::uint64_t kMachineElsewhere = 1000;

class ViewsMember final : public sim::Process, public sim::Socket {
 public:
  struct Observer {
    std::function<void(ViewsMember&, const view::View&)> installed;
    std::function<void(ViewsMember&)> removed;
    std::function<void(ViewsMember&)> proposing;
    /// Its application has taken in what `from` sent in `epoch`.
    std::function<void(ViewsMember&, Epoch epoch, view::MemberId from)> delivered;
    /// Its turn is over.
    std::function<void(ViewsMember&)> turned;
  };
  /// What sets it apart from the others, beside its identity.
  struct Nature {
    Duration lease{};             ///< the term of the lease that it asks for
    Duration clock_offset{};      ///< its clock shows so much more than the simulation's
    std::int64_t clock_rate = 0;  ///< … and gains so many millionths
    std::uint64_t machine = 0;    ///< that it says it is on
  };

  /// `at`: the host whose address it says it has; what is sent there reaches the process on that one.
  ViewsMember(sim::Network& network, SimStore& store, sim::HostId host, sim::HostId at, view::MemberId id,
              const view::Timing& timing, const Nature& nature, const Observer& observer);

  void run(Time now) override;
  Time next_deadline() override;
  void deliver(sim::DatagramId datagram) override;

  /// The member's host says that nobody listens there.
  void tell_refused(view::MemberId member, bool had_connection);
  /// It sees the exit of that process, which was on the same machine.
  void tell_exited(view::MemberId member);
  /// An operator asks it to remove that member.
  void remove(view::MemberId member);
  /// From now on that is what it hears of every member whom it speaks to.
  void be_refused(bool refused) { refused_ = refused; }
  /// The thread that has its network gets no processor: what arrives waits, and what it says waits, too.
  void starve(bool starved);
  void leave();
  void jump_clock(Duration by) { clock_offset_ = clock_offset_ + by; }

  /// When its lease lets it serve what its view gives to one member, in the simulation's time, if nothing
  /// changes before.
  Time serves_from() const { return true_time(core_.takeover_at()); }
  Time serves_until() const { return true_time(core_.lease_until()); }

  const view::FailureView& core() const { return core_; }
  view::MemberId id() const { return core_.self().id; }
  sim::ProcessId process() const { return process_; }
  sim::HostId host() const { return host_; }
  bool alive() const { return network_.simulation().state(process_) != sim::ProcessState::killed; }
  /// As its own outputs had it, not the core's state.
  Epoch installed() const { return installed_; }
  bool was_removed() const { return removed_; }
  std::uint64_t stores_lost() const { return stores_lost_; }

 private:
  static constexpr Duration kSendEvery = milliseconds(40);
  static constexpr std::int64_t kMillion = 1'000'000;

  /// Runs at the next turn, with the process's own clock.
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
