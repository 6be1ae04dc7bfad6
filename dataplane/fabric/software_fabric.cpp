#include "dataplane/fabric/software_fabric.hpp"

#include <algorithm>
#include <cassert>

#include "dataplane/base/bytes.hpp"
#include "dataplane/fabric/software_queue_pair.hpp"

namespace rdmc::fabric {
namespace {

constexpr std::size_t kLandingScratchBytes = 64 * 1024;
constexpr std::size_t kLargestTrain =
    256 * 1024;  // a GRO train may exceed one IP packet on IPv6 with big TCP/UDP

/// Most work requests of a queue pair; each costs some tens of bytes from its creation on.
constexpr std::uint32_t kMaxDepth = 1 << 16;

/// A port without room tells nobody when it has some again: look this much later, sooner than what the udp
/// port lets wait (port/egress_limit.hpp) has left.
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
      batch_(options_.encrypt ? std::max<std::size_t>(kBytesPerTurn, port.info().train_bytes) : 0),
      landing_scratch_(kLandingScratchBytes),
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
  const std::uint32_t mtu = wanted / 4 * 4;  // so that only a message's last packet is padded
  if (mtu < 256)
    return fail(Errc::unsupported, "the interface's MTU is too small for RoCE: " + std::to_string(port.mtu));
  const auto flow = port_.open_flow();
  if (!flow) return std::unexpected(flow.error());
  std::uint32_t qpn = 0;
  do qpn = fresh_number() & Psn::kMask;
  while (qpn < 2 || queue_pairs_.contains(qpn));
  ConnectionInfo local{.shared = port.address,
                       .bulk_port = port_.udp_port(*flow),
                       .qpn = Qpn{qpn},
                       .first_psn = Psn(fresh_number()),
                       .path_mtu = mtu,
                       .receive_window = port.receive_buffer_bytes,
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
  auto queue_pair =
      std::make_unique<SoftwareQueuePair>(*this, options, local, *flow, KeyHolder{next_holder_++});
  queue_pairs_.emplace(qpn, queue_pair.get());
  const auto index = static_cast<std::size_t>(value_of(*flow));
  if (by_flow_.size() <= index) by_flow_.resize(index + 1);
  by_flow_[index] = queue_pair.get();
  // Room for all at once now: a turn allocates nothing.
  deadlines_.reserve(by_flow_.size());
  due_.reserve(by_flow_.capacity());
  touched_.reserve(by_flow_.capacity());
  planned_.reserve(by_flow_.capacity());
  ready_.reserve(by_flow_.capacity());
  answers_.reserve(by_flow_.capacity());
  return queue_pair;
}

void SoftwareFabric::forget(SoftwareQueuePair& queue_pair) {
  if (queue_pair.connected_) closed_connections_ += queue_pair.connected_->connection.counters();
  batch_.drop(queue_pair.flow_);
  if (std::erase_if(ready_, [&](const Ready& ready) { return ready.queue_pair == &queue_pair; }) != 0)
    std::ranges::make_heap(ready_, std::greater());
  std::erase(answers_, &queue_pair);
  std::erase(touched_, &queue_pair);
  std::erase(planned_, &queue_pair);
  deadlines_.set(value_of(queue_pair.flow_), Time::never());
  queue_pairs_.erase(value_of(queue_pair.local_.qpn));
  by_flow_[static_cast<std::size_t>(value_of(queue_pair.flow_))] = nullptr;
  port_.close_flow(queue_pair.flow_);
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
  batch_.drop(memory);  // READ responses that the port had no room for
  arrived_.remove_region(memory);
}

roce::ConnectionCounters SoftwareFabric::connection_counters() const {
  roce::ConnectionCounters sum = closed_connections_;
  for (const SoftwareQueuePair* queue_pair : by_flow_) {
    if (queue_pair != nullptr && queue_pair->connected_) sum += queue_pair->connected_->connection.counters();
  }
  return sum;
}

std::size_t SoftwareFabric::progress(Time now) {
  last_progress_ = now;
  const std::size_t sent = transmit(now);
  const std::size_t received = receive(now);
  run_timers(now);  // after what has arrived: a process that got no CPU for a while must not take it for lost
  // An answer may wait for what the caller posts to it, but not one that ends the connection: the caller may
  // end, too, and the peer would never learn why.
  const bool refused = std::ranges::any_of(
      answers_, [](const SoftwareQueuePair* one) { return one->connected_->connection.failed(); });
  return received + sent + (refused ? transmit(now) : 0);
}

Time SoftwareFabric::next_deadline() const {
  if (!batch_.empty()) return last_progress_ + kFullPortPause;
  if (!ready_.empty() || !answers_.empty()) return last_progress_;  // posted since
  return deadlines_.earliest();
}

}  // namespace rdmc::fabric
