// Fuzzes an RC connection with any packets of a peer in any order. Meanwhile the local application posts,
// waits and revokes. Besides crashes, the target checks that:
// - payload is placed only in memory that was posted or granted,
// - only bytes leave that were granted for reading,
// - sent packets can be parsed,
// - every work request completes at most once, and in order.
#include <algorithm>
#include <array>
#include <vector>

#include "dataplane/roce/connection.hpp"
#include "tests/fuzz/play.hpp"

using namespace rdmc;
using namespace rdmc::roce;
using fuzz::Input;
using fuzz::require;

namespace {

constexpr RemoteKey kWritable{1}, kReadable{2}, kEverything{3};
constexpr std::size_t kMemory = 4096, kPathMtu = 256;

bool within(const std::byte* at, std::size_t bytes, std::span<const std::byte> memory) {
  return at >= memory.data() && at + bytes <= memory.data() + memory.size();
}

ConnectionConfig config_of(std::uint8_t choice) {
  return {.local_qpn = Qpn{2},
          .remote_qpn = Qpn{3},
          .path_mtu = kPathMtu,
          .selective_repeat = (choice & 1) != 0,
          .congestion_control = (choice & 2) != 0,
          .send_depth = 8,
          .receive_depth = 8,
          .max_rd_atomic = 2,
          .max_dest_rd_atomic = 2,
          .read_window_bytes = 4096,
          .end_to_end_credits = (choice & 4) != 0};
}

class Play {
 public:
  explicit Play(std::uint8_t choice) : connection_(config_of(choice), regions_) {
    regions_.add(kWritable, 0, writable_);
    regions_.add(kReadable, 0, readable_, RemoteAccess::read);
    regions_.add(kEverything, 0, everything_,
                 RemoteAccess::write | RemoteAccess::read | RemoteAccess::atomic | RemoteAccess::invalidate);
  }

  void step(Input& input) {
    const std::uint8_t what = input.next();
    const std::uint8_t amount = input.next();
    switch (what & 7) {
      case 0:
      case 1: return receive(input.take(std::size_t{amount} * 4), what >= 0x80);
      case 2: return post(static_cast<SendOpcode>(what >> 3 & 7), std::size_t{amount} * 16);
      case 3: {
        if (connection_.post_receive({.bytes = std::span(receive_).first(amount * std::size_t{4})}))
          ++posted_;
        return;
      }
      case 4: now_ = now_ + microseconds(std::int64_t{amount} << (what >> 3)); break;
      case 5: transmit(); break;
      case 6: poll(); break;
      default: regions_.revoke(RemoteKey{amount}); break;
    }
    connection_.end_of_burst(now_);
    if (connection_.next_deadline() <= now_) connection_.on_timer(now_);
  }
  void finish() {
    connection_.close();
    poll();
    require(completed_ == posted_);
  }

 private:
  void receive(std::span<const std::byte> datagram, bool marked) {
    const auto packet = parse_packet(datagram);
    if (!packet) return;
    const Arrival arrival = connection_.on_packet(*packet, now_, marked);
    if (arrival.destination == nullptr) return;
    require(arrival.verdict == Arrival::Verdict::accepted);
    const std::size_t bytes = packet->payload.size();
    require(bytes > 0 &&
            (within(arrival.destination, bytes, writable_) ||
             within(arrival.destination, bytes, everything_) ||
             within(arrival.destination, bytes, receive_) || within(arrival.destination, bytes, fetched_)));
    std::copy(packet->payload.begin(), packet->payload.end(), arrival.destination);
  }
  void post(SendOpcode opcode, std::size_t bytes) {
    const std::uint64_t id = works_;
    Result<void> posted;
    if (opcode == SendOpcode::read)
      posted = connection_.post_read({.work_id = id, .bytes = std::span(fetched_).first(bytes)});
    else if (opcode > SendOpcode::read)
      posted = connection_.post_atomic({.work_id = id, .opcode = opcode});
    else
      posted =
          connection_.post_send({.work_id = id, .opcode = opcode, .bytes = std::span(sent_).first(bytes)});
    if (!posted) return;
    ++works_;
    ++posted_;
  }
  void transmit() {
    std::array<TxPacket, 16> out;
    const std::size_t count = connection_.poll_transmit(now_, out);
    require(count <= out.size());
    for (const TxPacket& packet : std::span(out).first(count)) {
      std::vector<std::byte> bytes(packet.header.begin(), packet.header.begin() + packet.header_bytes);
      bytes.insert(bytes.end(), packet.payload.begin(), packet.payload.end());
      bytes.resize(bytes.size() + packet.pad_bytes + kIcrcBytes);
      const auto parsed = parse_packet(bytes);
      require(parsed.has_value());
      if (is_read_response(parsed->bth.opcode) && !packet.payload.empty())
        require(within(packet.payload.data(), packet.payload.size(), readable_) ||
                within(packet.payload.data(), packet.payload.size(), everything_));
    }
  }
  void poll() {
    WorkCompletion done;
    while (connection_.poll_completion(done)) {
      ++completed_;
      if (done.kind != CompletionKind::receive && done.kind != CompletionKind::receive_write_immediate)
        require(done.work_id == next_work_++);
    }
    require(completed_ <= posted_);
  }

  alignas(8) std::array<std::byte, kMemory> writable_{}, readable_{},
      everything_{}, receive_{}, fetched_{}, sent_{};
  RegionTable regions_;
  Connection connection_;
  Time now_ = Time{} + seconds(1);
  std::uint64_t works_ = 0, next_work_ = 0, posted_ = 0, completed_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::play<Play>(data, size);
}
