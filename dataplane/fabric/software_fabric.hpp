// The software provider: RC queue pairs whose protocol runs in this process (dataplane/roce), above a port.
// It groups the packets of a connection into trains and writes their ICRCs, which cover the IP headers that
// the port will send. It plans where received payload is placed and checks the received packets. It copies
// payload that was not received where it belongs. One thread owns the fabric and everything made from it. The
// fabric must outlive its queue pairs and memory regions.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "dataplane/fabric/arrived_checksums.hpp"
#include "dataplane/fabric/queue_pair.hpp"
#include "dataplane/fabric/transmit_batch.hpp"
#include "dataplane/fabric/transmit_scheduler.hpp"
#include "dataplane/port/port.hpp"
#include "dataplane/roce/headers.hpp"
#include "dataplane/roce/region_table.hpp"

namespace rdmc::fabric {

class ManagementQueuePair;
class SoftwareQueuePair;

struct SoftwareFabricOptions {
  /// Returns unguessable 32-bit numbers for QPNs, first PSNs and remote keys. They come from the operating
  /// system's generator, or from a seeded generator in the simulator.
  std::function<std::uint32_t()> entropy;
  /// See host_identity(). 0 means that no other process shares the network stack of this process.
  std::uint64_t host_id = 0;
  /// True if congestion control is offered to peers on other hosts.
  bool congestion_control = true;
  /// True if packets between two endpoints on one loopback interface also have an ICRC. On such an interface,
  /// the kernel only moves packets in memory.
  bool icrc_on_loopback = false;
  /// The maximum number of flows for bulk data, in addition to the shared flow; at least 1. If there are more
  /// queue pairs, they share these flows. The default is the number of neighbours of a member in a group of
  /// 4,096 members.
  std::uint32_t bulk_flows = 12;
  /// True if every packet is encrypted and authenticated. The connection blobs carry the key shares and must
  /// be kept secret. Such a fabric connects only to fabrics that encrypt too.
  bool encrypt = false;
};

/// Counts the dropped packets by the reason for the drop, and counts how received payload was placed. The
/// counts only grow.
struct SoftwareFabricCounters {
  std::array<std::uint64_t, 6> parse_errors{};  ///< Indexed by roce::ParseError.
  std::uint64_t icrc_errors = 0;
  /// With encryption: packets that were changed on their path, or were not sealed with the connection's key.
  std::uint64_t forged = 0;
  /// With encryption: authentic packets that are so old that they can only be replays.
  std::uint64_t stale = 0;
  /// Packets to a queue pair that does not exist. This includes packets for destroyed queue pairs, such as
  /// those of a fenced member.
  std::uint64_t unknown_queue_pair = 0;
  std::uint64_t wrong_source =
      0;  ///< Packets for an existing queue pair that are not from the address of its peer.
  /// Management datagrams that were kept for the connection manager.
  std::uint64_t management_datagrams = 0;
  /// Management datagrams that were dropped, because the connection manager had not polled earlier ones.
  std::uint64_t management_overflow = 0;
  std::uint64_t packets_in_place = 0;  ///< Packets whose payload was received directly where it belongs.
  /// X_WRITE packets whose payload was received in other memory and had to be copied to where it belongs.
  std::uint64_t packets_repaired = 0;
  std::uint64_t bytes_copied =
      0;  ///< The payload bytes that this process copied, without the kernel's copies.
};

class SoftwareFabric final : public Fabric, private port::ScatterPlanner {
 public:
  SoftwareFabric(port::Port& port, SoftwareFabricOptions options);
  ~SoftwareFabric() override;

  FabricInfo info() const override;
  Result<std::unique_ptr<QueuePair>> create_queue_pair(const QueuePairOptions& options) override;
  Result<std::unique_ptr<MemoryRegion>> register_memory(std::span<std::byte> memory,
                                                        MemoryUse use = MemoryUse::general,
                                                        RemoteAccess access = RemoteAccess::write) override;

  std::size_t progress(Time now) override;
  Time next_deadline() const override;
  void wait(Time deadline) override { port_.wait(deadline); }
  void wake() noexcept override { port_.wake(); }
  Result<std::vector<int>> wait_descriptors() override { return port_.wait_descriptors(); }
  Time prepare_wait(Time deadline) override { return port_.prepare_wait(deadline); }
  std::uint64_t bytes_copied() const override { return counters_.bytes_copied; }

  const SoftwareFabricCounters& counters() const noexcept { return counters_; }
  /// The number of queue pairs that exist now.
  std::size_t queue_pairs() const noexcept { return queue_pairs_.size(); }
  /// Returns the sum of the counters of all queue pairs, including destroyed ones.
  roce::ConnectionCounters connection_counters() const;

 private:
  friend class SoftwareQueuePair;
  friend class ManagementQueuePair;
  class Region;

  /// Registers memory. `holder` is the only connection that may use the key; KeyHolder::anyone permits all
  /// connections.
  Result<std::unique_ptr<MemoryRegion>> register_for(KeyHolder holder, std::span<std::byte> memory,
                                                     MemoryUse use, RemoteAccess access);
  bool icrc_optional() const;

  // Defined in receive.cpp.
  std::size_t plan(port::FlowId flow, std::uint32_t ahead, std::span<iovec> pieces) override;
  std::size_t receive(Time now);
  SoftwareQueuePair* find(Qpn qpn, port::FlowId flow) const;
  SoftwareQueuePair* newest_on(port::FlowId flow) const;
  void note_length(const port::RxTrain& train);
  struct Landed {
    const std::byte* header;
    std::span<const std::byte> payload;
    std::size_t bytes;  // The length of the whole datagram.
  };
  Landed landed(const port::RxTrain& train, std::size_t index) const;
  /// Returns by how many bytes a trailer is longer than an ICRC. The parser expects packets that end in an
  /// ICRC, but a seal is longer.
  std::size_t beyond_icrc() const { return trailer_bytes_ - roce::kIcrcBytes; }
  auto parse(const Landed& at) const {
    return roce::parse_scattered({at.header, roce::kXWriteHeaderBytes}, at.bytes - beyond_icrc(), at.payload);
  }
  std::size_t between_payloads() const { return trailer_bytes_ + roce::kXWriteHeaderBytes; }
  bool is_in_place(const port::RxTrain& train) const;
  void receive_in_place(const port::RxTrain& train, Time now);
  std::span<const std::byte> gather(const port::RxTrain& train, std::size_t& used);
  void receive_gathered(const port::RxTrain& train, std::span<const std::byte> bytes, Time now);
  void receive_packet(const roce::Packet& packet, const std::byte* header_bytes, const port::RxTrain& train,
                      std::size_t datagram_bytes, const std::byte* trailer, Time now);
  void receive_management(std::span<const std::byte> datagram, const Address& source);
  bool is_intact(SoftwareQueuePair& queue_pair, const roce::Packet& packet, std::span<const std::byte> header,
                 const port::RxTrain& train, std::size_t datagram_bytes, const std::byte* trailer,
                 std::optional<std::uint32_t>& payload_crc);
  bool unseal(crypto::PacketOpener& opener, const roce::Packet& packet, std::span<const std::byte> header,
              const std::byte* seal);
  void count(roce::ParseError error) { ++counters_.parse_errors[static_cast<std::size_t>(error)]; }

  // The following functions are defined in transmit.cpp.

  // The maximum number of bytes of payload that leave in one turn. A single train may be larger.
  static constexpr std::size_t kBytesPerTurn = 64 << 10;
  // A turn ends before that, at the end of a work request, if a work request of another queue pair was posted
  // before the next one. So small blocks leave in post order, too. But small messages to several peers still
  // leave in trains: a turn does not end before this number of bytes.
  static constexpr std::size_t kLeastBytesPerTurn = 12 << 10;
  std::size_t transmit(Time now);
  bool transmit_answers(Time now, std::size_t& sent);
  std::size_t transmit_turn(SoftwareQueuePair& queue_pair, Time now);
  void make_ready(SoftwareQueuePair& queue_pair);
  // Returns the number of full X_WRITE packets in the longest train that this fabric makes: at least 1.
  std::uint32_t packets_per_train(std::uint32_t path_mtu) const;
  /// Must be called whenever the state of a connection may have changed, so that its deadline is correct.
  void note_deadline(const SoftwareQueuePair& queue_pair);
  void run_timers(Time now);

  /// One of the port's flows, with the queue pairs whose bulk data arrives on this flow.
  struct Flow {
    std::uint32_t queue_pairs = 0;
    // True if packets of several peers may arrive on this flow. This stays true when only one queue pair is
    // left, because late packets of the other peers may arrive.
    bool was_shared = false;
    // The queue pair of the last packet on this flow. It predicts where the payload of the next packet is
    // placed.
    SoftwareQueuePair* newest = nullptr;
  };
  Result<port::FlowId> take_flow(bool bulk);
  void give_back_flow(port::FlowId flow);
  TransmitScheduler::Slot make_slot();
  void forget(SoftwareQueuePair& queue_pair);
  void revoke(RemoteKey key, std::span<std::byte> memory);
  std::uint32_t fresh_number();

  port::Port& port_;
  SoftwareFabricOptions options_;
  std::size_t trailer_bytes_;  // The number of bytes after payload and pad: an ICRC or a seal.
  std::uint32_t path_mtu_;
  roce::RegionTable regions_;
  ArrivedChecksums arrived_;
  std::unordered_map<std::uint32_t, SoftwareQueuePair*> queue_pairs_;  // The queue pairs by QPN.
  ManagementQueuePair* management_ = nullptr;
  std::vector<Flow> flows_;                // Indexed by FlowId.
  std::vector<SoftwareQueuePair*> slots_;  // All queue pairs, indexed by slot. Null for a free slot.
  TransmitScheduler scheduler_;
  std::uint64_t next_holder_ = 1;            // The KeyHolder of the next queue pair.
  std::vector<SoftwareQueuePair*> touched_;  // Queue pairs that received something in this burst.
  std::vector<SoftwareQueuePair*> planned_;  // Queue pairs that predicted packets in this burst.
  TransmitBatch batch_;
  static constexpr std::size_t kTrainsPerBurst = 32;
  std::array<port::RxTrain, kTrainsPerBurst> trains_;  // The trains of this burst.
  // For each train, all its bytes in one piece; empty if its payload is in place.
  std::array<std::span<const std::byte>, kTrainsPerBurst> gathered_;
  std::vector<std::byte> scatter_scratch_;  // The headers and trailers of trains with a scatter list.
  std::size_t scatter_scratch_used_ = 0;
  // The bytes of trains that are gathered, so that their payload can be copied to where it belongs.
  std::vector<std::byte> linear_;
  Time last_progress_{};
  SoftwareFabricCounters counters_;
  roce::ConnectionCounters closed_connections_;
};

/// Returns the path MTU: the largest payload for which a packet with its headers and a trailer of
/// `trailer_bytes` fits an IP packet of `mtu` bytes and a train of `train_bytes`. The result is rounded down
/// to a number of whole pages if that loses at most a sixteenth, so that packets end where pages end.
/// Otherwise it is rounded down to a multiple of 8. Returns 0 if `mtu` does not allow 256 bytes of payload.
std::uint32_t path_mtu_for(std::uint32_t mtu, bool ipv6, std::uint32_t train_bytes,
                           std::size_t trailer_bytes = roce::kIcrcBytes);

}  // namespace rdmc::fabric
