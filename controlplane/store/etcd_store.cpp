#include "controlplane/store/etcd_store.hpp"

#include <boost/asio/post.hpp>
#include <map>
#include <set>

#include "controlplane/store/etcd_codec.hpp"
#include "controlplane/store/http_call.hpp"

namespace rdmc::store {

using control::LoopCore;
using control::Timer;

class EtcdStore::Impl : public std::enable_shared_from_this<Impl> {
 public:
  Impl(control::ControlLoop& loop, EtcdOptions options)
      : core(loop.core()), loop_(loop), options_(std::move(options)) {}

  using Answer = std::move_only_function<void(Result<std::string>)>;

  /// Sends a request to the endpoint that answered last, and to the other endpoints if this is necessary.
  void ask(const std::string& target, const std::string& body, Answer answer) {
    ask_next(std::make_shared<Asking>(Asking{.target = target,
                                             .body = body,
                                             .answer = std::move(answer),
                                             .next = endpoint_,
                                             .left = options_.endpoints.size()}));
  }

  void read(const std::string& group, ReadDone done) {
    ask("/v3/kv/range", range_request(key(group)),
        [self = shared_from_this(), group, done = std::move(done)](Result<std::string> answer) mutable {
          auto entry = first_of(std::move(answer));
          if (!entry) return done(std::unexpected(entry.error()));
          self->known_[group] = {entry->view.epoch, entry->revision};
          done(std::move(entry->view));
        });
  }

  void compare_and_swap(const std::string& group, const view::View& next, SwapDone done) {
    const auto known = known_.find(group);
    if (known != known_.end() && view::next(known->second.epoch) == next.epoch)
      return swap(group, next, std::move(done), 1);
    read(group,
         [self = shared_from_this(), group, next, done = std::move(done)](Result<view::View> now) mutable {
           if (!now) return done(std::unexpected(now.error()));
           if (view::next(now->epoch) != next.epoch) return done(view::SwapResult{*now == next, *now});
           self->swap(group, next, std::move(done), 1);
         });
  }

  /// `again` is the number of further attempts. A further attempt is made if the key's revision has changed
  /// although its epoch has not.
  void swap(const std::string& group, const view::View& next, SwapDone done, int again) {
    ask("/v3/kv/txn", swap_request(key(group), known_[group].revision, next),
        [self = shared_from_this(), group, next, again,
         done = std::move(done)](Result<std::string> answer) mutable {
          if (!answer) return done(std::unexpected(answer.error()));
          auto result = parse_swap(*answer);
          if (!result) return done(std::unexpected(result.error()));
          const view::View& now = result->swapped ? next : result->entry.view;
          self->known_[group] = {now.epoch, result->entry.revision};
          // The answer to an earlier attempt may have been lost. So if the same view is in the store, it
          // counts as swapped.
          const bool swapped = now == next;
          if (swapped || view::next(now.epoch) != next.epoch || again == 0)
            return done(view::SwapResult{swapped, now});
          self->swap(group, next, std::move(done), again - 1);
        });
  }

  void list(ListDone done) {
    ask("/v3/kv/range", prefix_request(options_.prefix),
        [self = shared_from_this(), done = std::move(done)](Result<std::string> answer) mutable {
          if (!answer) return done(std::unexpected(answer.error()));
          auto entries = parse_range(*answer);
          if (!entries) return done(std::unexpected(entries.error()));
          std::vector<view::GroupView> groups;
          for (EtcdEntry& entry : *entries)
            if (entry.key.starts_with(self->options_.prefix))
              groups.push_back({entry.key.substr(self->options_.prefix.size()), std::move(entry.view)});
          done(std::move(groups));
        });
  }

  void watch(const std::string& group, Hint hint) {
    Watch& watch = watches_[group];
    watch.hint = std::move(hint);
    if (!watch.call) begin_watch(group);
  }

  void close() {
    closed_ = true;
    for (const auto& call : std::exchange(calls_, {})) call->cancel();
    for (auto& [group, watch] : watches_) {
      if (watch.call) watch.call->cancel();
      watch.pause = Timer();
    }
    watches_.clear();
  }

  const std::shared_ptr<LoopCore> core;

 private:
  struct Known {
    Epoch epoch{};
    std::int64_t revision = 0;
  };
  struct Watch {
    Hint hint;
    std::shared_ptr<HttpCall> call;
    Timer pause;
    std::size_t endpoint = 0;
  };

  std::string key(const std::string& group) const { return options_.prefix + group; }

  static Result<EtcdEntry> first_of(Result<std::string> answer) {
    if (!answer) return std::unexpected(answer.error());
    auto entries = parse_range(*answer);
    if (!entries) return std::unexpected(entries.error());
    return entries->empty() ? EtcdEntry{} : std::move(entries->front());
  }

  /// One request. It is sent to one endpoint after the other until one of them has answered.
  struct Asking {
    std::string target, body;
    Answer answer;  ///< Empty after the request has been answered.
    std::size_t next = 0, left = 0, under_way = 0;
    std::set<std::shared_ptr<HttpCall>> calls;
    Timer hedge;
  };

  void ask_next(const std::shared_ptr<Asking>& asking) {
    if (closed_ || !asking->answer || asking->left == 0) return;
    const std::size_t asked = asking->next;
    asking->next = (asked + 1) % options_.endpoints.size();
    --asking->left;
    ++asking->under_way;
    const auto call = std::make_shared<HttpCall>(core, options_.endpoints[asked]);
    calls_.insert(call);
    asking->calls.insert(call);
    call->post(asking->target, asking->body, options_.attempt,
               [self = shared_from_this(), call = std::weak_ptr(call), asked, asking](auto result) {
                 self->calls_.erase(call.lock());
                 asking->calls.erase(call.lock());
                 self->answered(asking, asked, std::move(result));
               });
    if (asking->left > 0)
      asking->hedge = loop_.after(options_.hedge, [self = weak_from_this(), waiting = std::weak_ptr(asking)] {
        const auto impl = self.lock();
        const auto still = waiting.lock();
        if (impl && still) impl->ask_next(still);
      });
  }

  void answered(const std::shared_ptr<Asking>& asking, std::size_t asked, Result<std::string> result) {
    --asking->under_way;
    if (!asking->answer) return;
    if (!result && asking->left > 0) return ask_next(asking);
    if (!result && asking->under_way > 0) return;  // Another endpoint may still answer.
    if (result) endpoint_ = asked;
    asking->hedge = Timer();
    for (const auto& other : std::exchange(asking->calls, {})) {
      calls_.erase(other);
      other->cancel();
    }
    std::exchange(asking->answer, nullptr)(std::move(result));
  }

  void begin_watch(const std::string& group) {
    Watch& watch = watches_[group];
    watch.call = std::make_shared<HttpCall>(core, options_.endpoints[watch.endpoint]);
    watch.call->post(
        "/v3/watch", watch_request(key(group)), options_.watch_silence,
        [self = shared_from_this(), group](const Result<std::string>&) { self->pause_watch(group); },
        [self = shared_from_this(), group](const std::string& piece) {
          const auto found = self->watches_.find(group);
          if (found != self->watches_.end() && found->second.hint) found->second.hint(watched_epoch(piece));
        });
  }

  void pause_watch(const std::string& group) {
    const auto found = watches_.find(group);
    if (closed_ || found == watches_.end()) return;
    found->second.endpoint = (found->second.endpoint + 1) % options_.endpoints.size();
    found->second.pause = loop_.after(options_.watch_pause, [self = weak_from_this(), group] {
      if (const auto impl = self.lock(); impl && !impl->closed_) impl->begin_watch(group);
    });
  }

  control::ControlLoop& loop_;
  const EtcdOptions options_;
  std::size_t endpoint_ = 0;
  std::map<std::string, Known> known_;
  std::set<std::shared_ptr<HttpCall>> calls_;
  std::map<std::string, Watch> watches_;
  bool closed_ = false;
};

Result<std::unique_ptr<EtcdStore>> EtcdStore::create(control::ControlLoop& loop, const EtcdOptions& options) {
  if (options.endpoints.empty()) return fail(Errc::invalid_argument, "etcd: no endpoint");
  if (options.prefix.empty()) return fail(Errc::invalid_argument, "etcd: no prefix of keys");
  return std::unique_ptr<EtcdStore>(new EtcdStore(std::make_shared<Impl>(loop, options)));
}

EtcdStore::~EtcdStore() {
  const auto core = impl_->core;
  core->run_and_wait([this] { impl_->close(); });
}

void EtcdStore::read(const std::string& group, ReadDone done) {
  impl_->read(group, std::move(done));
}
void EtcdStore::compare_and_swap(const std::string& group, const view::View& next, SwapDone done) {
  impl_->compare_and_swap(group, next, std::move(done));
}
void EtcdStore::watch(const std::string& group, Hint hint) {
  impl_->watch(group, std::move(hint));
}
void EtcdStore::list(ListDone done) {
  impl_->list(std::move(done));
}

}  // namespace rdmc::store
