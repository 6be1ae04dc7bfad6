// Measures messages between two ranks: the latency of one message, and the rate of a window of messages. The
// measurement is the same for rdmc and for the MPI implementations that it is compared with. `Messages` has
// the calls of one of them: rank(), begin_send(), begin_receive(), finish(), send(), receive(). Every buffer
// was touched before. Rank 0 prints one JSON object for each size.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

namespace rdmc::bench {

struct RankSpeedOptions {
  std::size_t least = 1, most = std::size_t{4} << 20;  ///< message sizes, in steps of a factor of 2
  double seconds = 0.3;                                ///< of each measurement
  int batches = 9;                                     ///< A figure is the median of this number of batches.
  bool rates = true;                                   ///< False to measure only the latency.

  /// Reads "--least N --most N --seconds S --rates 0|1". Returns false if an argument is not one of these.
  bool read(int count, char** arguments) {
    for (int i = 1; i + 1 < count; i += 2) {
      const std::string name = arguments[i];
      if (name == "--least")
        least = std::strtoull(arguments[i + 1], nullptr, 10);
      else if (name == "--most")
        most = std::strtoull(arguments[i + 1], nullptr, 10);
      else if (name == "--seconds")
        seconds = std::strtod(arguments[i + 1], nullptr);
      else if (name == "--rates")
        rates = std::string(arguments[i + 1]) != "0";
      else
        return false;
    }
    return count % 2 == 1 && least >= 1 && most >= least;
  }
};

inline double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

inline double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

template <typename Messages>
class RankSpeed {
 public:
  static constexpr int kTag = 1, kAnswerTag = 2;

  RankSpeed(Messages& messages, const RankSpeedOptions& options) : messages_(messages), options_(options) {}

  void run() {
    for (std::size_t bytes = options_.least; bytes <= options_.most; bytes *= 2) {
      buffer_.assign(bytes, std::byte{1});
      const double latency = measure([&] { round_trip(bytes); }) / 2;
      const int window = bytes > 65536 ? 16 : 64;
      buffer_.assign(bytes * static_cast<std::size_t>(window), std::byte{1});
      const double each = options_.rates ? measure([&] { send_window(bytes, window); }) / window : INFINITY;
      if (messages_.rank() != 0) continue;
      std::printf(
          "{\"size_bytes\":%zu,\"latency_us\":%.3f,\"goodput_gbps\":%.3f,\"messages_per_second\":%.0f}\n",
          bytes, latency * 1e6, static_cast<double>(bytes) * 8e-9 / each, 1 / each);
      std::fflush(stdout);
    }
  }

 private:
  /// Returns the median time of one call of `operation`. Rank 0 decides how many calls a batch has.
  template <typename Operation>
  double measure(Operation operation) {
    for (int i = 0; i < 10; ++i) operation();
    std::uint64_t calls = 1;
    if (messages_.rank() == 0) {
      const double begin = now_seconds();
      operation();
      const double one = now_seconds() - begin;
      calls = static_cast<std::uint64_t>(options_.seconds / options_.batches / std::max(one, 1e-7)) + 1;
    } else {
      operation();
    }
    exchange(calls);
    std::vector<double> times;
    for (int batch = 0; batch < options_.batches; ++batch) {
      const double begin = now_seconds();
      for (std::uint64_t i = 0; i < calls; ++i) operation();
      times.push_back((now_seconds() - begin) / static_cast<double>(calls));
    }
    return median(times);
  }

  void exchange(std::uint64_t& calls) {
    const auto bytes = std::as_writable_bytes(std::span(&calls, 1));
    if (messages_.rank() == 0)
      messages_.send(bytes, 1, kAnswerTag);
    else
      messages_.receive(bytes, 0, kAnswerTag);
  }

  void round_trip(std::size_t bytes) {
    const std::span<std::byte> all(buffer_.data(), bytes);
    if (messages_.rank() == 0) {
      messages_.send(all, 1, kTag);
      messages_.receive(all, 1, kTag);
    } else {
      messages_.receive(all, 0, kTag);
      messages_.send(all, 0, kTag);
    }
  }

  void send_window(std::size_t bytes, int window) {
    std::byte answer{};
    for (int i = 0; i < window; ++i) {
      const std::span<std::byte> one(buffer_.data() + bytes * static_cast<std::size_t>(i), bytes);
      if (messages_.rank() == 0)
        messages_.begin_send(one, 1, kTag);
      else
        messages_.begin_receive(one, 0, kTag);
    }
    messages_.finish();
    if (messages_.rank() == 0)
      messages_.receive(std::span(&answer, 1), 1, kAnswerTag);
    else
      messages_.send(std::span(&answer, 1), 0, kAnswerTag);
  }

  Messages& messages_;
  const RankSpeedOptions options_;
  std::vector<std::byte> buffer_;
};

}  // namespace rdmc::bench
