// The command line of rdmc_kv.
#pragma once

#include <string>
#include <vector>

#include "apps/replicated-kv/data/database.hpp"
#include "controlplane/connect/identity.hpp"
#include "dataplane/base/address.hpp"

namespace rdmc::kv {

struct ServeOptions {
  Address listen;
  std::vector<Address> members;  ///< in the order of their addresses; empty for a server that is alone
  std::size_t self = 0;          ///< the index of this server in `members`
  std::size_t least_replicas = 0;
  Milliseconds unavailable_after = 2000;
  std::string maxmemory = "0", maxmemory_policy = "noeviction";  ///< as for CONFIG SET
  std::string fabric;
  std::string metrics;  ///< "[ADDR:]PORT" for Prometheus; empty for none
  control::Identity identity;
  bool json = false;

  bool is_alone() const { return members.empty(); }
};

/// rdmc_kv status.
struct StatusOptions {
  Address server;
  bool json = false;
};

/// The end of the program without serving: after --help, or after a mistake.
struct EndNow {
  int code;
};

inline constexpr int kDone = 0, kUsage = 1, kFailed = 2, kIncomplete = 3;
/// The control port number of a server is its client port number plus this, as the bus port number of Redis
/// Cluster is.
inline constexpr std::uint16_t kControlPortOffset = 10000;

std::variant<ServeOptions, StatusOptions, EndNow> parse_command_line(int argc, char** argv);

}  // namespace rdmc::kv
