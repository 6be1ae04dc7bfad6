// Two connections and the network between them, in virtual time. Each direction has a queue at the link's
// rate, and a delay after the queue. A seeded generator chooses the packets that are lost, duplicated,
// reordered and corrupted. A corrupted packet is dropped, because its ICRC would be wrong. The class also
// does the fabric's work: it copies payloads to their destinations and ends bursts. At every step it checks
// the invariants.
#pragma once

#include <boost/test/unit_test.hpp>

#include <array>
#include <cstring>
#include <queue>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "dataplane/base/random.hpp"
#include "dataplane/roce/connection.hpp"

namespace rdmc::roce::testing {

struct Faults {
  std::uint32_t lose = 0, duplicate = 0, reorder = 0, corrupt = 0;  ///< Parts per million.
  Duration reorder_by = microseconds(300);  ///< The longest delay of a reordered packet.
};

struct Link {
  double bits_per_second = 0;  ///< 0 means that a packet takes no time.
  Duration delay = microseconds(20);
  std::size_t queue_bytes = std::size_t{1} << 30;
  Faults faults;
};

struct Struck {
  std::uint64_t lost = 0, duplicated = 0, reordered = 0, corrupted = 0, overflowed = 0;
};

/// The number of bytes that the link carries for each packet in addition to the packet's RoCE headers and
/// payload: Ethernet (with preamble and gap), IPv4, UDP and ICRC.
inline constexpr std::size_t kAroundPacket = 38 + 20 + 8 + 4;

class Pair {
 public:
  Pair(const ConnectionConfig& a, const ConnectionConfig& b, const Link& link, std::uint64_t seed)
      : link_(link), random_(seed), ends_{End(a), End(b)} {}

  Connection& connection(int end) { return ends_[end].connection; }
  RegionTable& regions(int end) { return ends_[end].regions; }
  std::vector<WorkCompletion>& completions(int end) { return ends_[end].completions; }
  Time now() const { return now_; }
  const Struck& struck() const { return struck_; }
  void set_link(const Link& link) { link_ = link; }

  /// Stops an end, so that it runs no code. Packets that arrive wait in its socket.
  void freeze(int end) { ends_[end].frozen = true; }
  void thaw(int end) {
    ends_[end].frozen = false;
    deliver(end, std::exchange(ends_[end].socket, {}));
  }

  /// Runs until `done` returns true or the time is `until`. Returns the last result of `done`.
  template <typename Done>
  bool run(Time until, Done done) {
    while (!done()) {
      for (int end : {0, 1}) pump(end);
      const bool more = step(until);
      for (int end : {0, 1}) pump(end);
      if (!more) return done();
    }
    return true;
  }
  void run_for(Duration span) {
    run(now_ + span, [] { return false; });
  }

 private:
  struct End {
    explicit End(const ConnectionConfig& c) : config(c), connection(c, regions) {}
    ConnectionConfig config;
    RegionTable regions;
    Connection connection;
    std::vector<WorkCompletion> completions;
    std::set<std::uint32_t> placed;  ///< The PSNs of the X_WRITEs whose payload was placed.
    std::vector<std::vector<std::byte>> socket;
    bool frozen = false;
    Time link_free{};
  };
  struct Flight {
    Time at;
    std::uint64_t number;
    int to;
    std::vector<std::byte> bytes;
    friend bool operator<(const Flight& a, const Flight& b) {
      return std::tie(b.at, b.number) < std::tie(a.at, a.number);
    }
  };

  bool step(Time until) {
    Time next = wire_.empty() ? Time::never() : wire_.top().at;
    for (const End& end : ends_)
      if (!end.frozen) next = std::min(next, std::max(now_, end.connection.next_deadline()));
    if (next > until) {
      now_ = until;
      return false;
    }
    now_ = next;
    std::array<std::vector<std::vector<std::byte>>, 2> arrived;
    for (; !wire_.empty() && wire_.top().at <= now_; wire_.pop())
      arrived[wire_.top().to].push_back(wire_.top().bytes);
    for (int end : {0, 1}) {
      if (ends_[end].frozen) {
        for (auto& bytes : arrived[end]) ends_[end].socket.push_back(std::move(bytes));
        continue;
      }
      if (!arrived[end].empty()) deliver(end, arrived[end]);
      if (ends_[end].connection.next_deadline() <= now_) ends_[end].connection.on_timer(now_);
    }
    return true;
  }

  void deliver(int to, const std::vector<std::vector<std::byte>>& burst) {
    End& end = ends_[to];
    for (const auto& bytes : burst) {
      const auto packet = parse_packet(bytes);
      BOOST_REQUIRE(packet.has_value());
      const Arrival arrival = end.connection.on_packet(*packet, now_);
      if (arrival.destination == nullptr) continue;
      BOOST_REQUIRE(arrival.verdict == Arrival::Verdict::accepted);
      const auto opcode = packet->bth.opcode;
      if (opcode >= Opcode::x_write) BOOST_REQUIRE(end.placed.insert(packet->bth.psn.value()).second);
      std::memcpy(arrival.destination, packet->payload.data(), packet->payload.size());
    }
    end.connection.end_of_burst(now_);
  }

  void pump(int from) {
    End& end = ends_[from];
    if (end.frozen) return;
    std::array<TxPacket, 64> out;
    for (std::size_t count = out.size(); count == out.size();) {
      count = end.connection.poll_transmit(now_, out);
      for (const TxPacket& packet : std::span(out).first(count)) emit(from, packet);
    }
    WorkCompletion completion;
    while (end.connection.poll_completion(completion)) end.completions.push_back(completion);
  }

  void emit(int from, const TxPacket& packet) {
    std::vector<std::byte> bytes(packet.header.begin(), packet.header.begin() + packet.header_bytes);
    bytes.insert(bytes.end(), packet.payload.begin(), packet.payload.end());
    bytes.resize(bytes.size() + packet.pad_bytes + kIcrcBytes);
    Time at = now_;
    if (link_.bits_per_second > 0) {
      End& end = ends_[from];
      const double per_byte = 8e9 / link_.bits_per_second;
      const Time start = std::max(now_, end.link_free);
      if (static_cast<double>((start - now_).ns) / per_byte > static_cast<double>(link_.queue_bytes)) {
        ++struck_.overflowed;
        return;
      }
      const auto size = static_cast<double>(bytes.size() + kAroundPacket - kIcrcBytes);
      at = end.link_free = start + Duration{static_cast<std::int64_t>(size * per_byte)};
    }
    at = at + link_.delay;
    const Faults& faults = link_.faults;
    const auto strike = [&](std::uint32_t chance, std::uint64_t& counter) {
      const bool hit = chance > 0 && random_.chance(chance);
      counter += hit;
      return hit;
    };
    if (strike(faults.lose, struck_.lost) || strike(faults.corrupt, struck_.corrupted)) return;
    const auto late = [&] {
      return Duration{static_cast<std::int64_t>(random_.below(faults.reorder_by.ns + 1))};
    };
    if (strike(faults.duplicate, struck_.duplicated)) wire_.push({at + late(), number_++, 1 - from, bytes});
    if (strike(faults.reorder, struck_.reordered)) at = at + late();
    wire_.push({at, number_++, 1 - from, std::move(bytes)});
  }

  Link link_;
  Random random_;
  std::array<End, 2> ends_;
  Time now_{};
  std::priority_queue<Flight> wire_;
  std::uint64_t number_ = 0;
  Struck struck_;
};

/// Returns the configurations of the two ends. Each one mirrors the other. `psn` is the first PSN of end 0.
inline std::array<ConnectionConfig, 2> mirrored(ConnectionConfig common, std::uint32_t psn) {
  ConnectionConfig a = common, b = common;
  a.local_qpn = b.remote_qpn = Qpn{0x11};
  b.local_qpn = a.remote_qpn = Qpn{0x22};
  a.send_psn = b.receive_psn = Psn(psn);
  b.send_psn = a.receive_psn = Psn(psn ^ 0x555);
  return {a, b};
}

}  // namespace rdmc::roce::testing
