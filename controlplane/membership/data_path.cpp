#include "controlplane/membership/data_path.hpp"

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <optional>

#include "controlplane/membership/path.hpp"

namespace rdmc::membership {
namespace {

constexpr std::size_t kMostSpare = 4;
/// A drain ends after this number of turns, even if more messages continue to arrive. By then everything that
/// had arrived before the first turn has been taken in.
constexpr int kDrainingTurns = 64;

}  // namespace

/// The part of a DataPath that runs on the fabric thread.
class DataPath::Poller final : public engine::Poller {
 public:
  explicit Poller(Handlers handlers) : handlers_(std::move(handlers)) {}
  /// Destroys the paths on the fabric thread, on which they were used.
  ~Poller() override {
    if (thread_ == nullptr) return;
    thread_->call([this] {
      thread_->engine().remove(*this);
      paths_.clear();
      region_.reset();
    });
  }

  Result<void> start(const DataPathOptions& options) {
    const auto context = options.context ? options.context : peer::Context::of_process();
    auto thread = context->fabric_thread({.fabric = options.fabric,
                                          .address = options.address,
                                          .device = options.device,
                                          .encrypt = options.encrypt});
    if (!thread) return std::unexpected(thread.error());
    auto window = (*thread)->make_arena(options.window_bytes);
    if (!window) return std::unexpected(window.error());
    window_ = std::move(*window);
    thread_ = std::move(*thread);
    thread_->call([this] { thread_->engine().add(*this); });
    return {};
  }

  /// Runs `function` on the fabric thread and waits for its result.
  template <typename Function>
  auto call(Function function) {
    return thread_->call(std::move(function));
  }
  /// Runs `task` on the fabric thread later. Returns false if there is no space for the task.
  bool post(peer::FabricThread::Task task) { return thread_->post(std::move(task)).has_value(); }

  Result<fabric::ConnectionBlob> offer(LinkId link) {
    std::optional<memory::Arena> arena;
    if (!spare_.empty()) {
      arena = std::move(spare_.back());
      spare_.pop_back();
    }
    auto path = Path::create(thread_->fabric(), std::move(arena));
    if (!path) return std::unexpected(path.error());
    return (paths_[link] = std::move(*path))->queue_pair().local_blob();
  }
  Path* find(LinkId link) {
    const auto found = paths_.find(link);
    return found == paths_.end() ? nullptr : found->second.get();
  }
  void forget(std::span<const LinkId> links) {
    for (const LinkId link : links) {
      auto path = paths_.extract(link);
      if (path.empty()) continue;
      auto arena = Path::end(std::move(path.mapped()));
      // The peer may have mapped this memory and could then still read it. Such memory is not used again.
      if (spare_.size() < kMostSpare && !arena.shared_pages()) spare_.push_back(std::move(arena));
    }
  }
  Result<WindowKey> renew_window() {
    region_.reset();
    std::ranges::fill(window_.bytes(), std::byte{});
    auto region = thread_->fabric().register_memory(window_.bytes());
    if (!region) return std::unexpected(region.error());
    region_ = std::move(*region);
    return WindowKey{region_->remote_address(), region_->remote_key()};
  }

  void drain(std::function<void()> done) {
    draining_.push_back(std::move(done));
    turns_left_ = kDrainingTurns;
  }

  std::uint64_t dropped() const { return dropped_; }
  const peer::FabricThread& thread() const { return *thread_; }
  std::span<const std::byte> window() const { return window_.bytes(); }

  std::size_t work(Time) override {
    std::size_t done = 0;
    for (auto& [link, path] : paths_) {
      done += path->poll([&, id = link, path = path.get()](std::span<const std::byte> bytes) {
        auto permit = path->permit();
        if (!permit) return static_cast<void>(++dropped_);
        handlers_.heard(id, Bytes(bytes.begin(), bytes.end()), std::move(permit));
      });
      if (path->has_failed_now()) handlers_.failed(link, path->queue_pair().error_cause());
    }
    if (draining_.empty()) return done;
    // A callback is removed only after it has returned. If it throws because there is no memory, it is called
    // again in the next turn. Otherwise the caller of drain() would wait without an end.
    if (done + thread_->last_progress() == 0 || --turns_left_ <= 0)
      for (; !draining_.empty(); draining_.pop_front()) draining_.front()();
    return done + 1;
  }
  /// Because memory is missing, a path may have lost a posted receive, or the owner of a path may have lost a
  /// message. So all paths fail, and their owners make new paths.
  void on_out_of_memory() override {
    for (auto& [link, path] : paths_)
      if (!path->has_been_given_up()) {
        handlers_.failed(link, "no memory");
        path->give_up();
      }
  }

 private:
  const Handlers handlers_;
  std::shared_ptr<peer::FabricThread> thread_;
  memory::Arena window_;
  std::unique_ptr<fabric::MemoryRegion> region_;
  std::map<LinkId, std::unique_ptr<Path>> paths_;
  std::atomic<std::uint64_t> dropped_ = 0;
  /// The memory of paths that have ended.
  std::vector<memory::Arena> spare_;
  std::deque<std::function<void()>> draining_;
  int turns_left_ = 0;
};

Result<std::unique_ptr<DataPath>> DataPath::open(const DataPathOptions& options, Handlers handlers) {
  auto poller = std::make_unique<Poller>(std::move(handlers));
  if (auto started = poller->start(options); !started) return std::unexpected(started.error());
  return std::unique_ptr<DataPath>(new DataPath(std::move(poller)));
}

DataPath::DataPath(std::unique_ptr<Poller> poller) : poller_(std::move(poller)) {}
DataPath::~DataPath() = default;

const std::string& DataPath::fabric_name() const {
  return poller_->thread().fabric_name();
}
const std::string& DataPath::reason() const {
  return poller_->thread().reason();
}
std::span<const std::byte> DataPath::window() const {
  return poller_->window();
}

Result<fabric::ConnectionBlob> DataPath::offer(LinkId link) {
  return poller_->call([&] { return poller_->offer(link); });
}

Result<void> DataPath::connect(LinkId link, std::span<const std::byte> blob) {
  return poller_->call([&]() -> Result<void> {
    Path* const path = poller_->find(link);
    if (path == nullptr) return fail(Errc::not_found, "nothing was offered there");
    return path->queue_pair().connect(blob);
  });
}

void DataPath::say(LinkId link, Bytes message) {
  // If there is no space for the task, the message is treated as if the network had lost it.
  static_cast<void>(poller_->post([poller = poller_.get(), link, message = std::move(message)] {
    if (Path* const path = poller->find(link)) path->say(message);
  }));
}

void DataPath::drain(std::function<void()> done) {
  const auto drain = [poller = poller_.get(), done = std::move(done)] { poller->drain(done); };
  if (!poller_->post(drain)) poller_->call(drain);
}

void DataPath::write(LinkId link, WindowKey window, std::uint64_t offset, Bytes bytes) {
  static_cast<void>(poller_->post([poller = poller_.get(), link, window, offset, bytes = std::move(bytes)] {
    if (Path* const path = poller->find(link)) path->write(window, offset, bytes);
  }));
}

Result<WindowKey> DataPath::fence(std::span<const LinkId> closed) {
  return poller_->call([&] {
    poller_->forget(closed);
    return poller_->renew_window();
  });
}

void DataPath::close(LinkId link) {
  const auto forget = [poller = poller_.get(), link] { poller->forget({&link, 1}); };
  if (!poller_->post(forget)) poller_->call(forget);
}

std::uint64_t DataPath::dropped() const {
  return poller_->dropped();
}

std::uint64_t DataPath::packets_refused() const {
  return poller_->call([&]() -> std::uint64_t {
    const auto* const software = poller_->thread().software();
    if (software == nullptr) return 0;
    const auto& counters = software->counters();
    return counters.unknown_queue_pair + counters.wrong_source + counters.forged + counters.stale;
  });
}

}  // namespace rdmc::membership
