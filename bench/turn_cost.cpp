// rdmc_turn_cost: what one turn of the software fabric costs when many queue pairs exist and few have
// anything to do. Every queue pair has a WRITE under way whose answer never comes, so each has a timer.
// Prints one JSON object for each number of queue pairs: nanoseconds of a turn in which nothing is due, of
// one in which a single queue pair has something to send, and of asking for the next deadline.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "dataplane/base/clock.hpp"
#include "dataplane/base/random.hpp"
#include "dataplane/fabric/software_fabric.hpp"
#include "tests/dataplane/port/memory_port.hpp"

namespace {

using namespace rdmc;

constexpr int kTurns = 2000;
/// Turns with something to send: no more than a window and a send queue have room for without an answer.
constexpr std::uint32_t kSends = 100;
/// So long that no timer comes due within a run.
constexpr Duration kPatience = seconds(3600);

/// Nanoseconds that `turn` takes on average.
template <typename Turn>
double cost(int turns, Turn turn) {
  const Time start = monotonic_now();
  for (int i = 0; i < turns; ++i) turn(i);
  return static_cast<double>((monotonic_now() - start).ns) / turns;
}

int measure(std::size_t count) {
  port::testing::MemoryPort silent({.driver = "silent",  // takes everything and never answers
                                    .address = Address::ipv4(10, 0, 0, 1, 4791),
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
    // Its own blob will do for a peer's: nobody answers.
    if (!made || !(*made)->connect((*made)->local_blob()) || !(*made)->post_write(write)) {
      std::fprintf(stderr, "rdmc_turn_cost: no queue pair number %zu\n", i);
      return 2;
    }
    queue_pairs.push_back(std::move(*made));
  }
  Time now = monotonic_now();
  fabric.progress(now);
  // The clock stands still: a timer that came due would be work of another kind.
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
