// Fuzzes a software fabric with any datagrams in any order, to queue pairs of every kind. Most datagrams have
// a correct ICRC or seal. Meanwhile the local application posts, waits, registers, revokes and destroys queue
// pairs. Besides crashes, the target checks that:
// - only bytes change that are granted at that moment,
// - only bytes leave that were granted or posted,
// - sent packets can be parsed,
// - every datagram is counted by the counter for its result,
// - every work request completes at most once,
// - one turn sends no more than the windows permit.
#include <memory>
#include <optional>

#include "dataplane/base/random.hpp"
#include "dataplane/fabric/management_queue_pair.hpp"
#include "dataplane/fabric/software_fabric.hpp"
#include "tests/fuzz/peer.hpp"
#include "tests/fuzz/play.hpp"

using namespace rdmc;
using namespace rdmc::fuzz;

namespace {

constexpr std::size_t kSource = 0;  // All sent bytes come from this slot.
constexpr std::uint64_t kMostSentInATurn = 2048;
const Address kOurs = Address::ipv4(10, 0, 0, 1, 4791);

/// The number of queue pairs. There is one of each kind: connected to a foreign endpoint, to an endpoint of
/// rdmc, and to an endpoint of rdmc in standard mode. A fabric that encrypts has no foreign endpoints.
constexpr std::size_t kEnds = 3;

class Play {
 public:
  explicit Play(std::uint8_t choice)
      : same_host_((choice & 1) != 0),
        encrypts_((choice & 8) != 0),
        port_(memory_, kOurs, same_host_, encrypts_),
        fabric_(port_, {.entropy = [this] { return static_cast<std::uint32_t>(random_.next()); },
                        .host_id = same_host_ ? 7U : 0U,
                        .congestion_control = (choice & 2) != 0,
                        .encrypt = encrypts_}) {
    memory_.grant(kSource, 0, GuardedMemory::kSlotBytes);
    for (std::uint32_t i = 0; i < kEnds; ++i) {
      ends_.push_back({.peer = Peer(Address::ipv4(10, 0, 0, static_cast<std::uint8_t>(2 + i), 4791),
                                    {.qpn = Qpn{17 + i},
                                     .foreign = i == 0 && !encrypts_,
                                     .selective_repeat = i == 1,
                                     .host_id = same_host_ && i != 0 ? 7U : 0U,
                                     .icrc_optional = (choice & 4) != 0,
                                     .encrypts = encrypts_})});
      connect(ends_.back());
    }
    port_.on_sent = [this](const roce::Packet& packet) {
      for (End& end : ends_) end.peer.on_sent(packet);
    };
  }

  void step(Input& input) {
    const std::uint8_t what = input.next();
    End& end = ends_[(what >> 4 & 3) % kEnds];
    switch (what & 15) {
      case 0:
      case 1:
      case 2: port_.deliver(end.peer.packet(input, targets())); break;
      case 3:
      case 4:
        for (auto& arrival : end.peer.message(input, targets())) port_.deliver(std::move(arrival));
        break;
      case 5: deliver_raw(input); break;
      case 6:
      case 7: post(input, end); break;
      case 8: now_ = now_ + microseconds(std::int64_t{input.next()} << (what >> 4)); break;
      case 9: now_ = std::max(now_, std::min(fabric_.next_deadline(), now_ + seconds(1))); break;
      case 10: poll(end); break;
      case 11: register_region(input); break;
      case 12: end_region(input.next()); break;
      case 13: port_.room = what >= 0x80 ? SIZE_MAX : input.next() & 3; break;
      case 14: deliver_management(input); break;
      default:
        if (what < 0x40) return reconnect(end);
        if (!regions_.empty())
          end.queue_pair->expect_write(regions_[0].region->remote_key(), 0, 4U * input.next());
        return;
    }
    // Without a turn, the datagram arrives together with the next one.
    if (what < 0x80 || (what & 15) > 5) turn();
  }

  void finish() {
    turn();
    for (End& end : ends_) destroy(end);
    turn();
    regions_.clear();
    memory_.check();
  }

 private:
  struct End {
    Peer peer;
    std::unique_ptr<fabric::QueuePair> queue_pair;
    std::array<bool, GuardedMemory::kSlots> slots{};  // The slots of this queue pair's receives and READs.
    std::uint64_t posted = 0, completed = 0;
  };
  struct Region {
    std::size_t slot;
    std::unique_ptr<fabric::MemoryRegion> region;
    std::uint32_t bytes;
  };

  void connect(End& end) {
    const bool selective = &end == &ends_[1];
    end.queue_pair = std::move(*fabric_.create_queue_pair({.send_depth = 8,
                                                           .receive_depth = 4,
                                                           .max_rd_atomic = 2,
                                                           .selective_repeat = selective,
                                                           .path_mtu = kPathMtu}));
    const auto ours = *fabric::decode_connection(end.queue_pair->local_blob());
    require(end.queue_pair->connect(fabric::encode(end.peer.info())).has_value());
    end.peer.meet(ours, port_.flow_of(ours.bulk_port));
  }
  /// Destroys the queue pair. After this, all memory that was posted to it belongs to the application.
  void destroy(End& end) {
    end.queue_pair.reset();
    for (std::size_t slot = 0; slot < end.slots.size(); ++slot)
      if (end.slots[slot]) memory_.revoke(slot);
    end.slots = {};
    end.posted = end.completed = 0;
  }
  void reconnect(End& end) {
    destroy(end);
    connect(end);
  }

  std::vector<Target> targets() const {
    std::vector<Target> targets;
    for (const Region& region : regions_) targets.push_back({region.region->remote_key(), region.bytes});
    return targets;
  }
  void register_region(Input& input) {
    const std::size_t slot = memory_.find_free();
    if (slot == GuardedMemory::kSlots || regions_.size() == 4) return;
    const std::uint8_t how = input.next();
    const auto access = static_cast<RemoteAccess>(how & 15);
    const auto bytes = static_cast<std::uint32_t>(GuardedMemory::kSlotBytes - (how >> 5));
    const bool writable = permits(access, RemoteAccess::write) || permits(access, RemoteAccess::atomic);
    memory_.grant(slot, writable ? bytes : 0, permits(access, RemoteAccess::read) ? bytes : 0);
    const auto use = (how & 16) != 0 ? fabric::MemoryUse::relayed : fabric::MemoryUse::general;
    regions_.push_back({slot, *fabric_.register_memory(memory_.slot(slot, bytes), use, access), bytes});
  }
  void end_region(std::size_t which) {
    if (which >= regions_.size()) return;
    regions_[which].region.reset();
    memory_.revoke(regions_[which].slot);
    regions_.erase(regions_.begin() + static_cast<std::ptrdiff_t>(which));
  }
  /// A peer has invalidated its remote key, and the local application knows this.
  void freeze_region(RemoteKey key) {
    for (const Region& region : regions_) {
      if (region.region->remote_key() != key) continue;
      memory_.revoke(region.slot);
      memory_.grant(region.slot, 0, 0);
    }
  }

  void post(Input& input, End& end) {
    const std::uint8_t what = input.next();
    const std::size_t bytes = std::size_t{input.next()} * 4;
    fabric::QueuePair& queue_pair = *end.queue_pair;
    const auto source = memory_.slot(kSource, bytes);
    const std::optional<std::uint32_t> immediate = (what & 8) != 0 ? std::optional(9U) : std::nullopt;
    Result<void> posted;
    switch (what & 7) {
      case 0:
      case 1:
      case 2: {
        const std::size_t slot = memory_.find_free();
        if (slot == GuardedMemory::kSlots) return;
        const bool read = (what & 7) == 2;
        memory_.grant(slot, bytes, 0);
        posted = read ? queue_pair.post_read({.work_id = slot, .bytes = memory_.slot(slot, bytes)})
                      : queue_pair.post_receive({.work_id = slot, .bytes = memory_.slot(slot, bytes)});
        end.slots[slot] = posted.has_value();
        if (!posted) memory_.revoke(slot);
        break;
      }
      case 3: posted = queue_pair.post_send({.bytes = source, .immediate = immediate}); break;
      case 4: posted = queue_pair.post_send({.bytes = source, .invalidate = RemoteKey{3}}); break;
      case 5: posted = queue_pair.post_atomic({.kind = fabric::AtomicRequest::Kind::compare_swap}); break;
      case 6: posted = queue_pair.post_atomic({.swap_or_add = 1}); break;
      default: posted = queue_pair.post_write({.bytes = source, .immediate = immediate}); break;
    }
    if (posted) ++end.posted;
  }
  void poll(End& end) {
    std::array<fabric::Completion, 4> some;
    while (const std::size_t count = end.queue_pair->poll_completions(some)) {
      for (const fabric::Completion& done : std::span(some).first(count)) {
        using fabric::WorkKind;
        ++end.completed;
        const bool receive = done.kind == WorkKind::receive || done.kind == WorkKind::receive_write_immediate;
        if (done.invalidated) freeze_region(*done.invalidated);
        if (!receive && done.kind != WorkKind::read) continue;
        const auto slot = static_cast<std::size_t>(done.work_id);
        require(end.slots[slot]);
        end.slots[slot] = false;
        memory_.revoke(slot);
      }
    }
    require(end.completed <= end.posted);
  }

  void deliver_raw(Input& input) {
    const auto taken = input.take(input.next());
    WatchedPort::Arrival arrival{.source = kOurs};
    arrival.bytes.assign(taken.begin(), taken.end());
    arrival.segment_bytes = input.next();
    port_.deliver(std::move(arrival));
  }
  void deliver_management(Input& input) {
    std::array<std::byte, roce::kManagementHeaderBytes> header;
    roce::write_management(header.data(), Psn(input.next()));
    const std::vector<std::byte> mad(roce::kMadBytes, static_cast<std::byte>(input.next()));
    std::vector<std::byte> bytes(header.begin(), header.end());
    bytes.insert(bytes.end(), mad.begin(), mad.end());
    const Address peer = Address::ipv4(10, 0, 0, 9, 4791);
    const std::uint32_t icrc =
        roce::Icrc(peer, kOurs).compute(0, bytes.size() + roce::kIcrcBytes, header, mad, 0);
    bytes.resize(bytes.size() + roce::kIcrcBytes);
    roce::store_icrc(&bytes[bytes.size() - roce::kIcrcBytes], icrc);
    const std::uint8_t odd = input.next();
    if (odd < bytes.size()) bytes[odd] ^= static_cast<std::byte>(1 << (input.next() & 7));
    port_.deliver(
        {.source = peer, .bytes = bytes, .segment_bytes = static_cast<std::uint32_t>(bytes.size())});
  }

  void turn() {
    const std::uint64_t sent = port_.taken_to_send;
    do fabric_.progress(now_);
    while (port_.has_waiting());
    require(port_.taken_to_send - sent <= kMostSentInATurn);
    for (fabric::ManagementDatagram out; management_.poll(out);) continue;
    memory_.check();
    const auto& counters = fabric_.counters();
    std::uint64_t ended = counters.icrc_errors + counters.forged + counters.stale +
                          counters.unknown_queue_pair + counters.wrong_source +
                          counters.management_datagrams + counters.management_overflow +
                          fabric_.connection_counters().packets_received;
    for (const std::uint64_t errors : counters.parse_errors) ended += errors;
    require(ended == port_.delivered);
  }

  const bool same_host_, encrypts_;
  Random random_{1};
  Time now_ = Time{} + seconds(1);
  GuardedMemory memory_;
  WatchedPort port_;
  fabric::SoftwareFabric fabric_;
  fabric::ManagementQueuePair management_{fabric_};
  std::vector<Region> regions_;
  std::vector<End> ends_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return play<Play>(data, size);
}
