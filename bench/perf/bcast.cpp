// bcast: the root's message to every member through the library's own group, memory to memory, with its
// length announced on the data path: what an application sees.
#include "bench/perf/group_links.hpp"
#include "bench/perf/member.hpp"
#include "dataplane/base/clock.hpp"
#include "dataplane/memory/arena.hpp"
#include "lib/group/group.hpp"
#include "lib/group/memory_store.hpp"

namespace rdmc::perf {
namespace {

class Recorder final : public group::Listener {
 public:
  Recorder(Rendezvous& meet, std::span<std::byte> memory, std::uint32_t block_bytes)
      : meet_(meet), memory_(memory), block_bytes_(block_bytes) {}

  group::Store* incoming(std::uint64_t, std::uint64_t bytes) override {
    if (bytes > memory_.size()) return nullptr;
    return &store_.emplace(memory_, bytes, block_bytes_);
  }
  bool small(std::uint64_t message, std::span<const std::byte> bytes) override {
    std::ranges::copy(bytes, memory_.begin());
    record_finish(meet_, static_cast<std::uint32_t>(message));
    return true;
  }
  void delivered(std::uint64_t message) override {
    record_finish(meet_, static_cast<std::uint32_t>(message));
  }
  void completed(std::uint64_t message) override { completed_ = message + 1; }
  void failed(std::optional<Rank> peer, const Error& error) override {
    failure_ = (peer ? "peer " + std::to_string(value_of(*peer)) + ": " : std::string()) + error.what;
  }

  group::MemoryStore& root_store(std::uint64_t bytes) { return store_.emplace(memory_, bytes, block_bytes_); }
  std::uint64_t completed() const { return completed_; }
  const std::string& failure() const { return failure_; }

 private:
  Rendezvous& meet_;
  std::span<std::byte> memory_;
  std::uint32_t block_bytes_;
  std::optional<group::MemoryStore> store_;
  std::uint64_t completed_ = 0;
  std::string failure_;
};

Result<void> stopped(const Recorder& recorder) {
  return fail(Errc::peer_failed, recorder.failure().empty() ? "another member failed" : recorder.failure());
}

}  // namespace

Result<void> run_bcast(Member& member) {
  const Options& options = member.options();
  Rendezvous& meet = member.meet();
  const bool root = member.rank() == 0;
  auto arena = member.fabric().make_arena(options.size_bytes);
  if (!arena) return std::unexpected(arena.error());
  const auto message = arena->bytes().first(options.size_bytes);

  Recorder recorder(meet, arena->bytes(), options.block_bytes);
  group::PeersConfig links;
  links.link.queue_pair.path_mtu = options.path_mtu;
  links.link.queue_pair.selective_repeat = options.selective_repeat;
  group::Peers peers(member.fabric(), links);
  group::GroupConfig config{.rank = Rank{member.rank()},
                            .algorithm = options.algorithm,
                            .racks = options.racks,
                            .block_bytes = options.block_bytes,
                            .max_writes_in_flight = options.writes_in_flight};
  config.members = first_peers(options.members);
  config.confirms = options.size_bytes <= config.small_bytes;
  auto group = group::Group::create(peers, config, recorder);
  if (!group) return std::unexpected(group.error());
  if (auto connected = connect(member, peers, (*group)->neighbours()); !connected) return connected;
  if (!member.barrier()) return stopped(recorder);  // all are connected before anyone sends
  member.engine().add(peers);

  for (std::uint32_t i = 0; i < kWarmUpIterations + options.iterations; ++i) {
    if (root) {
      stamp(member, message, i);
    }
    if (!member.barrier()) return stopped(recorder);
    if (i >= kWarmUpIterations) member.start_account();
    if (root) {
      meet.started_ns[i] = monotonic_now().ns;
      const auto sent = config.confirms
                            ? (*group)->send_small(message)
                            : (*group)->send(recorder.root_store(options.size_bytes), options.size_bytes);
      if (!sent) return std::unexpected(sent.error());
    }
    const auto done = [&] { return recorder.completed() > i || !recorder.failure().empty(); };
    if (!member.run_until(done) || !recorder.failure().empty()) return stopped(recorder);
    if (i >= kWarmUpIterations) member.end_account();
    if (!root && !matches_digest(member, message))
      return fail(Errc::corrupt, "the received bytes differ from the sent ones");
    if (!member.barrier()) return stopped(recorder);
  }
  MemberFigures& figures = meet.figures[member.rank()];
  figures.bytes_copied += (*group)->counters().bytes_copied;
  figures.first_blocks_exchanged = (*group)->counters().first_blocks_exchanged;
  figures.first_blocks_copied = (*group)->counters().first_blocks_copied;
  figures.path_mtu = options.path_mtu == 0 ? member.fabric().info().path_mtu
                                           : std::min(options.path_mtu, member.fabric().info().path_mtu);
  member.barrier();  // nobody leaves while a neighbour may still need an acknowledgement again
  member.engine().remove(peers);
  return {};
}

}  // namespace rdmc::perf
