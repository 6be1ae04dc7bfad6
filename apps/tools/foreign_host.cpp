#include "apps/tools/foreign_host.hpp"

#include <algorithm>

#include "dataplane/base/clock.hpp"
#include "dataplane/port/rdma_devices.hpp"
#include "dataplane/roce/headers.hpp"

namespace rdmc::tools {
namespace {

/// The longest wait before a retransmission. The measured round trip makes retransmissions begin much sooner.
/// This limit decides after how long a silence the peer is given up. It is long, because the peer may be an
/// emulated machine that stops for a second.
constexpr Duration kAckTimeout = seconds(1);
/// The program's timeout divided by this number is the upper limit of the acknowledgement timeout. A queue
/// pair gives up its peer after eight such timeouts. So the queue pair reports the error before the program
/// times out.
constexpr std::int64_t kAckTimeoutsOfPatience = 10;
/// A NIC does not measure the round trip. It retransmits after this time.
constexpr Duration kNicAckTimeout = milliseconds(100);
/// The limit of payload in flight. It is larger than the limit that the core itself has in standard mode (128
/// packets of 4096 bytes).
constexpr std::uint32_t kWindowBytes = 1 << 20;

/// Returns a remedy for the error that port 4791 of `address` is already in use.
std::string remedy_for_taken_port(const Address& address) {
  const std::string why =
      ". A peer that is not ours sends to no other port: use another address of this host, ";
  if (port::rdma_device_at(address)) return why + "or that device (--fabric verbs)";
  return why + "or end what has it (ss -aunp 'sport = :4791' names a program)";
}

}  // namespace

Result<std::unique_ptr<ForeignHost>> ForeignHost::open(Address address, const ForeignOptions& options) {
  auto random = control::SystemRandom::open();
  if (!random) return std::unexpected(random.error());
  std::unique_ptr<ForeignHost> host(new ForeignHost(*random, options));
  address.port = kRocePort;
  auto opened = fabric::open_fabric(options.fabric,
                                    {.address = address, .device = options.device, .dscp = options.dscp},
                                    {.entropy = [random = host->random_] { return random.next32(); }});
  if (!opened && opened.error().code == Errc::already_exists)
    return fail(Errc::already_exists, opened.error().what + remedy_for_taken_port(address));
  if (!opened) return std::unexpected(opened.error());
  host->opened_ = std::move(*opened);
  host->poller_ = std::make_unique<fabric::FabricPoller>(host->fabric());
  host->engine_ = std::make_unique<engine::Engine>(
      *host->poller_, options.sleep ? engine::IdleStrategy{.spin = {}} : engine::IdleStrategy{});
  host->engine_->add(*host->poller_);
  return host;
}

Result<ForeignHost::End> ForeignHost::create(std::uint32_t path_mtu, std::uint32_t receive_depth,
                                             std::uint8_t reads_at_once) {
  auto queue_pair = fabric().create_queue_pair(
      {.receive_depth = receive_depth,
       .ack_timeout =
           std::min(software() == nullptr ? kNicAckTimeout : kAckTimeout, patience_ / kAckTimeoutsOfPatience),
       .max_rd_atomic = reads_at_once,
       .selective_repeat = false,
       .path_mtu = path_mtu});
  if (!queue_pair) return std::unexpected(queue_pair.error());
  const auto info = fabric::decode_connection((*queue_pair)->local_blob());
  if (!info) return std::unexpected(info.error());
  if (info->path_mtu != path_mtu)
    return fail(Errc::unsupported, "a path MTU of " + std::to_string(path_mtu) +
                                       " bytes; the interface carries " + std::to_string(info->path_mtu));
  return End{std::move(*queue_pair), *info};
}

Result<void> ForeignHost::connect(End& end, const Peer& peer) {
  Address shared = peer.address;
  shared.port = kRocePort;
  return end.queue_pair->connect(fabric::encode({.shared = shared,
                                                 .bulk_port = kRocePort,
                                                 .qpn = peer.qpn,
                                                 .first_psn = peer.first_psn,
                                                 .path_mtu = end.info.path_mtu,
                                                 .receive_window = kWindowBytes,
                                                 .foreign = true,
                                                 .psn_for_other = peer.psn_for_other,
                                                 .max_rd_atomic = peer.reads_at_once}));
}

WireCounters ForeignHost::wire() const {
  if (opened_.software == nullptr) return {};
  const auto& counters = opened_.software->counters();
  return {.connections = opened_.software->connection_counters(),
          .corrupt_packets = counters.icrc_errors,
          .stray_packets = counters.unknown_queue_pair + counters.wrong_source};
}

bool ForeignHost::run_until(const std::function<bool()>& done, Time deadline) {
  while (!done()) {
    const Time now = monotonic_now();
    if (now >= deadline) return false;
    engine_->turn(deadline - now);
  }
  return true;
}

}  // namespace rdmc::tools
