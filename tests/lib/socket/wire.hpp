// Both sides of one channel, without processes. Frames go from one mux to the other in order, as over a queue
// pair, but only when the test requests it.
#pragma once

#include <boost/test/unit_test.hpp>
#include <deque>
#include <memory>
#include <vector>

#include "lib/socket/lane_memory.hpp"
#include "lib/socket/mux.hpp"
#include "lib/socket/socket.hpp"

namespace rdmc::sockets::testing {

/// One side, with at most one listening socket.
struct Side final : Opens {
  explicit Side(bool dialled) : mux(std::make_shared<Mux>(*this, dialled)) {}

  bool on_open(const Asked& asked, const std::shared_ptr<Stream>& stream) override {
    if (listener == nullptr || listener->backlog() == nullptr) return false;
    return listener->backlog()->add({asked, stream});
  }
  /// Makes the socket request a connection.
  void connect(Socket& socket) {
    const auto began = socket.connect();
    BOOST_REQUIRE((began && *began == Socket::Connecting::begins));
    mux->open(socket.stream(), Address::ipv4(10, 0, 0, 1, 1), Address::ipv4(10, 0, 0, 2, 2));
  }
  /// Puts the next frame of this side on the wire. Returns false if there was nothing to send.
  bool say() {
    std::vector<std::byte> frame(frame_bytes);
    frame.resize(mux->fill(frame));
    if (frame.empty()) return false;
    on_wire.push_back(std::move(frame));
    return true;
  }

  Socket* listener = nullptr;
  std::size_t frame_bytes = 512;
  std::deque<std::vector<std::byte>> on_wire;
  std::shared_ptr<Mux> mux;
};

struct Wire {
  Side client{true}, server{false};

  Side& other(const Side& side) { return &side == &client ? server : client; }
  /// Delivers the oldest frame that `from` has put on the wire.
  Result<void> hear(Side& from) {
    const auto frame = std::move(from.on_wire.front());
    from.on_wire.pop_front();
    return other(from).mux->on_frame(frame);
  }
  /// Gives both sides lanes, as if they were on one host. `memory` is how each side reads the memory of the
  /// other side. Null means that it cannot read this memory.
  void share_lanes(const std::shared_ptr<const fabric::PeerMemory>& memory = nullptr) {
    const auto lanes = make_lane_pools(memory);
    BOOST_REQUIRE(lanes);
    client.mux->use_lanes(lanes->first, false);
    server.mux->use_lanes(lanes->second, true);
    settle();
  }
  /// Delivers frames until neither side has anything to send.
  void settle() {
    for (bool busy = true; busy;) {
      busy = false;
      for (Side* side : {&client, &server}) {
        while (side->say()) busy = true;
        while (!side->on_wire.empty()) BOOST_REQUIRE(hear(*side).has_value());
      }
    }
  }
};

/// A client with a connection that the server's listener has not accepted yet.
struct ConnectedWire : Wire {
  ConnectedWire() {
    listener.listen(1);
    server.listener = &listener;
    client.connect(connected);
    settle();
  }
  Socket listener, connected;
};

}  // namespace rdmc::sockets::testing
