// The test bcast sends the root's message to every member through the library's own group, from memory to
// memory. The length of the message is announced on the data path. This is what an application measures. With
// several senders, each sender is the root of its own group, and the groups share their connections.
#include <algorithm>
#include <memory>
#include <set>
#include <vector>

#include "bench/perf/group_links.hpp"
#include "bench/perf/member.hpp"
#include "dataplane/base/clock.hpp"
#include "dataplane/memory/arena.hpp"
#include "lib/group/group.hpp"
#include "lib/group/memory_store.hpp"

namespace rdmc::perf {
namespace {

class Recorder final : public group::Observer {
 public:
  Recorder(Rendezvous& meet, std::span<std::byte> memory, const Options& options)
      : meet_(meet), memory_(memory), options_(options) {}

  group::Store* incoming(std::uint64_t, std::uint64_t bytes) override {
    if (bytes > memory_.size()) return nullptr;
    return &store_.emplace(memory_, bytes, options_.block_bytes);
  }
  bool small(std::uint64_t message, std::span<const std::byte> bytes) override {
    std::ranges::copy(bytes, memory_.begin());
    delivered(message);
    return true;
  }
  void mapped(std::uint64_t message, const fabric::MappedMemory& memory) override {
    mapped_ = memory;
    seen_ = message + 1;
    delivered(message);
  }
  void delivered(std::uint64_t message) override {
    if (!options_.until_stable) record_finish(meet_, static_cast<std::uint32_t>(message));
  }
  void completed(std::uint64_t message) override { completed_ = message + 1; }
  void stable(std::uint64_t count) override {
    stable_ = count;
    seen_ = std::max(seen_, count);
    if (options_.until_stable) record_finish(meet_, static_cast<std::uint32_t>(count - 1));
  }
  void failed(std::optional<Rank> peer, const Error& error) override {
    failure_ = (peer ? "peer " + std::to_string(value_of(*peer)) + ": " : std::string()) + error.what;
  }

  group::MemoryStore& root_store(std::uint64_t bytes) {
    return store_.emplace(memory_, bytes, options_.block_bytes);
  }
  bool is_over(std::uint64_t message) const {
    if (options_.read_only) return seen_ > message;
    return completed_ > message && (!options_.until_stable || stable_ > message);
  }
  bool is_free(std::uint64_t message) const { return completed_ > message; }
  const std::string& failure() const { return failure_; }
  const std::optional<fabric::MappedMemory>& mapped_memory() const { return mapped_; }

 private:
  std::optional<fabric::MappedMemory> mapped_;
  Rendezvous& meet_;
  std::span<std::byte> memory_;
  const Options& options_;
  std::optional<group::MemoryStore> store_;
  // The number of messages that this member has mapped. If more messages than these are stable, it is the
  // number of stable messages.
  std::uint64_t seen_ = 0;
  std::uint64_t completed_ = 0, stable_ = 0;
  std::string failure_;
};

/// One sender's message at one member. It has a group whose root is member `root`, and memory for the
/// message.
class Part {
 public:
  static Result<std::unique_ptr<Part>> make(Member& member, group::Peers& peers, std::uint32_t root) {
    const Options& options = member.options();
    auto arena = member.fabric().make_arena(options.size_bytes);
    if (!arena) return std::unexpected(arena.error());
    std::unique_ptr<Part> part(new Part(member, root, std::move(*arena)));
    group::GroupConfig config{.name = {.number = root},
                              .rank = Rank{part->rank()},
                              .algorithm = options.algorithm,
                              .racks = options.racks,
                              .block_bytes = options.block_bytes,
                              .max_writes_in_flight = options.writes_in_flight};
    config.members = first_peers(options.members);
    std::ranges::rotate(config.members, config.members.begin() + root);
    part->is_small_ = options.size_bytes <= config.small_bytes;
    config.confirms = part->is_small_ || options.until_stable || options.read_only;
    config.read_only = options.read_only;
    auto group = group::Group::create(peers, config, part->recorder_);
    if (!group) return std::unexpected(group.error());
    part->group_ = std::move(*group);
    return part;
  }

  bool is_root() const { return rank() == 0; }
  Result<void> send() {
    if (member_.options().read_only && !is_small_) return show();
    const auto sent = is_small_ ? group_->send_small(message())
                                : group_->send(recorder_.root_store(message().size()), message().size());
    return sent ? Result<void>{} : std::unexpected(sent.error());
  }
  /// Maps a message. Before the first message, some members may still have to introduce themselves to each
  /// other.
  Result<void> show() {
    const Time latest = monotonic_now() + seconds(5);
    bool shown = false;
    member_.run_until([&] {
      shown = group_->try_show(message()).has_value();
      return shown || monotonic_now() >= latest;
    });
    return shown ? Result<void>{}
                 : fail(Errc::unsupported, "--read-only: not all members can see the root's memory");
  }
  void stamp(std::uint32_t iteration) { perf::stamp(member_, message(), iteration, root_); }
  bool is_over(std::uint32_t iteration) const { return recorder_.is_over(iteration) || has_failed(); }
  bool is_intact() { return is_root() || matches_digest(member_, received(), root_); }
  /// Gives a mapped message back, so that the root's memory belongs to the root again. The time of this is
  /// not measured.
  void release(std::uint32_t iteration) {
    if (recorder_.mapped_memory()) group_->release_mapped(iteration);
  }
  bool is_free(std::uint32_t iteration) const { return recorder_.is_free(iteration) || has_failed(); }
  bool has_failed() const { return !recorder_.failure().empty(); }
  const std::string& failure() const { return recorder_.failure(); }
  const group::GroupCounters& counters() const { return group_->counters(); }
  /// Returns the neighbours by their ranks in the run.
  std::vector<Rank> neighbours() const {
    std::vector<Rank> members;
    for (const Rank rank : group_->neighbours())
      members.push_back(Rank{(value_of(rank) + root_) % member_.options().members});
    return members;
  }

 private:
  Part(Member& member, std::uint32_t root, memory::Arena arena)
      : member_(member),
        root_(root),
        arena_(std::move(arena)),
        recorder_(member.meet(), arena_.bytes(), member.options()) {}

  std::uint32_t rank() const {
    return (member_.rank() + member_.options().members - root_) % member_.options().members;
  }
  std::span<const std::byte> received() {
    return recorder_.mapped_memory() ? recorder_.mapped_memory()->bytes
                                     : std::span<const std::byte>(message());
  }
  std::span<std::byte> message() { return arena_.bytes().first(member_.options().size_bytes); }

  Member& member_;
  std::uint32_t root_;
  memory::Arena arena_;
  Recorder recorder_;
  std::unique_ptr<group::Group> group_;
  bool is_small_ = false;
};

using Parts = std::vector<std::unique_ptr<Part>>;

bool has_failed(const Parts& parts) {
  return std::ranges::any_of(parts, [](const auto& part) { return part->has_failed(); });
}

Result<void> stopped(const Parts& parts) {
  for (const auto& part : parts)
    if (part->has_failed()) return fail(Errc::peer_failed, part->failure());
  return fail(Errc::peer_failed, "another member failed");
}

Result<void> connect_all(Member& member, group::Peers& peers, const Parts& parts) {
  std::set<Rank> neighbours;
  for (const auto& part : parts)
    for (const Rank rank : part->neighbours()) neighbours.insert(rank);
  return connect(member, peers, std::vector<Rank>(neighbours.begin(), neighbours.end()));
}

Result<void> iterate(Member& member, Parts& parts, std::uint32_t iteration) {
  const bool timed = iteration >= kWarmUpIterations;
  for (const auto& part : parts)
    if (part->is_root()) part->stamp(iteration);
  if (!member.barrier()) return stopped(parts);
  if (timed) member.start_account();
  for (const auto& part : parts) {
    if (!part->is_root()) continue;
    record_start(member.meet(), iteration);
    if (auto sent = part->send(); !sent) return sent;
  }
  const auto over = [&] {
    return std::ranges::all_of(parts, [&](const auto& part) { return part->is_over(iteration); });
  };
  if (!member.run_until(over) || has_failed(parts)) return stopped(parts);
  if (timed) member.end_account();
  for (const auto& part : parts)
    if (!part->is_intact()) return fail(Errc::corrupt, "the received bytes differ from the sent ones");
  for (const auto& part : parts) part->release(iteration);
  const auto free = [&] {
    return std::ranges::all_of(parts, [&](const auto& part) { return part->is_free(iteration); });
  };
  if (!member.run_until(free) || has_failed(parts)) return stopped(parts);
  return member.barrier() ? Result<void>{} : stopped(parts);
}

}  // namespace

Result<void> run_bcast(Member& member) {
  const Options& options = member.options();
  group::PeersConfig links;
  links.link.queue_pair.path_mtu = options.path_mtu;
  links.link.queue_pair.selective_repeat = options.selective_repeat;
  group::Peers peers(member.fabric(), links);
  Parts parts;
  for (std::uint32_t root = 0; root < options.senders; ++root) {
    auto part = Part::make(member, peers, root);
    if (!part) return std::unexpected(part.error());
    parts.push_back(std::move(*part));
  }
  if (auto connected = connect_all(member, peers, parts); !connected) return connected;
  if (!member.barrier()) return stopped(parts);  // All members are connected before any member sends.
  member.engine().add(peers);
  for (std::uint32_t i = 0; i < kWarmUpIterations + options.iterations; ++i)
    if (auto done = iterate(member, parts, i); !done) return done;
  MemberFigures& figures = member.meet().figures[member.rank()];
  for (const auto& part : parts) {
    figures.bytes_copied += part->counters().bytes_copied;
    figures.first_blocks_in_place += part->counters().first_blocks_in_place;
    figures.first_blocks_copied += part->counters().first_blocks_copied;
  }
  figures.path_mtu = options.path_mtu == 0 ? member.fabric().info().path_mtu
                                           : std::min(options.path_mtu, member.fabric().info().path_mtu);
  // No member may end while a neighbour may still need an acknowledgement again. So all members wait here.
  member.barrier();
  member.engine().remove(peers);
  return {};
}

}  // namespace rdmc::perf
