// The part of a server in a replicated service: its membership and its replicated state. It joins again by
// itself when the others have removed this server. One thread uses it; the upcalls of the library only write
// to the eventfd and to what the mutex protects.
#pragma once

#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "apps/program/output.hpp"
#include "apps/replicated-kv/server/options.hpp"
#include "apps/replicated-kv/server/state_senders.hpp"
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

  /// Begins to take part in the service. A thread first asks the other servers for their lists of members.
  /// This server must answer the same question meanwhile: servers that start together would otherwise wait
  /// for each other. Errors: those of eventfd; resource_limit if there is no
  /// thread.
  Result<void> start();
  /// Is readable when work() has something to do.
  int descriptor() const { return wake_.get(); }
  /// Hands all changes to Service, and joins if that is due. Errors, after which the server must end:
  /// invalid_argument if another server has another list of members; those of Membership::join and
  /// ReplicatedState::open if this server joins for the first time.
  Result<void> work(Moment now);
  /// Tells the others what the log has on disk.
  void tell_persisted();
  /// Leaves the service in order, so that the others need not find out that this server is gone.
  void begin_to_leave();
  /// True when the others have agreed. Then this object can be destroyed.
  bool has_left() const { return has_left_; }
  /// Returns what has happened to this server and to the others in the service since the last call, for
  /// people.
  std::vector<std::pair<LogLevel, std::string>> take_news() { return std::exchange(news_, {}); }

  Result<std::uint64_t> submit(std::span<const std::byte> event) override { return state_->submit(event); }
  bool may_answer(std::uint64_t applied) const override { return state_->may_answer(applied); }

 private:
  Result<void> join(Moment now);
  void join_again(Moment now);
  void take_changes(Moment now);
  void send_state(StateWriter& to);
  void on_load(const LoadState& load, Moment now);
  void look_at_views(Moment now);
  void look_at_beginning(Moment now);
  std::string reason_to_wait(const std::vector<Address>& silent);
  template <typename Asked, typename Ask>
  Result<void> start_asking(std::future<Asked>& result, Ask ask);
  std::vector<Address> store_nodes() const;
  void leave(const std::string& why, Moment now);
  void wake() const;
  void warn(std::string what) { news_.emplace_back(LogLevel::warning, std::move(what)); }
  void update_info();
  void tell_of_members(const View& view);

  const ServeOptions& options_;
  Service& service_;
  StateLog* const log_;
  std::uint64_t told_persisted_ = 0;
  Descriptor wake_, stop_asking_;
  std::thread asking_;                 // asks the other servers
  std::future<Result<void>> checked_;  // whether they have the same list; not valid after the first join
  std::future<std::vector<Address>> silent_;  // those that do not answer, while a thread finds this out
  std::unique_ptr<Membership> membership_;
  std::unique_ptr<ReplicatedState> state_;
  StateSenders senders_;
  std::vector<std::pair<LogLevel, std::string>> news_;
  std::vector<Member> told_members_;  // of the view that news_ has spoken of last
  std::string last_failure_;          // of joining again
  Milliseconds join_again_ = 0;       // when state_ is null
  MemberId shown_main_{};             // the main in the facts that Service shows
  MemberId told_main_{};              // the main that news_ has spoken of last

  bool is_leaving_ = false, has_left_ = false;
  bool has_complained_of_views_ = false;
  Milliseconds views_lost_at_ = 0;  // 0 while the views can change
  Milliseconds says_late_at_ = 0;   // when look_at_beginning() says something next; 0 before the first call

  std::mutex mutex_;
  View view_;                                                 // protected by mutex_
  bool has_new_view_ = false;                                 // protected by mutex_
  bool is_removed_ = false;                                   // protected by mutex_
  std::vector<std::string> lost_;                             // protected by mutex_; becomes news_
  std::vector<std::pair<LogLevel, std::string>> told_links_;  // protected by mutex_; becomes news_
  std::vector<MemberId> leaving_;  // protected by mutex_; these have said that they are being stopped
  std::string views_lost_;         // protected by mutex_; why the views cannot change, or empty
};

}  // namespace rdmc::kv
