// rdmc_turn_cost: measures the cost of one turn of the software fabric if many queue pairs exist and only a
// few have something to do. Every queue pair has a WRITE in flight that is never answered, so each queue pair
// has a timer. Prints one JSON object for each number of queue pairs, with three times in nanoseconds: of a
// turn in which there is nothing to do, of a turn in which one queue pair has something to send, and of the
// query for the next deadline.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "dataplane/base/clock.hpp"
#include "dataplane/base/random.hpp"
#include "dataplane/fabric/software_fabric.hpp"
#include "tests/dataplane/port/memory_port.hpp"

namespace {

using namespace rdmc;

constexpr int kTurns = 2000;
/// The number of turns with something to send. The window and the send queue limit this number, because no
/// answer frees their space.
constexpr std::uint32_t kSends = 100;
/// The timeout is so long that no timer expires within a run.
constexpr Duration kPatience = seconds(3600);

/// Returns the average time of `turn` in nanoseconds.
template <typename Turn>
double cost(int turns, Turn turn) {
  const Time start = monotonic_now();
  for (int i = 0; i < turns; ++i) turn(i);
  return static_cast<double>((monotonic_now() - start).ns) / turns;
}

int measure(std::size_t count) {
  port::testing::MemoryPort silent({.driver = "silent",  // This port accepts everything and never answers.
                                    .address = Address::ipv4(10, 0, 0, 1, kRocePort),
                                    .mtu = 9000,
                                    .train_segments = 64,
                                    .receive_buffer_bytes = 1 << 20});
  Random random(1);
  fabric::SoftwareFabric fabric(silent,
                                {.entropy = [&] { return static_cast<std::uint32_t>(random.next()); }});
  std::vector<std::byte> bytes(64);
  std::vector<std::unique_ptr<fabric::QueuePair>> queue_pairs;
  const fabric::WriteRequest write{.bytes = bytes};
  for (std::size_t i = 0; i < count; ++i) {
    auto made =
        fabric.create_queue_pair({.send_depth = 2 * kSends, .receive_depth = 1, .ack_timeout = kPatience});
    // The queue pair's own blob is used as the peer's blob. This is enough, because no peer answers.
    if (!made || !(*made)->connect((*made)->local_blob()) || !(*made)->post_write(write)) {
      std::fprintf(stderr, "rdmc_turn_cost: no queue pair number %zu\n", i);
      return 2;
    }
    queue_pairs.push_back(std::move(*made));
  }
  Time now = monotonic_now();
  fabric.progress(now);
  // The clock does not advance, because an expired timer would add to the cost.
  const double idle = cost(kTurns, [&](int) { fabric.progress(now); });
  const double sending = cost(kSends, [&](int i) {
    (void)queue_pairs[static_cast<std::size_t>(i) % count]->post_write(write);
    fabric.progress(now);
  });
  Time earliest = Time::never();
  const double asking = cost(kTurns, [&](int) { earliest = std::min(earliest, fabric.next_deadline()); });
  const nlohmann::ordered_json json{{"queue_pairs", count},
                                    {"idle_turn_ns", idle},
                                    {"sending_turn_ns", sending},
                                    {"next_deadline_ns", asking}};
  std::printf("%s\n", json.dump().c_str());
  return earliest > now ? 0 : 2;
}

}  // namespace

int main() {
  for (const std::size_t count : {1, 64, 4096}) {
    if (const int status = measure(count); status != 0) return status;
  }
  return 0;
}
