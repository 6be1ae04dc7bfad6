// The test rate with --api group: measures the rate of small messages of a group, which are sent one after
// the other to every member. An application that sends many small messages gets this rate.
#include <cstring>

#include "bench/perf/group_links.hpp"
#include "dataplane/base/clock.hpp"
#include "lib/group/group.hpp"

namespace rdmc::perf {
namespace {

constexpr std::uint32_t kRingBytes = 256 * 1024;
/// The number of messages that the root sends between two turns of the engine.
constexpr std::uint32_t kTogether = 256;

/// Checks that the messages arrive in order, and counts them.
class Counter final : public group::Observer {
 public:
  explicit Counter(std::size_t size) : size_(size) {}
  group::Store* incoming(std::uint64_t, std::uint64_t) override { return nullptr; }
  bool small(std::uint64_t message, std::span<const std::byte> bytes) override {
    std::uint64_t number = message;
    if (size_ >= sizeof number) std::memcpy(&number, bytes.data(), sizeof number);
    corrupt_ = corrupt_ || bytes.size() != size_ || number != message || message != delivered_;
    ++delivered_;
    return true;
  }
  void delivered(std::uint64_t) override { ++delivered_; }
  void completed(std::uint64_t) override { ++completed_; }
  void stable(std::uint64_t count) override { stable_ = count; }
  void failed(std::optional<Rank>, const Error& error) override { failure_ = error.what; }

  std::uint64_t delivered() const { return delivered_; }
  std::uint64_t completed() const { return completed_; }
  std::uint64_t stable() const { return stable_; }
  bool corrupt() const { return corrupt_; }
  const std::string& failure() const { return failure_; }

 private:
  std::size_t size_;
  std::uint64_t delivered_ = 0, completed_ = 0, stable_ = 0;
  bool corrupt_ = false;
  std::string failure_;
};

}  // namespace

Result<void> run_group_rate(Member& member) {
  const Options& options = member.options();
  Rendezvous& meet = member.meet();
  const bool root = member.rank() == 0;
  const auto size = static_cast<std::size_t>(options.size_bytes);
  Counter counter(size);
  const auto stopped = [&] { return fail(Errc::peer_failed, counter.failure() + " (a member has failed)"); };
  group::Peers peers(member.fabric(), {.link = {.ring_bytes = kRingBytes}, .early = {}});
  group::GroupConfig config{
      .rank = Rank{member.rank()}, .members = first_peers(options.members), .confirms = true};
  config.small_bytes = std::max(config.small_bytes, static_cast<std::uint32_t>(size));
  auto group = group::Group::create(peers, config, counter);
  if (!group) return std::unexpected(group.error());
  if (auto connected = connect(member, peers, (*group)->neighbours()); !connected) return connected;
  if (!member.barrier()) return stopped();
  member.engine().add(peers);

  // The memory of messages in flight must not change until it is reusable.
  std::vector<std::byte> messages(group::SmallWindow::kMostAhead * std::max<std::size_t>(size, 1));
  std::uint64_t begun = 0;
  const auto send_some = [&](std::uint64_t end) {
    for (std::uint32_t i = 0; i < kTogether && begun < end; ++i, ++begun) {
      if (begun - counter.completed() >= group::SmallWindow::kMostAhead) return true;
      const auto message = std::span(messages).subspan(begun % group::SmallWindow::kMostAhead * size, size);
      if (size >= sizeof begun) std::memcpy(message.data(), &begun, sizeof begun);
      if (!(*group)->send_small(message)) return false;
    }
    return true;
  };
  for (std::uint32_t i = 0; i < kWarmUpIterations + options.iterations; ++i) {
    const std::uint64_t end = std::uint64_t{i + 1} * kMessagesPerIteration;
    if (!member.barrier()) return stopped();
    if (i >= kWarmUpIterations) member.start_account();
    if (root) meet.started_ns[i] = monotonic_now().ns;
    bool broken = false;
    const auto done = [&] {
      if (root && begun < end) broken = broken || !send_some(end);
      return broken || !counter.failure().empty() || (root ? counter.stable() : counter.delivered()) >= end;
    };
    if (!member.run_until(done) || broken || !counter.failure().empty()) return stopped();
    record_finish(meet, i);
    if (i >= kWarmUpIterations) member.end_account();
    if (counter.corrupt()) return fail(Errc::corrupt, "a message was lost, doubled or changed");
  }
  member.barrier();
  member.engine().remove(peers);
  return {};
}

}  // namespace rdmc::perf
