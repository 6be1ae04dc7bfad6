#include "controlplane/store/embedded_store.hpp"

#include <map>
#include <optional>

#include "controlplane/connect/connector.hpp"
#include "controlplane/store/store_messages.hpp"

namespace rdmc::store {

class EmbeddedStore::Impl : public std::enable_shared_from_this<Impl> {
 public:
  using Answer = std::move_only_function<void(Result<Reply>)>;

  Impl(control::ControlLoop& loop, EmbeddedOptions options) : loop_(loop), options_(std::move(options)) {}

  void ask(decltype(Request::body) body, Answer answer) {
    const std::uint64_t id = ++last_request_;
    Asked& asked = asked_[id];
    asked.request = {id, std::move(body)};
    asked.answer = std::move(answer);
    asked.tries = options_.nodes.size();
    asked.deadline = loop_.after(options_.answer_within, [self = weak_from_this(), id] {
      const auto impl = self.lock();
      if (!impl) return;
      impl->finish(id, fail(Errc::timed_out, "no node of the store has answered in time"));
      impl->leave_node({Errc::timed_out, "a node of the store did not answer"});
    });
    send(asked);
  }

  void watch(const std::string& group, Hint hint) {
    hints_[group] = std::move(hint);
    if (channel_)
      send_watch(group);
    else
      reach_node();
  }

  void close() {
    closed_ = true;
    asked_.clear();
    hints_.clear();
    connecting_ = {};
    channel_.reset();
    again_ = {};
  }

  control::ControlLoop& loop() { return loop_; }

 private:
  struct Asked {
    Request request;
    Answer answer;
    std::size_t tries = 0;
    control::Timer deadline;
  };

  void send(Asked& asked) {
    if (!channel_) return reach_node();
    // What the channel does not take now is refused when its time is over.
    static_cast<void>(channel_->send(encode(asked.request)));
  }
  void send_watch(const std::string& group) {
    static_cast<void>(channel_->send(encode(Request{0, WatchRequest{group}})));
  }

  void reach_node() {
    if (closed_ || reaching_) return;
    reaching_ = true;
    const Address& node = options_.nodes[node_];
    connecting_ =
        control::connect(loop_, host_string(node), node.port, options_.channel, options_.answer_within / 2,
                         [self = weak_from_this()](Result<control::Channel> made) {
                           const auto impl = self.lock();
                           if (!impl || impl->closed_) return;
                           impl->reaching_ = false;
                           if (!made) return impl->leave_node(made.error());
                           impl->use(std::move(*made));
                         });
  }

  void use(control::Channel channel) {
    channel_.emplace(std::move(channel));
    channel_->start(
        [self = weak_from_this()](const std::vector<std::byte>& message) {
          if (const auto impl = self.lock()) impl->hear(message);
        },
        [self = weak_from_this()](const Error& cause) {
          if (const auto impl = self.lock()) impl->leave_node(cause);
        });
    for (auto& [group, hint] : hints_) {
      send_watch(group);
      if (hint) hint(std::nullopt);  // what changed meanwhile was missed
    }
    for (auto& [id, asked] : asked_) send(asked);
  }

  void hear(std::span<const std::byte> message) {
    auto reply = decode_reply(message);
    if (!reply) return leave_node(reply.error());
    if (reply->hint) {
      for (const auto& [group, view] : reply->groups)
        if (const auto found = hints_.find(group); found != hints_.end()) found->second(view.epoch);
      return;
    }
    if (!reply->refused.empty()) return leave_node({Errc::peer_failed, reply->refused});
    finish(reply->id, std::move(*reply));
  }

  /// The next node gets what is not answered, unless all have been asked. Asking twice is harmless: the same
  /// proposal swaps once.
  void leave_node(const Error& cause) {
    if (closed_) return;
    channel_.reset();
    connecting_ = {};
    reaching_ = false;
    node_ = (node_ + 1) % options_.nodes.size();
    std::vector<std::uint64_t> given_up;
    for (auto& [id, asked] : asked_)
      if (asked.tries-- <= 1) given_up.push_back(id);
    for (const std::uint64_t id : given_up) finish(id, std::unexpected(cause));
    if (!asked_.empty()) return reach_node();
    // Watches want a node, too, but in no hurry.
    if (hints_.empty()) return;
    again_ = loop_.after(options_.answer_within, [self = weak_from_this()] {
      const auto impl = self.lock();
      if (impl && !impl->channel_) impl->reach_node();
    });
  }

  void finish(std::uint64_t id, Result<Reply> reply) {
    auto found = asked_.extract(id);
    if (!found.empty()) found.mapped().answer(std::move(reply));
  }

  control::ControlLoop& loop_;
  const EmbeddedOptions options_;
  std::size_t node_ = 0;
  bool reaching_ = false, closed_ = false;
  control::Connecting connecting_;
  std::optional<control::Channel> channel_;
  std::uint64_t last_request_ = 0;
  std::map<std::uint64_t, Asked> asked_;
  std::map<std::string, Hint> hints_;
  control::Timer again_;
};

namespace {

std::unexpected<Error> nonsense() {
  return fail(Errc::protocol_error, "the store answered something else than was asked");
}

}  // namespace

Result<std::unique_ptr<EmbeddedStore>> EmbeddedStore::create(control::ControlLoop& loop,
                                                             const EmbeddedOptions& options) {
  if (options.nodes.empty()) return fail(Errc::invalid_argument, "the store has no nodes");
  return std::unique_ptr<EmbeddedStore>(new EmbeddedStore(std::make_shared<Impl>(loop, options)));
}

EmbeddedStore::~EmbeddedStore() {
  impl_->loop().call([this] { impl_->close(); });
}

void EmbeddedStore::read(const std::string& group, ReadDone done) {
  impl_->ask(ReadRequest{group}, [done = std::move(done)](Result<Reply> reply) mutable {
    if (!reply) return done(std::unexpected(reply.error()));
    if (reply->groups.size() != 1) return done(nonsense());
    done(std::move(reply->groups.front().view));
  });
}

void EmbeddedStore::compare_and_swap(const std::string& group, const view::View& next, SwapDone done) {
  impl_->ask(SwapCommand{group, next}, [done = std::move(done)](Result<Reply> reply) mutable {
    if (!reply) return done(std::unexpected(reply.error()));
    if (reply->groups.size() != 1) return done(nonsense());
    done(view::SwapResult{reply->swapped, std::move(reply->groups.front().view)});
  });
}

void EmbeddedStore::watch(const std::string& group, Hint hint) {
  impl_->watch(group, std::move(hint));
}

void EmbeddedStore::list(ListDone done) {
  impl_->ask(ListRequest{}, [done = std::move(done)](Result<Reply> reply) mutable {
    if (!reply) return done(std::unexpected(reply.error()));
    done(std::move(reply->groups));
  });
}

}  // namespace rdmc::store
