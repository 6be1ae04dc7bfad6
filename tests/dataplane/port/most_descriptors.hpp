// Limits the number of this process's file descriptors (ulimit -n) while the object exists.
#pragma once

#include <sys/resource.h>

namespace rdmc::port::test {

class MostDescriptors {
 public:
  explicit MostDescriptors(rlim_t most) {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit now{.rlim_cur = most, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &now);
  }
  ~MostDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  MostDescriptors(const MostDescriptors&) = delete;
  MostDescriptors& operator=(const MostDescriptors&) = delete;

 private:
  rlimit before_{};
};

}  // namespace rdmc::port::test
