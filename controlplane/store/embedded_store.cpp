#include "controlplane/store/embedded_store.hpp"

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "controlplane/auth/random.hpp"
#include "controlplane/connect/connector.hpp"
#include "controlplane/store/caspaxos/requester.hpp"
#include "controlplane/store/caspaxos/view_register.hpp"
#include "dataplane/base/clock.hpp"

namespace rdmc::store {
namespace {

/// The pause before the store connects to a node again while a request waits for an answer.
constexpr Duration kTryAgain = milliseconds(50);
/// The pause before the store connects to a node again while groups are watched and no request waits.
constexpr Duration kWatchAgain = seconds(1);

std::unexpected<Error> no_group() {
  return fail(Errc::invalid_argument, "no store keeps a group of that name");
}

bool is_name(const std::string& group) {
  return !group.empty() && group.size() <= kMaxRegisterNameBytes;
}

}  // namespace

class EmbeddedStore::Impl : public std::enable_shared_from_this<Impl> {
 public:
  using Answer = std::move_only_function<void(Result<Requester::Outcome>)>;

  Impl(control::ControlLoop& loop, const EmbeddedOptions& options, const Requester::Options& core)
      : loop_(loop), options_(options), requester_(core), links_(options.nodes.size()) {}

  void read(const std::string& group, Answer answer) {
    if (!is_name(group)) return later(std::move(answer), no_group());
    wait_for(requester_.read(group, monotonic_now()), std::move(answer));
  }
  void change(const std::string& group, const view::View& next, Answer answer) {
    if (!is_name(group)) return later(std::move(answer), no_group());
    if (next.epoch == Epoch{})
      return later(std::move(answer), fail(Errc::invalid_argument, "no view follows with epoch 0"));
    wait_for(requester_.change(group, swap_to(next), monotonic_now()), std::move(answer));
  }
  void list(Answer answer) { wait_for(requester_.list(monotonic_now()), std::move(answer)); }

  void watch(const std::string& group, ViewStore::Hint hint) {
    hints_[group] = std::move(hint);
    for (Link& link : links_)
      if (link.channel) say(link, {0, Watch{group}});
    reach_all();
  }

  void close() {
    closed_ = true;
    asked_.clear();
    hints_.clear();
    links_.clear();
    timer_ = {};
  }

  control::ControlLoop& loop() { return loop_; }

 private:
  struct Link {
    control::Connecting connecting;
    bool reaching = false;
    std::optional<control::Channel> channel;
    Time not_before;  ///< The time before which the store must not try to reach the node again.
    control::Timer again;
  };

  void later(Answer answer, std::unexpected<Error> error) {
    loop_.post(
        [answer = std::move(answer), error = std::move(error)]() mutable { answer(std::move(error)); });
  }

  void wait_for(std::uint64_t number, Answer answer) {
    asked_[number] = std::move(answer);
    reach_all();
    pump();
  }

  // The links to the nodes.

  void reach_all() {
    for (std::size_t node = 0; node < links_.size(); ++node) reach(node);
  }

  void reach(std::size_t node) {
    Link& link = links_[node];
    if (closed_ || link.channel || link.reaching) return;
    if (asked_.empty() && hints_.empty()) return;
    const Time now = monotonic_now();
    const Time at = asked_.empty() ? link.not_before + (kWatchAgain - kTryAgain) : link.not_before;
    if (now < at) {
      link.again = loop_.after(at - now, [self = weak_from_this(), node] {
        if (const auto impl = self.lock(); impl && !impl->closed_) impl->reach(node);
      });
      return;
    }
    link.reaching = true;
    const Address& address = options_.nodes[node];
    link.connecting = control::connect(
        loop_, host_string(address), address.port, options_.channel, options_.answer_within / 2,
        [self = weak_from_this(), node](Result<control::Channel> made) {
          const auto impl = self.lock();
          if (!impl || impl->closed_) return;
          impl->links_[node].reaching = false;
          made ? impl->use(node, std::move(*made)) : impl->missed(node, made.error());
        });
  }

  void missed(std::size_t node, const Error& cause) {
    const Time now = monotonic_now();
    links_[node].not_before = now + kTryAgain;
    requester_.link_failed(node, cause, now);
    pump();
    if (!closed_) reach(node);
  }

  void use(std::size_t node, control::Channel channel) {
    Link& link = links_[node];
    link.channel.emplace(std::move(channel));
    link.channel->start(
        [self = weak_from_this(), node](const Bytes& message) {
          if (const auto impl = self.lock(); impl && !impl->closed_) impl->hear(node, message);
        },
        [self = weak_from_this(), node](const Error&) {
          if (const auto impl = self.lock(); impl && !impl->closed_) impl->lose(node);
        });
    requester_.link_up(node, monotonic_now());
    std::vector<std::string> watched;
    for (const auto& [group, hint] : hints_) {
      say(link, {0, Watch{group}});
      watched.push_back(group);
    }
    pump();
    for (const std::string& group : watched)
      tell(group, std::nullopt);  // Changes may have been missed while there was no link.
  }

  /// Called when a channel has ended. The usual cause is that the node's process has ended. The client
  /// connects again at once, because a new process may already exist.
  void lose(std::size_t node) {
    links_[node].channel.reset();
    requester_.link_lost(node);
    reach(node);
    pump();
  }

  void say(Link& link, const Request& request) {
    // If the channel refuses the message, the core will send the request again after its time limit.
    static_cast<void>(link.channel->send(encode(request)));
  }

  void hear(std::size_t node, std::span<const std::byte> message) {
    const auto reply = decode_reply(message);
    if (!reply) {
      links_[node].channel.reset();
      requester_.link_lost(node);
      return missed(node, reply.error());
    }
    if (const auto* const hint = std::get_if<store::Hint>(&reply->body))
      return tell(hint->name, Epoch{hint->epoch});
    requester_.hear(node, *reply, monotonic_now());
    pump();
  }

  void tell(const std::string& group, std::optional<Epoch> epoch) {
    if (const auto found = hints_.find(group); found != hints_.end() && found->second) found->second(epoch);
  }

  // The actions that the core requests.

  void pump() {
    for (const Requester::ToNode& to : requester_.take_requests())
      if (links_[to.node].channel) say(links_[to.node], to.request);
    arm();
    for (Requester::Finished& finished : requester_.take_finished()) {
      auto asked = asked_.extract(finished.number);
      // The handler may start another request, or destroy the store.
      if (!asked.empty()) asked.mapped()(std::move(finished.outcome));
      if (closed_) return;
    }
  }

  void arm() {
    const Time deadline = requester_.next_deadline();
    if (deadline == armed_) return;
    armed_ = deadline;
    if (deadline == Time::never()) return static_cast<void>(timer_ = {});
    timer_ = loop_.after(std::max(deadline - monotonic_now(), Duration{}), [self = weak_from_this()] {
      const auto impl = self.lock();
      if (!impl || impl->closed_) return;
      impl->armed_ = Time::never();
      impl->requester_.tick(monotonic_now());
      impl->pump();
    });
  }

  control::ControlLoop& loop_;
  const EmbeddedOptions options_;
  Requester requester_;
  std::vector<Link> links_;  ///< Indexed by node number.
  bool closed_ = false;
  std::map<std::uint64_t, Answer> asked_;
  std::map<std::string, ViewStore::Hint> hints_;
  Time armed_ = Time::never();
  control::Timer timer_;
};

Result<std::unique_ptr<EmbeddedStore>> EmbeddedStore::create(control::ControlLoop& loop,
                                                             const EmbeddedOptions& wanted) {
  EmbeddedOptions options = wanted;
  options.channel.max_message_bytes = kMostMessageBytes;
  if (options.nodes.size() != 1 && options.nodes.size() != kMostNodes)
    return fail(Errc::invalid_argument, "a store has one node or three: name all of them");
  const auto random = control::SystemRandom::open();
  if (!random) return std::unexpected(random.error());
  const Requester::Options core{.nodes = options.nodes.size(),
                                .answer_within = options.answer_within,
                                .self = {random->next64(), random->next64()},
                                .seed = random->next64()};
  return std::unique_ptr<EmbeddedStore>(new EmbeddedStore(std::make_shared<Impl>(loop, options, core)));
}

EmbeddedStore::~EmbeddedStore() {
  impl_->loop().call([this] { impl_->close(); });
}

void EmbeddedStore::read(const std::string& group, ReadDone done) {
  impl_->read(group, [done = std::move(done)](Result<Requester::Outcome> outcome) mutable {
    if (!outcome) return done(std::unexpected(outcome.error()));
    done(view_in(std::get<Accepted>(*outcome)));
  });
}

void EmbeddedStore::compare_and_swap(const std::string& group, const view::View& next, SwapDone done) {
  impl_->change(group, next, [next, done = std::move(done)](Result<Requester::Outcome> outcome) mutable {
    if (!outcome) return done(std::unexpected(outcome.error()));
    auto current = view_in(std::get<Accepted>(*outcome));
    if (!current) return done(std::unexpected(current.error()));
    // If a proposal is sent twice, the store accepts it once, and both answers report success.
    done(view::SwapResult{*current == next, std::move(*current)});
  });
}

void EmbeddedStore::watch(const std::string& group, Hint hint) {
  impl_->watch(group, std::move(hint));
}

void EmbeddedStore::list(ListDone done) {
  impl_->list([done = std::move(done)](Result<Requester::Outcome> outcome) mutable {
    if (!outcome) return done(std::unexpected(outcome.error()));
    std::vector<view::GroupView> groups;
    for (const auto& [group, accepted] : std::get<Registers>(*outcome)) {
      auto view = view_in(accepted);
      if (!view) return done(std::unexpected(view.error()));
      if (view->epoch != Epoch{}) groups.push_back({group, std::move(*view)});
    }
    done(std::move(groups));
  });
}

}  // namespace rdmc::store
