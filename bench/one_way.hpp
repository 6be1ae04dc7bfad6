// A one-way transfer between two processes without a protocol. rdmc_one_copy_limit measures its time. A Link
// sends and receives trains. This file places the trains in the memory of both sides, computes the ICRC's
// CRC-32, and checks the received bytes. A byte counter in shared memory keeps the sender from overflowing
// the receiver.
#pragma once

#include <isa-l/crc.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>
#include <vector>

#include "dataplane/base/address.hpp"
#include "dataplane/base/random.hpp"

namespace rdmc::bench {

// The headers of bulk packets are BTH, RETH and rdmc's own offset extension.
inline constexpr std::size_t kHeaderBytes = 36;
inline constexpr std::size_t kIcrcBytes = 4;
inline constexpr std::size_t kSegmentsMax = 64;  // The value is UDP_MAX_SEGMENTS of older kernels.
inline constexpr int kWarmUps = 2;

struct OneWayOptions {
  std::size_t payload = 4096;
  std::size_t size = std::size_t{256} << 20;
  int iterations = 7;
  bool icrc = true;
  std::size_t window = std::size_t{1} << 20;
  std::size_t train_bytes = 65'000;
  std::size_t batch = 1;
  bool block = true;
  bool hugepages = false;
  std::uint32_t receive_buffer = 8U << 20;

  std::size_t datagram() const { return payload + kHeaderBytes + kIcrcBytes; }
  std::size_t segments() const { return std::clamp<std::size_t>(train_bytes / datagram(), 1, kSegmentsMax); }
};

/// An object in memory that both processes map.
struct Shared {
  // The number of bytes of memory that are filled, over all iterations.
  alignas(64) std::atomic<std::uint64_t> consumed;
  alignas(64) std::atomic<std::uint32_t> sender_sleeps;
  alignas(64) std::atomic<std::int32_t> sender_phase, receiver_phase;
  alignas(64) double receiver_cpu_seconds;
  std::uint64_t receiver_calls, corrupt;
};

[[noreturn]] inline void die(const char* what, int error = errno) {
  throw std::system_error(error, std::generic_category(), what);
}

inline double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](timeval t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

inline std::byte* map_memory(std::size_t size, int sharing, bool hugepages) {
  void* at = mmap(nullptr, size, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) die("mmap");
  if (hugepages) madvise(at, size, MADV_HUGEPAGE);
  return static_cast<std::byte*>(at);
}

/// The gather or scatter lists of up to `batch` trains. Each list is: header, payload, ICRC with the next
/// header, payload, … ICRC.
class Layout {
 public:
  explicit Layout(const OneWayOptions& options)
      : options_(options),
        memory_(map_memory(options.size, MAP_PRIVATE, options.hugepages)),
        segments_(options.segments()),
        trains_(options.batch),
        pieces_(options.batch * (2 * segments_ + 1)),
        aside_(options.batch * (segments_ + 1) * kAside) {}

  struct Train {
    std::span<iovec> pieces;
    std::size_t payload_bytes = 0, total_bytes = 0;
  };

  const OneWayOptions& options() const { return options_; }
  std::span<std::byte> memory() const { return {memory_, options_.size}; }
  const Train& train(std::size_t slot) const { return trains_[slot]; }

  /// Makes the lists of the trains that begin at `at`, at most a whole batch. Returns the number of trains.
  std::size_t lay_out_batch(std::size_t at) {
    std::size_t count = 0;
    for (; count < options_.batch && at < options_.size; at += trains_[count++].payload_bytes)
      lay_out(count, at);
    return count;
  }

  /// Calls `use` for each datagram of a train, with the CRC of the payload and the address of its ICRC.
  template <typename Use>
  void for_each_icrc(std::size_t slot, Use use) const {
    const auto pieces = trains_[slot].pieces;
    for (std::size_t i = 1; i < pieces.size(); i += 2) {
      use(crc32_gzip_refl(0, static_cast<const unsigned char*>(pieces[i].iov_base), pieces[i].iov_len),
          static_cast<std::byte*>(pieces[i + 1].iov_base));
    }
  }

 private:
  static constexpr std::size_t kAside = 64;

  void lay_out(std::size_t slot, std::size_t at) {
    const std::size_t bytes = std::min(segments_ * options_.payload, options_.size - at);
    iovec* const first = &pieces_[slot * (2 * segments_ + 1)];
    iovec* piece = first;
    std::byte* aside = &aside_[slot * (segments_ + 1) * kAside];
    *piece++ = {aside + kIcrcBytes, kHeaderBytes};
    std::size_t segments = 0;
    for (std::size_t done = 0; done < bytes; ++segments) {
      const std::size_t now = std::min(options_.payload, bytes - done);
      *piece++ = {memory_ + at + done, now};
      aside += kAside;
      done += now;
      *piece++ = {aside, done < bytes ? kIcrcBytes + kHeaderBytes : kIcrcBytes};
    }
    trains_[slot] = {{first, piece}, bytes, bytes + segments * (kHeaderBytes + kIcrcBytes)};
  }

  OneWayOptions options_;
  std::byte* memory_;
  std::size_t segments_;
  std::vector<Train> trains_;
  std::vector<iovec> pieces_;
  std::vector<std::byte> aside_;
};

/// Fills or checks a memory with words from a fixed seed. So the receiver knows the sender's bytes.
template <typename Use>
void for_each_pattern_word(std::span<std::byte> memory, Use use) {
  Random random(1);
  for (std::size_t i = 0; i + 8 <= memory.size(); i += 8) use(&memory[i], random.next());
}

template <typename Link>
class Receiver {
 public:
  explicit Receiver(const OneWayOptions& options) : layout_(options), link_(options, 2) {
    std::memset(layout_.memory().data(), 1, options.size);
  }

  Address address() const { return link_.address(); }

  void run(Shared& shared) {
    const OneWayOptions& options = layout_.options();
    double cpu_before = 0;
    std::uint64_t calls_before = 0;
    for (int iteration = 0; iteration < kWarmUps + options.iterations; ++iteration) {
      if (iteration == kWarmUps) cpu_before = cpu_seconds(), calls_before = link_.calls();
      shared.receiver_phase.store(iteration + 1);
      while (shared.sender_phase.load() <= iteration) sched_yield();
      receive_all(shared);
    }
    shared.receiver_cpu_seconds = cpu_seconds() - cpu_before;
    shared.receiver_calls = link_.calls() - calls_before;
    for_each_pattern_word(layout_.memory(), [&](const std::byte* at, std::uint64_t expected) {
      corrupt_ += std::memcmp(at, &expected, sizeof expected) != 0;
    });
    shared.corrupt = corrupt_;
    shared.receiver_phase.store(kWarmUps + options.iterations + 1);
  }

 private:
  void receive_all(Shared& shared) {
    const OneWayOptions& options = layout_.options();
    for (std::size_t at = 0; at < options.size;) {
      const std::size_t got = link_.receive(layout_, layout_.lay_out_batch(at));
      for (std::size_t i = 0; i < got; ++i) {
        if (options.icrc)
          layout_.for_each_icrc(i, [&](std::uint32_t crc, const std::byte* icrc) {
            corrupt_ += std::memcmp(&crc, icrc, sizeof crc) != 0;
          });
        at += layout_.train(i).payload_bytes;
        shared.consumed.fetch_add(layout_.train(i).payload_bytes);
      }
      if (got == 0 && options.block) link_.wait();
      if (got > 0 && options.block && shared.sender_sleeps.exchange(0) != 0)
        syscall(SYS_futex, &shared.sender_sleeps, FUTEX_WAKE, 1, nullptr, nullptr, 0);
    }
  }

  Layout layout_;
  Link link_;
  std::uint64_t corrupt_ = 0;
};

template <typename Link>
class Sender {
 public:
  Sender(const OneWayOptions& options, const Address& destination) : layout_(options), link_(options, 1) {
    link_.send_to(destination);
    for_each_pattern_word(layout_.memory(),
                          [](std::byte* at, std::uint64_t word) { std::memcpy(at, &word, sizeof word); });
  }

  nlohmann::json run(Shared& shared) {
    const OneWayOptions& options = layout_.options();
    std::vector<double> times;
    double cpu_before = 0;
    std::uint64_t calls_before = 0;
    for (int iteration = 0; iteration < kWarmUps + options.iterations; ++iteration) {
      while (shared.receiver_phase.load() <= iteration) sched_yield();
      if (iteration == kWarmUps) cpu_before = cpu_seconds(), calls_before = link_.calls();
      const auto start = std::chrono::steady_clock::now();
      shared.sender_phase.store(iteration + 1);
      send_all(shared);
      await_consumed(shared, sent_);
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      if (iteration >= kWarmUps) times.push_back(took.count());
    }
    const double cpu = cpu_seconds() - cpu_before;
    const std::uint64_t calls = link_.calls() - calls_before;
    while (shared.receiver_phase.load() <= kWarmUps + options.iterations) sched_yield();
    std::ranges::sort(times);
    const double median = times[times.size() / 2];
    return {{"payload", options.payload},
            {"icrc", options.icrc},
            {"size_bytes", options.size},
            {"segments_per_train", options.segments()},
            {"window_bytes", options.window},
            {"batch", options.batch},
            {"iterations", options.iterations},
            {"median_seconds", median},
            {"goodput_gbps", static_cast<double>(options.size) * 8 / median / 1e9},
            {"best_gbps", static_cast<double>(options.size) * 8 / times.front() / 1e9},
            {"sender_cpu_seconds", cpu},
            {"receiver_cpu_seconds", shared.receiver_cpu_seconds},
            {"sender_system_calls", calls},
            {"receiver_system_calls", shared.receiver_calls},
            {"corrupt", shared.corrupt}};
  }

 private:
  void send_all(Shared& shared) {
    const OneWayOptions& options = layout_.options();
    for (std::size_t at = 0; at < options.size;) {
      const std::size_t count = layout_.lay_out_batch(at);
      std::size_t bytes = 0;
      for (std::size_t i = 0; i < count; ++i) {
        if (options.icrc)
          layout_.for_each_icrc(
              i, [](std::uint32_t crc, std::byte* icrc) { std::memcpy(icrc, &crc, sizeof crc); });
        bytes += layout_.train(i).payload_bytes;
      }
      if (sent_ + bytes > options.window) await_consumed(shared, sent_ + bytes - options.window);
      link_.send(layout_, count);
      sent_ += bytes;
      at += bytes;
    }
  }

  void await_consumed(Shared& shared, std::uint64_t bytes) {
    while (shared.consumed.load() < bytes) {
      if (!layout_.options().block) {
        __builtin_ia32_pause();
        continue;
      }
      shared.sender_sleeps.store(1);
      if (shared.consumed.load() >= bytes) break;
      syscall(SYS_futex, &shared.sender_sleeps, FUTEX_WAIT, 1, nullptr, nullptr, 0);
    }
  }

  Layout layout_;
  Link link_;
  std::uint64_t sent_ = 0;
};

}  // namespace rdmc::bench
