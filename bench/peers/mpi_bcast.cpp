// The program with which rdmc's broadcast is compared. It measures MPI_Bcast under the same rules as
// `rdmc_perf bcast`. Every rank has its own writable buffer of the message's size, which is touched
// beforehand. There are two warm-up iterations, and the received bytes are checked outside the timing. The
// time of an iteration is from the root's start to the last rank's return.
//
// The ranks run on one machine, so CLOCK_MONOTONIC is one clock for all of them. No barrier is part of the
// time, unless `--barrier 1` requests that MPI_Bcast and MPI_Barrier are measured as one. Run it as `mpirun
// -np N [--mca btl tcp,self] mpi_bcast --size BYTES --iterations I [--barrier 1]`. Rank 0 prints one JSON
// object. Sizes may have the suffixes K, M and G. Exit status: 0, 1 (usage) or 2 (the received bytes are
// wrong).
#define OMPI_SKIP_MPICXX 1  // This program uses only the C interface.
#include <mpi.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include "apps/units/units.hpp"

namespace {

constexpr int kWarmUps = 2;
// MPI counts elements with an int, so a message is cut into pieces of this size.
constexpr std::size_t kPieceBytes = std::size_t{1} << 30;

struct Options {
  std::size_t size = std::size_t{256} << 20;
  int iterations = 7;
  bool barrier = false;
};

double now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// Returns word `index` of the message of `iteration`. The words of neighbouring pages and of successive
/// iterations differ.
std::uint64_t word(std::size_t index, int iteration) {
  return (index + 1) * 0x9E3779B97F4A7C15U + static_cast<std::uint64_t>(iteration) * 0xD1B54A32D192ED03U;
}

void fill(std::vector<std::uint64_t>& words, int iteration) {
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = word(i, iteration);
}

bool right(const std::vector<std::uint64_t>& words, std::size_t whole_words, int iteration) {
  for (std::size_t i = 0; i < whole_words; ++i)
    if (words[i] != word(i, iteration)) return false;
  return true;
}

void broadcast(std::byte* bytes, std::size_t size) {
  for (std::size_t at = 0; at < size; at += kPieceBytes)
    MPI_Bcast(bytes + at, static_cast<int>(std::min(kPieceBytes, size - at)), MPI_BYTE, 0, MPI_COMM_WORLD);
}

/// Parses the command line. Errors: invalid_argument, with a message that names the wrong option.
rdmc::Result<Options> parse(int count, char** arguments) {
  Options options;
  const auto wrong = [](std::string what) {
    return rdmc::fail(rdmc::Errc::invalid_argument, std::move(what));
  };
  for (int i = 1; i < count; i += 2) {
    const std::string name = arguments[i];
    if (name != "--size" && name != "--iterations" && name != "--barrier") return wrong(name + " is unknown");
    if (i + 1 == count) return wrong(name + " needs a value");
    const auto value = rdmc::parse_size(arguments[i + 1]);
    if (!value) return wrong(name + ": " + value.error().what);
    const bool fits = name == "--size" || *value <= std::numeric_limits<int>::max();
    if (*value == 0 || !fits) return wrong(name + ": " + arguments[i + 1] + " is out of range");
    if (name == "--size")
      options.size = *value;
    else if (name == "--barrier")
      options.barrier = true;
    else
      options.iterations = static_cast<int>(*value);
  }
  return options;
}

struct Measured {
  std::vector<double> seconds;  ///< In ascending order.
  double cpu = 0;               ///< The user and system time of all ranks in the timed part.
  bool intact = true;
};

Measured measure(const Options& options, int rank) {
  // The program compares whole words. So up to seven additional bytes are sent at the end.
  std::vector<std::uint64_t> words((options.size + 7) / 8);
  Measured result;
  for (int iteration = -kWarmUps; iteration < options.iterations; ++iteration) {
    if (rank == 0)
      fill(words, iteration);
    else
      std::fill(words.begin(), words.end(), 0);
    MPI_Barrier(MPI_COMM_WORLD);
    const double cpu_before = cpu_seconds(), start = now();
    broadcast(reinterpret_cast<std::byte*>(words.data()), options.size);
    if (options.barrier) MPI_Barrier(MPI_COMM_WORLD);
    const double end = now(), cpu = cpu_seconds() - cpu_before;

    double root_start = start, last_end = 0, all_cpu = 0;
    MPI_Bcast(&root_start, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    MPI_Allreduce(&end, &last_end, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(&cpu, &all_cpu, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    int mine = right(words, options.size / 8, iteration), all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    result.intact = result.intact && all == 1;
    if (iteration < 0) continue;
    result.seconds.push_back(last_end - root_start);
    result.cpu += all_cpu;
  }
  std::sort(result.seconds.begin(), result.seconds.end());
  return result;
}

void print(const Options& options, int members, const Measured& measured) {
  const auto& sorted = measured.seconds;
  double sum = 0;
  for (const double seconds : sorted) sum += seconds;
  const double median = sorted[sorted.size() / 2];
  const std::size_t p99 = std::min(sorted.size() - 1, sorted.size() * 99 / 100);
  std::printf(
      "{\"members\":%d,\"size_bytes\":%zu,\"iterations\":%zu,\"mean_seconds\":%.9f,\"median_seconds\":%.9f,"
      "\"p99_seconds\":%.9f,\"goodput_gbps\":%.3f,\"cpu_seconds\":%.6f}\n",
      members, options.size, sorted.size(), sum / static_cast<double>(sorted.size()), median, sorted[p99],
      static_cast<double>(options.size) * 8 / median / 1e9, measured.cpu);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, members = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &members);
  int status = 0;
  if (const auto options = parse(argc, argv)) {
    const Measured measured = measure(*options, rank);
    if (rank == 0) print(*options, members, measured);
    if (!measured.intact) {
      if (rank == 0) std::fputs("mpi_bcast: what arrived is not what was sent\n", stderr);
      status = 2;
    }
  } else {
    if (rank == 0) {
      std::fprintf(stderr, "mpi_bcast: %s\nusage: mpi_bcast [--size BYTES] [--iterations I] [--barrier 1]\n",
                   options.error().what.c_str());
    }
    status = 1;
  }
  MPI_Finalize();
  return status;
}
