#include "controlplane/store/raft_node.hpp"

#include <pthread.h>
#include <signal.h>
#include <uv.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <thread>
#include <utility>

// libraft's headers do not say that they are C.
extern "C" {
#include <raft.h>
#include <raft/uv.h>
}

namespace rdmc::store {
namespace {

constexpr std::size_t kSegmentBytes = 1 << 20;
/// libraft 0.15 crashes when it is closed while several entries are on their way to the disk. An end waits
/// for what was asked; without a majority of nodes that may take for ever, but then the disk has long been
/// done.
constexpr std::uint64_t kDrainMs = 500;

/// What raft frees with its own allocator. Null when memory is short.
bool copy(std::span<const std::byte> bytes, raft_buffer& to) {
  to.len = (bytes.size() + 7) / 8 * 8;  // the log is made of words
  to.base = raft_calloc(1, to.len + 8);
  if (to.base == nullptr) return false;
  // The length goes first: what is rounded up is not part of the message.
  const std::uint64_t size = bytes.size();
  std::memcpy(to.base, &size, 8);
  std::memcpy(static_cast<std::byte*>(to.base) + 8, bytes.data(), bytes.size());
  to.len += 8;
  return true;
}

std::span<const std::byte> contents(const raft_buffer& from) {
  std::uint64_t size = 0;
  if (from.len < 8) return {};
  std::memcpy(&size, from.base, 8);
  if (size > from.len - 8) return {};
  return {static_cast<const std::byte*>(from.base) + 8, size};
}

/// One node has nobody to talk to, and listens to nobody.
raft_uv_transport no_transport() {
  return {.init = [](raft_uv_transport*, raft_id, const char*) { return 0; },
          .listen = [](raft_uv_transport*, raft_uv_accept_cb) { return 0; },
          .connect = [](raft_uv_transport*, raft_uv_connect*, raft_id, const char*,
                        raft_uv_connect_cb) { return static_cast<int>(RAFT_NOCONNECTION); },
          .close = [](raft_uv_transport* transport, raft_uv_transport_close_cb done) { done(transport); }};
}

}  // namespace

class RaftNode::Impl {
 public:
  using Reached = std::move_only_function<void(Result<void>)>;

  Impl(const RaftOptions& options, Changed changed) : options_(options), changed_(std::move(changed)) {}

  ~Impl() {
    if (!thread_.joinable()) return;
    post([this] { end(); });
    thread_.join();
    release();
  }

  Result<void> start() {
    std::error_code error;
    std::filesystem::create_directories(options_.directory, error);
    if (error) return fail(Errc::invalid_argument, options_.directory + ": " + error.message());
    std::filesystem::permissions(options_.directory, std::filesystem::perms::owner_all, error);
    uv_loop_init(&loop_);
    uv_async_init(&loop_, &wake_, [](uv_async_t* wake) { static_cast<Impl*>(wake->data)->run_posted(); });
    uv_timer_init(&loop_, &drain_);
    wake_.data = drain_.data = this;
    const std::string address = to_string(options_.nodes[options_.self]);
    fsm_ = {.version = 1, .data = this, .apply = apply, .snapshot = snapshot, .restore = restore};
    if (alone())
      transport_ = no_transport();
    else if (raft_uv_tcp_init(&transport_, &loop_) != 0)
      return abandon("its transport");
    if (raft_uv_init(&io_, &loop_, options_.directory.c_str(), &transport_) != 0) return abandon(io_.errmsg);
    raft_uv_set_segment_size(&io_, kSegmentBytes);
    raft_uv_set_connect_retry_delay(&io_, 200);
    if (raft_init(&raft_, &io_, &fsm_, options_.self + 1, address.c_str()) != 0) return abandon(raft_.errmsg);
    raft_.data = this;
    const auto election_ms = static_cast<unsigned>(options_.election.ns / milliseconds(1).ns);
    raft_set_election_timeout(&raft_, election_ms);
    raft_set_heartbeat_timeout(&raft_, std::max(10U, election_ms / 10));
    raft_set_pre_vote(&raft_, true);
    if (const int code = bootstrap(); code != 0 && code != RAFT_CANTBOOTSTRAP)
      return close_unstarted(raft_errmsg(&raft_));
    if (raft_start(&raft_) != 0) return close_unstarted(raft_errmsg(&raft_));
    begin_thread();
    return {};
  }

  void post(std::move_only_function<void()> task) {
    {
      const std::scoped_lock lock(mutex_);
      posted_.push_back(std::move(task));
    }
    uv_async_send(&wake_);
  }

  void swap(const SwapCommand& command, view::ViewStore::SwapDone done) {
    struct Asked {
      struct raft_apply request {};
      Impl* impl;
      view::ViewStore::SwapDone done;
    };
    if (ending_) return done(not_here(RAFT_SHUTDOWN));
    raft_buffer buffer{};
    if (!copy(encode(command), buffer)) return done(fail(Errc::resource_limit, "no memory for a command"));
    auto asked = std::make_unique<Asked>();
    asked->impl = this;
    asked->done = std::move(done);
    asked->request.data = asked.get();
    const int code = raft_apply(&raft_, &asked->request, &buffer, 1,
                                [](struct raft_apply* request, int status, void* result) {
                                  const std::unique_ptr<Asked> mine(static_cast<Asked*>(request->data));
                                  mine->impl->answered();
                                  if (status != 0) return mine->done(not_here(status));
                                  mine->done(*static_cast<view::SwapResult*>(result));
                                });
    if (code == 0) {
      ++outstanding_;
      asked.release();  // raft calls back
      return;
    }
    raft_free(buffer.base);
    asked->done(not_here(code));
  }

  /// `answer` is called when everything that was committed before has been applied here, or with why not. A
  /// barrier is an entry of the log, and costs a flush: all who ask while one is on its way share the next.
  void after_barrier(Reached answer) {
    if (ending_) return answer(not_here(RAFT_SHUTDOWN));
    if (caught_up_) return answer({});
    readers_.push_back(std::move(answer));
    if (!barrier_) begin_barrier();
  }

  const ViewMap& views() const { return views_; }

  RaftStatus status() {
    raft_id leader = 0;
    const char* address = nullptr;
    raft_leader(&raft_, &leader, &address);
    return {.leads = raft_state(&raft_) == RAFT_LEADER,
            .knows_leader = leader != 0,
            .term = raft_.current_term,
            .agreed = agreed_,
            .overtaken = overtaken_,
            .groups = views_.size()};
  }

 private:
  void begin_barrier() {
    struct Asked {
      struct raft_barrier request {};
      Impl* impl;
      std::vector<Reached> readers;
    };
    auto asked = std::make_unique<Asked>();
    asked->impl = this;
    asked->readers = std::exchange(readers_, {});
    asked->request.data = asked.get();
    const int code = raft_barrier(&raft_, &asked->request, [](struct raft_barrier* request, int status) {
      const std::unique_ptr<Asked> mine(static_cast<Asked*>(request->data));
      mine->impl->barrier_ = false;
      mine->impl->answered();
      // One alone leads for ever, and from now on has applied whatever it has acknowledged.
      mine->impl->caught_up_ = status == 0 && mine->impl->alone();
      tell(mine->readers, status);
      mine->impl->serve_readers();
    });
    if (code != 0) return tell(asked->readers, code);
    barrier_ = true;
    ++outstanding_;
    asked.release();  // raft calls back
  }
  void serve_readers() {
    for (Reached& reader : std::exchange(readers_, {})) after_barrier(std::move(reader));
  }
  static void tell(std::vector<Reached>& readers, int status) {
    for (Reached& reader : readers) reader(status == 0 ? Result<void>{} : not_here(status));
  }

  void answered() {
    if (--outstanding_ == 0 && ending_) post([this] { close(); });
  }

  void end() {
    ending_ = true;
    if (outstanding_ == 0) return close();
    uv_timer_start(
        &drain_, [](uv_timer_t* timer) { static_cast<Impl*>(timer->data)->close(); }, kDrainMs, 0);
  }
  void close() {
    if (!std::exchange(closing_, true)) raft_close(&raft_, on_closed);
  }

  static std::unexpected<Error> not_here(int code) {
    if (code == RAFT_SHUTDOWN) return fail(Errc::cancelled, "this node of the store ends");
    return fail(Errc::peer_failed, std::string("this node of the store: ") + raft_strerror(code));
  }

  int bootstrap() {
    raft_configuration configuration;
    raft_configuration_init(&configuration);
    int code = 0;
    for (std::size_t i = 0; i < options_.nodes.size() && code == 0; ++i)
      code = raft_configuration_add(&configuration, i + 1, to_string(options_.nodes[i]).c_str(), RAFT_VOTER);
    if (code == 0) code = raft_bootstrap(&raft_, &configuration);
    raft_configuration_close(&configuration);
    return code;
  }

  void begin_thread() {
    // Signals belong to the program's own threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] {
      pthread_setname_np(pthread_self(), "rdmc-raft");
      uv_run(&loop_, UV_RUN_DEFAULT);
    });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  /// Raft was not initialised.
  Result<void> abandon(std::string why) {
    close_handles();
    uv_run(&loop_, UV_RUN_DEFAULT);
    uv_loop_close(&loop_);
    return fail(Errc::io_error, options_.directory + ": the store's node cannot start: " + std::move(why));
  }

  Result<void> close_unstarted(std::string why) {
    raft_close(&raft_, on_closed);
    uv_run(&loop_, UV_RUN_DEFAULT);
    release();
    return fail(Errc::io_error, options_.directory + ": the store's node cannot start: " + std::move(why));
  }

  /// When nothing runs any more.
  void release() {
    raft_uv_close(&io_);
    if (!alone()) raft_uv_tcp_close(&transport_);
    uv_loop_close(&loop_);
  }

  bool alone() const { return options_.nodes.size() == 1; }

  static void on_closed(struct raft* raft) { static_cast<Impl*>(raft->data)->close_handles(); }
  void close_handles() {
    uv_close(reinterpret_cast<uv_handle_t*>(&wake_), nullptr);
    uv_close(reinterpret_cast<uv_handle_t*>(&drain_), nullptr);
  }

  void run_posted() {
    std::vector<std::move_only_function<void()>> tasks;
    {
      const std::scoped_lock lock(mutex_);
      tasks.swap(posted_);
    }
    for (auto& task : tasks) task();
  }

  // The state machine that raft drives.
  static int apply(raft_fsm* fsm, const raft_buffer* buffer, void** result) {
    Impl& self = *static_cast<Impl*>(fsm->data);
    const auto command = decode_command(contents(*buffer));
    if (!command) return RAFT_MALFORMED;
    self.applied_ = self.views_.apply(*command);
    ++(self.applied_.swapped ? self.agreed_ : self.overtaken_);
    *result = &self.applied_;  // its callback, if it was asked here, comes before the next command
    if (self.applied_.swapped && self.changed_) self.changed_(command->group, self.applied_.current.epoch);
    return 0;
  }
  static int snapshot(raft_fsm* fsm, raft_buffer* buffers[], unsigned* count) {
    auto* const buffer = static_cast<raft_buffer*>(raft_malloc(sizeof(raft_buffer)));
    if (buffer == nullptr) return RAFT_NOMEM;
    if (!copy(static_cast<Impl*>(fsm->data)->views_.encode(), *buffer)) {
      raft_free(buffer);
      return RAFT_NOMEM;
    }
    *buffers = buffer;
    *count = 1;
    return 0;
  }
  static int restore(raft_fsm* fsm, raft_buffer* buffer) {
    const auto restored = static_cast<Impl*>(fsm->data)->views_.restore(contents(*buffer));
    if (!restored) return RAFT_MALFORMED;
    raft_free(buffer->base);
    return 0;
  }

  const RaftOptions options_;
  Changed changed_;
  ViewMap views_;
  view::SwapResult applied_;
  uv_loop_t loop_{};
  uv_async_t wake_{};
  uv_timer_t drain_{};
  std::uint64_t outstanding_ = 0, agreed_ = 0, overtaken_ = 0;
  bool ending_ = false, closing_ = false;
  bool barrier_ = false, caught_up_ = false;
  std::vector<Reached> readers_;  // who wait for the next barrier
  raft_uv_transport transport_{};
  raft_io io_{};
  raft_fsm fsm_{};
  struct raft raft_ {};
  std::mutex mutex_;
  std::vector<std::move_only_function<void()>> posted_;
  std::thread thread_;
};

RaftNode::RaftNode(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RaftNode::~RaftNode() = default;

Result<std::unique_ptr<RaftNode>> RaftNode::start(const RaftOptions& options, Changed changed) {
  const bool ipv4 = std::ranges::none_of(options.nodes, &Address::ipv6);
  if ((options.nodes.size() != 1 && options.nodes.size() != 3) || options.self >= options.nodes.size() ||
      !ipv4)
    return fail(Errc::invalid_argument, "a store has one node or three, with IPv4 addresses");
  auto impl = std::make_unique<Impl>(options, std::move(changed));
  if (auto started = impl->start(); !started) return std::unexpected(started.error());
  return std::unique_ptr<RaftNode>(new RaftNode(std::move(impl)));
}

void RaftNode::swap(SwapCommand command, view::ViewStore::SwapDone done) {
  impl_->post([impl = impl_.get(), command = std::move(command), done = std::move(done)]() mutable {
    impl->swap(command, std::move(done));
  });
}

void RaftNode::read(std::string group, view::ViewStore::ReadDone done) {
  impl_->post([impl = impl_.get(), group = std::move(group), done = std::move(done)]() mutable {
    impl->after_barrier(
        [impl, group = std::move(group), done = std::move(done)](Result<void> reached) mutable {
          if (!reached) return done(std::unexpected(reached.error()));
          done(impl->views().read(group));
        });
  });
}

void RaftNode::list(view::ViewStore::ListDone done) {
  impl_->post([impl = impl_.get(), done = std::move(done)]() mutable {
    impl->after_barrier([impl, done = std::move(done)](Result<void> reached) mutable {
      if (!reached) return done(std::unexpected(reached.error()));
      done(impl->views().list());
    });
  });
}

void RaftNode::status(std::move_only_function<void(const RaftStatus&)> done) {
  impl_->post([impl = impl_.get(), done = std::move(done)]() mutable { done(impl->status()); });
}

}  // namespace rdmc::store
