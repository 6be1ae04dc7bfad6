#include "bench/perf/connections.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "bench/perf/account.hpp"
#include "bench/perf/payload.hpp"
#include "dataplane/base/clock.hpp"
#include "dataplane/memory/arena.hpp"
#include "dataplane/relay/plan.hpp"
#include "lib/include/rdmc/unicast.hpp"

namespace rdmc::perf {
namespace {

constexpr std::uint32_t kReceives = 256;
/// The longest wait for completions. The wait is long enough not to be a busy poll, and short enough to
/// notice that the other member has failed.
constexpr Duration kWait = milliseconds(100);

/// One end of a run: its endpoint, its connection, and its figures.
class End {
 public:
  End(const Options& options, Rendezvous& meet, std::uint32_t rank)
      : options_(options), meet_(meet), rank_(rank), has_thread_(options.api == "unicast-thread") {}

  /// Member 1 listens, and member 0 connects.
  Result<void> connect();
  Result<void> unicast();
  Result<void> latency();

 private:
  bool sends() const { return rank_ == 0; }
  /// Called between two parts of a long task.
  void pause() {
    if (has_thread_)
      usleep(20);
    else
      endpoint_->poll({});
  }
  bool barrier() {
    return meet_.barrier([this] { pause(); });
  }
  Result<void> open();
  Result<RemoteMemory> exchange_keys(std::span<std::byte> message);
  Result<void> transfer(std::span<std::byte> message, const RemoteMemory& to);
  /// Takes completions, and counts those of receives.
  Result<std::size_t> take();
  Result<void> stopped() const { return fail(Errc::peer_failed, "the other member failed"); }

  const Options& options_;
  Rendezvous& meet_;
  const std::uint32_t rank_;
  const bool has_thread_;
  std::atomic<bool> is_connected_ = false;
  Connection connection_;  // This is written before is_connected_.
  memory::Arena arena_;
  std::array<std::byte, RemoteMemory::kEncodedBytes> words_{};
  // The endpoint must be destroyed before the memory that it reads and writes.
  std::unique_ptr<Endpoint> endpoint_;
  Region region_;
  std::array<Completion, 64> completions_;
  std::uint64_t received_ = 0, sent_ = 0;
};

Result<void> End::open() {
  EndpointCallbacks on;
  on.connected = [this](const Connection& connection) {
    connection_ = connection;
    is_connected_ = true;
  };
  auto made = Endpoint::create({.name = "perf",
                                .fabric = options_.fabric,
                                .insecure = true,
                                .own_thread = has_thread_,
                                .busy_poll = options_.busy_poll,
                                .send_depth = kReceives,
                                .receive_depth = kReceives},
                               on);
  if (!made) return std::unexpected(made.error());
  endpoint_ = std::move(*made);
  return sends() ? Result<void>() : endpoint_->listen();
}

Result<void> End::connect() {
  if (auto opened = open(); !opened) return opened;
  if (!sends()) meet_.receiver_key = endpoint_->address().port;
  if (!barrier()) return stopped();
  if (sends()) {
    auto made = endpoint_->connect(
        {.host = "127.0.0.1", .port = static_cast<std::uint16_t>(meet_.receiver_key.load())}, seconds(30));
    if (!made) return std::unexpected(made.error());
    connection_ = std::move(*made);
  }
  while (!sends() && !is_connected_) {
    if (meet_.failed()) return stopped();
    pause();
  }
  auto& figures = meet_.figures[rank_];
  const std::string name = endpoint_->fabric_name().substr(0, figures.driver.size() - 1);
  std::ranges::copy(name, figures.driver.begin());
  figures.icrc = false;
  // Over shm, each byte is copied once, from process to process. Over every other fabric, the kernel copies
  // it twice.
  figures.carrier_copies_per_byte = name.starts_with("shm") ? 1 : 2;
  return {};
}

Result<std::size_t> End::take() {
  const std::size_t count = endpoint_->poll(completions_, options_.busy_poll ? Duration{} : kWait);
  for (const Completion& one : std::span(completions_).first(count)) {
    if (one.status != WorkStatus::success)
      return fail(Errc::peer_failed, fmt::format("an operation ended with \"{}\"", fabric::name(one.status)));
    const bool is_receive = one.kind == WorkKind::receive || one.kind == WorkKind::receive_write_immediate;
    ++(is_receive ? received_ : sent_);
  }
  if (meet_.failed()) return fail(Errc::peer_failed, "the other member failed");
  return count;
}

/// On the receiver, this function gives the sender access to `message`. On the sender, it receives this
/// access. Returns the remote memory.
Result<RemoteMemory> End::exchange_keys(std::span<std::byte> message) {
  if (!sends()) {
    auto region = endpoint_->register_memory(message, RemoteAccess::write);
    if (!region) return std::unexpected(region.error());
    region_ = std::move(*region);
    const auto key = region_.grant(connection_);
    if (!key) return std::unexpected(key.error());
    if (auto told = connection_.send_copy(key->encode(), 0); !told) return std::unexpected(told.error());
    return *key;
  }
  // The bytes of this side are registered once. So a device, if there is one, pins them only once.
  auto region = endpoint_->register_memory(message, RemoteAccess::read);
  if (!region) return std::unexpected(region.error());
  region_ = std::move(*region);
  if (auto posted = connection_.post_receive(words_, 0); !posted) return std::unexpected(posted.error());
  while (received_ == 0)
    if (auto taken = take(); !taken) return std::unexpected(taken.error());
  return RemoteMemory::decode(words_);
}

Result<void> End::transfer(std::span<std::byte> message, const RemoteMemory& to) {
  const std::uint64_t block_bytes = options_.block_bytes;
  const std::uint64_t blocks = relay::block_count(message.size(), block_bytes);
  received_ = sent_ = 0;
  std::uint64_t begun = 0;
  std::uint64_t& done = sends() ? sent_ : received_;
  while (done < blocks) {
    for (; sends() && begun < std::min(blocks, done + options_.writes_in_flight); ++begun) {
      const std::uint64_t at = begun * block_bytes;
      const auto block = message.subspan(at, std::min<std::uint64_t>(block_bytes, message.size() - at));
      if (auto asked = connection_.write_with_immediate(block, to, at, 0, begun); !asked) return asked;
    }
    const std::uint64_t before = received_;
    if (auto taken = take(); !taken) return std::unexpected(taken.error());
    for (std::uint64_t i = before; !sends() && i < received_; ++i)
      if (auto posted = connection_.post_receive({}, 0); !posted) return posted;
  }
  return {};
}

Result<void> End::unicast() {
  auto memory = memory::Arena::make(options_.size_bytes);
  if (!memory) return std::unexpected(memory.error());
  arena_ = std::move(*memory);
  const auto message = arena_.bytes().first(options_.size_bytes);
  for (std::uint32_t i = 0; !sends() && i < kReceives; ++i)
    if (auto posted = connection_.post_receive({}, 0); !posted) return posted;
  const auto to = exchange_keys(message);
  if (!to) return std::unexpected(to.error());
  while (!sends() && sent_ == 0)
    if (auto taken = take(); !taken) return std::unexpected(taken.error());
  Account account(meet_.figures[rank_]);
  const auto meanwhile = [this] { pause(); };
  for (std::uint32_t i = 0; i < kWarmUpIterations + options_.iterations; ++i) {
    if (sends()) stamp(meet_, message, i, 0, meanwhile);
    if (!barrier()) return stopped();
    const bool is_timed = i >= kWarmUpIterations;
    if (is_timed) account.start();
    if (sends()) meet_.started_ns[i] = monotonic_now().ns;
    if (auto done = transfer(message, *to); !done) return done;
    if (!sends()) record_finish(meet_, i);
    if (is_timed) account.end();
    if (!sends() && !matches_digest(meet_, message, 0, meanwhile))
      return fail(Errc::corrupt, "the received bytes differ from the sent ones");
    if (!barrier()) return stopped();
  }
  barrier();
  return {};
}

Result<void> End::latency() {
  auto memory = memory::Arena::make(std::max<std::size_t>(options_.size_bytes, 1) * 2);
  if (!memory) return std::unexpected(memory.error());
  arena_ = std::move(*memory);
  const auto outgoing = arena_.bytes().first(options_.size_bytes);
  const auto incoming = arena_.bytes().last(options_.size_bytes);
  if (auto posted = connection_.post_receive(incoming, 0); !posted) return posted;
  if (!barrier()) return stopped();
  Account account(meet_.figures[rank_]);
  for (std::uint32_t i = 0; i < kWarmUpIterations + options_.iterations; ++i) {
    if (i == kWarmUpIterations) account.start();
    if (sends()) {
      meet_.started_ns[i] = monotonic_now().ns;
      if (auto sent = connection_.send(outgoing, 0); !sent) return sent;
    }
    while (received_ <= i)
      if (auto taken = take(); !taken) return std::unexpected(taken.error());
    if (auto posted = connection_.post_receive(incoming, 0); !posted) return posted;
    if (sends()) {
      meet_.finished_ns[i] = monotonic_now().ns;
    } else if (auto sent = connection_.send(outgoing, 0); !sent) {
      return sent;
    }
  }
  account.end();
  barrier();
  return {};
}

}  // namespace

bool is_of_connections(const Options& options) {
  return options.api == "unicast" || options.api == "unicast-thread";
}

Result<void> run_connections(const Options& options, Rendezvous& meet, std::uint32_t rank) {
  End end(options, meet, rank);
  if (auto connected = end.connect(); !connected) return connected;
  return options.test == Test::latency ? end.latency() : end.unicast();
}

}  // namespace rdmc::perf
