// A figure that a server gives to a monitor.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace rdmc::kv {

struct Figure {
  std::string name;         ///< as Prometheus names metrics
  std::string help;         ///< figures with one name have one text
  bool is_counter = false;  ///< it only grows, except after CONFIG RESETSTAT
  double value = 0;
  std::vector<std::pair<std::string, std::string>> labels{};
};

}  // namespace rdmc::kv
