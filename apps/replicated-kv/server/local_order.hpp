// The order of events for a server that is alone and keeps its state on disk. It has the place that a
// replicated state has otherwise: the service submits events, and gets them back. One thread uses it.
#pragma once

#include <vector>

#include "apps/replicated-kv/log/state_log.hpp"
#include "apps/replicated-kv/service/service.hpp"
#include "lib/state/agreed_clock.hpp"

namespace rdmc::kv {

class LocalOrder final : public Order {
 public:
  /// Replies wait until the kernel has what they follow from, or until the disk has it if `awaits_disk`. So a
  /// server that was killed has all that it has answered. `service` and `log` must exist longer.
  LocalOrder(Service& service, StateLog& log, bool awaits_disk)
      : service_(service), log_(log), awaits_disk_(awaits_disk) {}

  /// Begins where the log ends. `server` is random, and `seed` is for random choices.
  void start(std::uint64_t server, std::uint64_t seed, Moment now);
  /// Hands the service what it has submitted, and what is on disk. The events have the time of the
  /// AgreedClock.
  void work(Moment now);

  Result<std::uint64_t> submit(std::span<const std::byte> event) override;
  bool may_answer(std::uint64_t) const override { return submitted_.empty(); }

 private:
  Service& service_;
  StateLog& log_;
  const bool awaits_disk_;
  std::uint64_t seed_ = 0, epoch_ = 0, position_ = 0, last_number_ = 0, stable_ = 0;
  std::int64_t time_ = 0;
  state::AgreedClock clock_;  // in milliseconds
  std::vector<Bytes> submitted_;
};

/// The state of a service, for its log.
class LoggedService final : public LoggedState {
 public:
  /// `while_reading` is called after each piece that was read from the disk. It returns false if the rest
  /// need not be read.
  LoggedService(Service& service, std::function<bool()> while_reading)
      : service_(service), while_reading_(std::move(while_reading)) {}
  void clear() override { service_.clear_state(); }
  bool load(std::span<const std::byte> piece) override;
  bool end_load(const StoredState& place) override;
  void apply(const OrderedEvent& event) override {
    service_.on_event(event);
    is_given_up_ = !while_reading_();
  }
  bool is_given_up() const override { return is_given_up_; }
  void save(const std::function<void(Bytes)>& write) const override { service_.save(write, true); }

 private:
  Service& service_;
  const std::function<bool()> while_reading_;
  bool is_loading_ = false, is_given_up_ = false;
};

}  // namespace rdmc::kv
