// One end of a cable, as a port for the tests of a fabric. A sent train is kept until the other end receives
// it. The test decides how many trains an end accepts and when an end is readable. The test owns both ends.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "tests/dataplane/port/memory_port.hpp"

namespace rdmc::fabric::testing {

class CablePort final : public port::testing::MemoryPort {
 public:
  explicit CablePort(std::uint8_t host, bool same_host_only = false, bool loses_uncut_trains = false)
      : CablePort(Address::ipv4(10, 0, 0, host, 4791), same_host_only, loses_uncut_trains) {}
  explicit CablePort(const Address& address, bool same_host_only = false, bool loses_uncut_trains = false)
      : MemoryPort({.driver = "cable",
                    .address = address,
                    .mtu = 9000,
                    .train_segments = 64,
                    .loses_uncut_trains = loses_uncut_trains,
                    .same_host_only = same_host_only,
                    .receive_buffer_bytes = 1 << 20}) {}
  void plug_into(CablePort& other) { other_ = &other; }

  std::size_t send_burst(std::span<const port::TxTrain> trains) override {
    std::size_t taken = 0;
    for (; taken < trains.size() && room > 0; ++taken, --room) {
      std::vector<std::byte> bytes;
      for (const iovec& piece : trains[taken].pieces) {
        const auto* const from = static_cast<const std::byte*>(piece.iov_base);
        bytes.insert(bytes.end(), from, from + piece.iov_len);
      }
      Address source = info().address;
      source.port = udp_port(trains[taken].source);
      sent.push_back(bytes);
      if (loses()) continue;
      other_->arrived_.push_back(
          {trains[taken].destination.port, source, trains[taken].segment_bytes, std::move(bytes)});
    }
    return taken;
  }
  std::size_t receive_burst(port::ScatterPlanner&, std::span<port::RxTrain> out) override {
    read_.clear();
    std::size_t count = 0;
    while (readable && count < out.size() && !arrived_.empty()) {
      read_.push_back(std::move(arrived_.front()));
      arrived_.pop_front();
      Arrived& train = read_.back();
      train.piece = {train.bytes.data(), train.bytes.size()};
      out[count++] = {.flow = flow_of(train.port),
                      .source = train.source,
                      .pieces = {&train.piece, 1},
                      .segment_bytes = train.segment_bytes,
                      .total_bytes = static_cast<std::uint32_t>(train.bytes.size()),
                      .planned = says_planned,
                      .identification = train.identification};
    }
    return count;
  }
  /// Delivers a datagram to the shared flow, from a sender that is not on the cable. `identification` is the
  /// IPv4 identification that the port reports, if it reports one.
  void deliver(const Address& source, std::vector<std::byte> bytes,
               std::optional<std::uint16_t> identification = std::nullopt) {
    const auto size = static_cast<std::uint32_t>(bytes.size());
    arrived_.push_back({info().address.port, source, size, std::move(bytes), identification});
  }

  std::size_t room = SIZE_MAX;  ///< How many trains the port accepts before it is full.
  bool readable = true;
  bool says_planned = false;  ///< The value of `planned` in all trains that the port receives.
  std::vector<std::vector<std::byte>> sent;
  /// Returns true if the next train is to be lost on the cable.
  std::function<bool()> loses = [] { return false; };
  bool has_arrivals() const { return !arrived_.empty(); }

 private:
  struct Arrived {
    std::uint16_t port;
    Address source;
    std::uint32_t segment_bytes;
    std::vector<std::byte> bytes;
    std::optional<std::uint16_t> identification{};
    iovec piece{};
  };
  CablePort* other_ = nullptr;
  std::deque<Arrived> arrived_, read_;
};

}  // namespace rdmc::fabric::testing
