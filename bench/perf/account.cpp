#include "bench/perf/account.hpp"

#include <sys/resource.h>

namespace rdmc::perf {
namespace {

/// Returns the user and system time of this process.
double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds_of = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

}  // namespace

void Account::start() {
  at_start_ = cpu_seconds();
}

void Account::end() {
  figures_.cpu_seconds += cpu_seconds() - at_start_;
}

}  // namespace rdmc::perf
