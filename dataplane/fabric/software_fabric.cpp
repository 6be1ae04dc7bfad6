#include "dataplane/fabric/software_fabric.hpp"

#include <algorithm>
#include <cassert>
#include <limits>

#include "dataplane/base/bytes.hpp"
#include "dataplane/fabric/software_queue_pair.hpp"

namespace rdmc::fabric {
namespace {

constexpr std::size_t kScatterScratchBytes = 64 * 1024;
/// The initial size of linear_. With big TCP/UDP on IPv6, a GRO train may be larger than one IP packet.
constexpr std::size_t kLargestTrain = 256 * 1024;

/// The maximum number of work requests of one queue pair. Each of them costs a few tens of bytes as soon as
/// the queue pair exists.
constexpr std::uint32_t kMaxDepth = 1 << 16;

/// The smallest window of queue pairs that share a flow, in bytes (one train). Queue pairs that share a flow
/// divide its receive buffer among themselves, but no window becomes smaller than this. If the whole buffer
/// is smaller, each window is as large as the buffer.
constexpr std::uint32_t kLeastSharedWindow = 64 * 1024;

/// The time after which the fabric tries a full port again. The fabric must try again by itself, because a
/// full port gives no signal when it has space again. The time is so short that the queue of a full udp port
/// (port/egress_limit.hpp) does not become empty before the next attempt.
constexpr Duration kFullPortPause = microseconds(200);

}  // namespace

class SoftwareFabric::Region final : public MemoryRegion {
 public:
  Region(SoftwareFabric& fabric, RemoteKey key, std::span<std::byte> memory)
      : fabric_(fabric), key_(key), memory_(memory) {}
  ~Region() override { fabric_.revoke(key_, memory_); }
  RemoteKey remote_key() const noexcept override { return key_; }
  std::uint64_t remote_address() const noexcept override { return 0; }

 private:
  SoftwareFabric& fabric_;
  RemoteKey key_;
  std::span<std::byte> memory_;
};

std::uint32_t path_mtu_for(std::uint32_t mtu, bool ipv6, std::uint32_t train_bytes,
                           std::size_t trailer_bytes) {
  constexpr std::uint32_t kUdpHeader = 8;
  const auto ours = static_cast<std::uint32_t>(roce::kXWriteHeaderBytes + trailer_bytes);
  const std::uint32_t outer = (ipv6 ? 40U : 20U) + kUdpHeader;
  if (mtu < outer + ours + 256) return 0;
  const std::uint32_t room = std::min(mtu - outer, train_bytes) - ours;
  constexpr std::uint32_t kPage = 4096;
  return room % kPage * 16 <= room ? room / kPage * kPage : room / 8 * 8;
}

SoftwareFabric::SoftwareFabric(port::Port& port, SoftwareFabricOptions options)
    : port_(port),
      options_(std::move(options)),
      trailer_bytes_(options_.encrypt ? crypto::kSealBytes : roce::kIcrcBytes),
      path_mtu_(
          path_mtu_for(port.info().mtu, port.info().address.ipv6, port.info().train_bytes, trailer_bytes_)),
      flows_(1),
      batch_(options_.encrypt ? std::max<std::size_t>(kBytesPerTurn, port.info().train_bytes) : 0),
      scatter_scratch_(kScatterScratchBytes),
      linear_(kLargestTrain) {}

SoftwareFabric::~SoftwareFabric() {
  assert(queue_pairs_.empty());
}

FabricInfo SoftwareFabric::info() const {
  return {.name = port_.info().driver,
          .path_mtu = path_mtu_,
          .icrc = !options_.encrypt && !icrc_optional(),
          .encrypted = options_.encrypt,
          .carrier_copies_per_byte = 2};
}

bool SoftwareFabric::icrc_optional() const {
  return port_.info().same_host_only && options_.host_id != 0 && !options_.icrc_on_loopback;
}

std::uint32_t SoftwareFabric::fresh_number() {
  return options_.entropy();
}

Result<std::unique_ptr<QueuePair>> SoftwareFabric::create_queue_pair(const QueuePairOptions& options) {
  const port::PortInfo& port = port_.info();
  if (options.send_depth == 0 || options.send_depth > kMaxDepth || options.receive_depth == 0 ||
      options.receive_depth > kMaxDepth || options.max_rd_atomic == 0) {
    return fail(Errc::invalid_argument, "a queue pair's depths lie between 1 and " +
                                            std::to_string(kMaxDepth) + ", max_rd_atomic between 1 and 255");
  }
  const std::uint32_t wanted = options.path_mtu == 0 ? path_mtu_ : std::min(options.path_mtu, path_mtu_);
  // The MTU is a multiple of 4, so that only the last packet of a message is padded.
  const std::uint32_t mtu = wanted / 4 * 4;
  if (mtu < 256)
    return fail(Errc::unsupported, "the interface's MTU is too small for RoCE: " + std::to_string(port.mtu));
  const TransmitScheduler::Slot slot = make_slot();
  const auto flow = take_flow(options.bulk);
  if (!flow) return std::unexpected(flow.error());
  const std::uint32_t sharing = std::max(flows_[value_of(*flow)].queue_pairs, 1U);
  std::uint32_t qpn = 0;
  do qpn = fresh_number() & Psn::kMask;
  while (qpn < 2 || queue_pairs_.contains(qpn));
  ConnectionInfo local{.shared = port.address,
                       .bulk_port = port_.udp_port(*flow),
                       .qpn = Qpn{qpn},
                       .first_psn = Psn(fresh_number()),
                       .path_mtu = mtu,
                       .receive_window = std::max(port.receive_buffer_bytes / sharing,
                                                  std::min(port.receive_buffer_bytes, kLeastSharedWindow)),
                       .selective_repeat = options.selective_repeat,
                       .icrc_optional = icrc_optional(),
                       .single_datagrams = port.loses_uncut_trains,
                       .max_rd_atomic = options.max_rd_atomic,
                       .host_id = options_.host_id};
  if (options_.encrypt) {
    local.key_share.emplace();
    for (std::size_t at = 0; at < local.key_share->size(); at += 4)
      store_be(&(*local.key_share)[at], fresh_number());
  }
  std::unique_ptr<SoftwareQueuePair> queue_pair;
  try {
    queue_pairs_.emplace(qpn, nullptr);
    queue_pair =
        std::make_unique<SoftwareQueuePair>(*this, options, local, *flow, slot, KeyHolder{next_holder_++});
  } catch (...) {
    queue_pairs_.erase(qpn);
    give_back_flow(*flow);
    throw;
  }
  queue_pairs_[qpn] = queue_pair.get();
  slots_[slot] = queue_pair.get();
  if (options.bulk && flows_[value_of(*flow)].newest == nullptr)
    flows_[value_of(*flow)].newest = queue_pair.get();
  return queue_pair;
}

/// Chooses the flow of a new queue pair. Opens another flow if the limit permits it and the port has one.
/// Otherwise chooses the flow with the fewest queue pairs.
Result<port::FlowId> SoftwareFabric::take_flow(bool bulk) {
  if (!bulk) return port::kSharedFlow;
  const auto in_use = [](const Flow& flow) { return flow.queue_pairs > 0; };
  const auto open = std::ranges::count_if(flows_, in_use);
  if (open < std::max(options_.bulk_flows, 1U)) {
    const auto opened = port_.open_flow();
    if (opened) {
      if (flows_.size() <= value_of(*opened)) flows_.resize(value_of(*opened) + 1);
      flows_[value_of(*opened)] = {.queue_pairs = 1};
    }
    if (opened || open == 0) return opened;
  }
  const auto fewest = std::ranges::min_element(flows_, {}, [&](const Flow& flow) {
    return in_use(flow) ? flow.queue_pairs : std::numeric_limits<std::uint32_t>::max();
  });
  ++fewest->queue_pairs;
  fewest->was_shared = true;
  return port::FlowId{static_cast<std::uint32_t>(fewest - flows_.begin())};
}

void SoftwareFabric::give_back_flow(port::FlowId flow) {
  if (flow != port::kSharedFlow && --flows_[value_of(flow)].queue_pairs == 0) port_.close_flow(flow);
}

/// Returns a free slot. Also reserves memory for all lists, so that a turn allocates nothing.
TransmitScheduler::Slot SoftwareFabric::make_slot() {
  auto free = std::ranges::find(slots_, nullptr);
  if (free == slots_.end()) free = slots_.insert(free, nullptr);
  scheduler_.reserve(slots_.size());
  touched_.reserve(slots_.capacity());
  planned_.reserve(slots_.capacity());
  return static_cast<TransmitScheduler::Slot>(free - slots_.begin());
}

void SoftwareFabric::forget(SoftwareQueuePair& queue_pair) {
  if (queue_pair.connected_) {
    closed_connections_ += queue_pair.connected_->connection.counters();
    batch_.drop(queue_pair.connected_->transmit);
  }
  std::erase(touched_, &queue_pair);
  std::erase(planned_, &queue_pair);
  scheduler_.remove(queue_pair.slot_);
  slots_[queue_pair.slot_] = nullptr;
  queue_pairs_.erase(value_of(queue_pair.local_.qpn));
  if (newest_on(queue_pair.flow_) == &queue_pair) flows_[value_of(queue_pair.flow_)].newest = nullptr;
  give_back_flow(queue_pair.flow_);
}

Result<std::unique_ptr<MemoryRegion>> SoftwareFabric::register_memory(std::span<std::byte> memory,
                                                                      MemoryUse use, RemoteAccess access) {
  return register_for(KeyHolder::anyone, memory, use, access);
}

Result<std::unique_ptr<MemoryRegion>> SoftwareFabric::register_for(KeyHolder holder,
                                                                   std::span<std::byte> memory, MemoryUse use,
                                                                   RemoteAccess access) {
  RemoteKey key;
  do key = RemoteKey{fresh_number()};
  while (!regions_.add(key, 0, memory, access, holder));
  if (use == MemoryUse::relayed && !options_.encrypt) arrived_.add_region(memory);
  return std::make_unique<Region>(*this, key, memory);
}

void SoftwareFabric::revoke(RemoteKey key, std::span<std::byte> memory) {
  regions_.revoke(key);
  batch_.drop(memory);  // Drops READ responses that the port had no space for.
  arrived_.remove_region(memory);
}

roce::ConnectionCounters SoftwareFabric::connection_counters() const {
  roce::ConnectionCounters sum = closed_connections_;
  for (const SoftwareQueuePair* queue_pair : slots_) {
    if (queue_pair != nullptr && queue_pair->connected_) sum += queue_pair->connected_->connection.counters();
  }
  return sum;
}

std::size_t SoftwareFabric::progress(Time now) {
  last_progress_ = now;
  const std::size_t sent = transmit(now);
  const std::size_t received = receive(now);
  // The timers run after receive(). If this process got no CPU for a while, packets may wait in the port, and
  // these packets must not count as lost.
  run_timers(now);
  // Answers normally wait for the next call, because the caller may post something that can leave together
  // with them. An answer that ends the connection is sent now. The caller may end too, and then the peer
  // would never learn the cause.
  const bool refused = std::ranges::any_of(scheduler_.marked(), [this](TransmitScheduler::Slot slot) {
    return slots_[slot]->connected_->connection.failed();
  });
  return received + sent + (refused ? transmit(now) : 0);
}

Time SoftwareFabric::next_deadline() const {
  if (!batch_.empty()) return last_progress_ + kFullPortPause;
  // If the scheduler is not idle, there is something to send at once.
  return scheduler_.is_idle() ? scheduler_.earliest_deadline() : last_progress_;
}

}  // namespace rdmc::fabric
