// The software provider: RC queue pairs whose protocol runs here (dataplane/roce) and whose packets go
// through a Port. It binds the two: groups the packets of a connection into trains, seals them with the ICRC
// that the port's IP headers will make valid, plans where received payload lands, checks and repairs what
// landed elsewhere. One thread owns the fabric and everything made from it; it must outlive its queue pairs
// and memory regions.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "dataplane/fabric/arrived_checksums.hpp"
#include "dataplane/fabric/deadline_heap.hpp"
#include "dataplane/fabric/queue_pair.hpp"
#include "dataplane/fabric/transmit_batch.hpp"
#include "dataplane/port/port.hpp"
#include "dataplane/roce/headers.hpp"
#include "dataplane/roce/region_table.hpp"

namespace rdmc::fabric {

class ManagementQueuePair;
class SoftwareQueuePair;

struct SoftwareFabricOptions {
  /// Unguessable 32-bit numbers for QPNs, first PSNs and remote keys: the operating system's generator, or a
  /// seeded one in the simulator.
  std::function<std::uint32_t()> entropy;
  /// See host_identity(); 0 = share a network stack with nobody.
  std::uint64_t host_id = 0;
  /// Offer congestion control to peers on other hosts.
  bool congestion_control = true;
  /// Between two endpoints on one loopback interface too; the kernel moves those packets in memory.
  bool icrc_on_loopback = false;
  /// Most flows that queue pairs with bulk data have, beside the shared one; at least 1. Further queue pairs
  /// share them. By default as many as a member of a group of 4,096 has neighbours.
  std::uint32_t bulk_flows = 12;
  /// Every packet is encrypted and authenticated, with keys that the blobs carry: they must travel in secret.
  /// Such a fabric connects to its like alone.
  bool encrypt = false;
};

/// Why received bytes were dropped, and what receiving cost. Monotone.
struct SoftwareFabricCounters {
  std::array<std::uint64_t, 6> parse_errors{};  ///< by roce::ParseError
  std::uint64_t icrc_errors = 0;
  std::uint64_t forged = 0;  ///< of an encrypting fabric: not sealed with the connection's key, or changed
  std::uint64_t stale = 0;   ///< … authentic, but so old that it can only be a repetition
  std::uint64_t unknown_queue_pair = 0;  ///< also queue pairs that were destroyed: a fenced member's packets
  std::uint64_t wrong_source = 0;        ///< right queue pair number, but not from its peer's address
  std::uint64_t management_datagrams = 0;  ///< kept for the connection manager …
  std::uint64_t management_overflow = 0;   ///< … or lost, because it did not fetch those before
  std::uint64_t packets_in_place = 0;      ///< payload landed where it belongs
  std::uint64_t packets_repaired = 0;      ///< X_WRITE payload had to be copied: landed elsewhere
  std::uint64_t bytes_copied = 0;  ///< all payload bytes that this process copied after the kernel did
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
  /// Those that exist now.
  std::size_t queue_pairs() const noexcept { return queue_pairs_.size(); }
  /// The sum over all queue pairs, destroyed ones included.
  roce::ConnectionCounters connection_counters() const;

 private:
  friend class SoftwareQueuePair;
  friend class ManagementQueuePair;
  class Region;

  /// `holder`: the connection that alone may use the key.
  Result<std::unique_ptr<MemoryRegion>> register_for(KeyHolder holder, std::span<std::byte> memory,
                                                     MemoryUse use, RemoteAccess access);
  bool icrc_optional() const;

  // receive.cpp
  std::size_t plan(port::FlowId flow, std::uint32_t ahead, std::span<iovec> pieces) override;
  std::size_t receive(Time now);
  SoftwareQueuePair* find(Qpn qpn, port::FlowId flow) const;
  SoftwareQueuePair* newest_on(port::FlowId flow) const;
  void note_length(const port::RxTrain& train);
  struct Landed {
    const std::byte* header;
    std::span<const std::byte> payload;
    std::size_t bytes;  // of the whole datagram
  };
  Landed landed(const port::RxTrain& train, std::size_t index) const;
  /// The parser knows packets that end in an ICRC.
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

  // transmit.cpp
  static constexpr std::size_t kBytesPerTurn = 64 << 10;  // of payload, or one train
  std::size_t transmit(Time now);
  bool transmit_answers(Time now, std::size_t& sent);
  std::size_t transmit_turn(SoftwareQueuePair& queue_pair, Time now);
  void make_ready(SoftwareQueuePair& queue_pair);
  std::uint32_t packets_per_train(std::uint32_t path_mtu) const;  // at least 1
  void mark_ready(SoftwareQueuePair& queue_pair);
  /// To be called whenever something has happened to a connection: keeps deadlines_ true.
  void note_deadline(const SoftwareQueuePair& queue_pair);
  void run_timers(Time now);

  /// One of the port's flows and those whose bulk data arrives there.
  struct Flow {
    std::uint32_t queue_pairs = 0;
    bool was_shared = false;              // packets of several peers may come here, now or late
    SoftwareQueuePair* newest = nullptr;  // had the newest packet here: where the next one lands is its guess
  };
  Result<port::FlowId> take_flow(bool bulk);
  void give_back_flow(port::FlowId flow);
  DeadlineHeap::Slot make_slot();
  void forget(SoftwareQueuePair& queue_pair);
  void revoke(RemoteKey key, std::span<std::byte> memory);
  std::uint32_t fresh_number();

  port::Port& port_;
  SoftwareFabricOptions options_;
  std::size_t trailer_bytes_;  // behind payload and pad: an ICRC, or a seal
  std::uint32_t path_mtu_;
  roce::RegionTable regions_;
  ArrivedChecksums arrived_;
  std::unordered_map<std::uint32_t, SoftwareQueuePair*> queue_pairs_;  // by QPN
  ManagementQueuePair* management_ = nullptr;
  std::vector<Flow> flows_;                // by FlowId
  std::vector<SoftwareQueuePair*> slots_;  // all queue pairs; null: free for the next one
  DeadlineHeap deadlines_;                 // by slot: each connection's next_deadline()
  std::vector<DeadlineHeap::Slot> due_;    // in this turn
  /// A queue pair that may have something to send, at the place it had when it was put here.
  struct Ready {
    std::uint64_t post_order;
    SoftwareQueuePair* queue_pair;
    bool operator>(const Ready& other) const { return post_order > other.post_order; }
  };
  std::vector<Ready> ready_;                 // a heap, the least place first; each queue pair at most once
  std::vector<SoftwareQueuePair*> answers_;  // may have answers to send; they become ready afterwards
  std::uint64_t next_holder_ = 1;            // of keys: the next queue pair
  std::uint64_t next_post_order_ = 0;        // of what is posted next, in the order in which works leave
  std::vector<SoftwareQueuePair*> touched_;  // received something in this burst
  std::vector<SoftwareQueuePair*> planned_;  // were asked where their next packets land in this burst
  TransmitBatch batch_;
  static constexpr std::size_t kTrainsPerBurst = 32;
  std::array<port::RxTrain, kTrainsPerBurst> trains_;                 // of this burst
  std::array<std::span<const std::byte>, kTrainsPerBurst> gathered_;  // their bytes; empty: they are in place
  std::vector<std::byte> landing_scratch_;  // headers and trailers of planned trains
  std::size_t landing_scratch_used_ = 0;
  std::vector<std::byte> linear_;  // trains gathered for repair
  Time last_progress_{};
  SoftwareFabricCounters counters_;
  roce::ConnectionCounters closed_connections_;
};

/// The largest payload per packet that fits an IP packet of `mtu` bytes with our headers and `trailer_bytes`
/// behind it: whole pages where that costs a sixteenth at most, so that packets end where pages end; whole
/// eights otherwise.
std::uint32_t path_mtu_for(std::uint32_t mtu, bool ipv6, std::uint32_t train_bytes,
                           std::size_t trailer_bytes = roce::kIcrcBytes);

}  // namespace rdmc::fabric
