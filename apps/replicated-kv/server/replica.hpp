// The part of a server in a replicated service: its membership and its replicated state. It joins again by
// itself when the others have removed this server. One thread uses it; the upcalls of the library only write
// to the eventfd and to what the mutex protects.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "apps/replicated-kv/server/options.hpp"
#include "apps/replicated-kv/service/service.hpp"
#include "dataplane/base/descriptor.hpp"
#include "lib/include/rdmc/replicated_state.hpp"

namespace rdmc::kv {

class Replica final : public Order {
 public:
  /// `service` and `log` must exist longer. `log` may be null.
  Replica(const ServeOptions& options, Service& service, StateLog* log)
      : options_(options), service_(service), log_(log) {}
  ~Replica() override;

  /// Takes part in the service. Errors: invalid_argument if another server has another list of members; those
  /// of Membership::join and ReplicatedState::open.
  Result<void> start(Moment now);
  /// Is readable when work() has something to do.
  int descriptor() const { return wake_.get(); }
  /// Hands all changes to Service, and joins again if that is due.
  void work(Moment now);
  /// Tells the others what the log has on disk.
  void tell_persisted();
  /// Leaves the service in order, so that the others need not find out that this server is gone.
  void begin_to_leave();
  /// True when the others have agreed. Then this object can be destroyed.
  bool has_left() const { return has_left_; }
  /// The reasons why this server has left the service since the last call, for people.
  std::vector<std::string> take_complaints() { return std::exchange(complaints_, {}); }
  /// Which servers have begun or ceased to take part since the last call, and which one is the main, for
  /// people.
  std::vector<std::string> take_news() { return std::exchange(news_, {}); }

  Result<std::uint64_t> submit(std::span<const std::byte> event) override { return state_->submit(event); }
  bool may_answer(std::uint64_t applied) const override { return state_->may_answer(applied); }

 private:
  Result<void> join(Moment now);
  void on_load(const LoadState& load, Moment now);
  void leave(const std::string& why, Moment now);
  void wake() const;
  void update_info();
  void tell_of_members(const View& view);

  const ServeOptions& options_;
  Service& service_;
  StateLog* const log_;
  std::uint64_t told_persisted_ = 0;
  Descriptor wake_;
  std::unique_ptr<Membership> membership_;
  std::unique_ptr<ReplicatedState> state_;
  std::vector<std::string> complaints_, news_;
  std::vector<Member> told_members_;  // of the view that news_ has spoken of last
  std::string last_failure_;          // of joining again
  Milliseconds join_again_ = 0;       // when state_ is null
  MemberId shown_main_{};             // the main in the facts that Service shows
  MemberId told_main_{};              // the main that news_ has spoken of last

  bool is_leaving_ = false, has_left_ = false;

  std::mutex mutex_;
  View view_;                      // protected by mutex_
  bool has_new_view_ = false;      // protected by mutex_
  bool is_removed_ = false;        // protected by mutex_
  std::vector<std::string> lost_;  // protected by mutex_; becomes complaints_
  std::vector<MemberId> leaving_;  // protected by mutex_; these have said that they are being stopped
};

}  // namespace rdmc::kv
