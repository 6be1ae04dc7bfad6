// Measures the CPU time of a member's timed parts.
#pragma once

#include "bench/perf/rendezvous.hpp"

namespace rdmc::perf {

class Account {
 public:
  explicit Account(MemberFigures& figures) : figures_(figures) {}
  void start();
  void end();

 private:
  MemberFigures& figures_;
  double at_start_ = 0;
};

}  // namespace rdmc::perf
