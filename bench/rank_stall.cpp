// rdmc_rank_stall SECONDS [MEGABYTES]: measures how long a rank program stands still when a replica dies, and
// when it is replaced. Each process has MEGABYTES of memory, of which it changes one page in each round trip,
// so that the memory of a new replica is really copied. Rank 0 and rank 1 send a message of 8 bytes to each
// other, again and again. The other ranks compute nothing. Each process prints to standard error, at the end,
// its longest round trips: "stall RANK.REPLICA BEGIN LENGTH" in microseconds of the steady clock.
// bench/rank_stall.py kills replicas and reads these lines.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <rdmc/replica.hpp>
#include <vector>

namespace {

using namespace rdmc::replica;

constexpr std::size_t kLongest = 20;

struct Stall {
  long long begin_us = 0, length_us = 0;
};

long long now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

template <typename Value>
Value need(rdmc::Result<Value> result) {
  if (!result) {
    std::fprintf(stderr, "rdmc_rank_stall: %s\n", result.error().what.c_str());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<Value>) return std::move(*result);
}

}  // namespace

int main(int count, char** words) {
  const auto job = need(Job::start());
  Communicator& world = job->world();
  const long long seconds = count > 1 ? std::atoll(words[1]) : 5;
  std::vector<unsigned char> memory(count > 2 ? std::strtoull(words[2], nullptr, 10) << 20 : 0, 1);
  std::vector<Stall> stalls;
  std::uint64_t value = 0;
  const auto bytes = std::as_writable_bytes(std::span(&value, 1));
  // Rank 0 decides when to stop, and its replicas must decide alike. So the number of round trips is fixed.
  need(world.barrier());
  if (world.rank() == 0) {
    std::printf("begins\n");
    std::fflush(stdout);
  }
  long long before = now_us();
  for (long long trip = 0; world.rank() < 2 && trip < seconds * 20'000; ++trip) {
    if (!memory.empty()) ++memory[static_cast<std::size_t>(trip) * 4096 % memory.size()];
    if (world.rank() == 0) need(world.send(bytes, 1, 0));
    need(world.recv(bytes, 1 - world.rank(), 0));
    if (world.rank() == 1) need(world.send(bytes, 0, 0));
    const long long now = now_us();
    stalls.push_back({before, now - before});
    before = now;
    if (stalls.size() < 2 * kLongest) continue;
    std::ranges::nth_element(stalls, stalls.begin() + kLongest, std::ranges::greater(), &Stall::length_us);
    stalls.resize(kLongest);
  }
  for (const Stall& stall : stalls)
    std::fprintf(stderr, "stall %d.%d %lld %lld\n", world.rank(), job->replica(), stall.begin_us,
                 stall.length_us);
  need(job->finish());
}
