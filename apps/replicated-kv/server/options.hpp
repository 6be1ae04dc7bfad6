// The command line of rdmc_kv.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "apps/replicated-kv/log/state_log.hpp"
#include "apps/replicated-kv/server/tls.hpp"
#include "controlplane/connect/identity.hpp"
#include "dataplane/base/address.hpp"

namespace rdmc::kv {

struct ServeOptions {
  Address listen;
  std::vector<Address> members;  ///< in the order of their addresses; empty for a server that is alone
  std::size_t self = 0;          ///< the index of this server in `members`
  std::size_t least_replicas = 0;
  Milliseconds unavailable_after = 2000;
  std::string directory;  ///< where the state is kept; empty if it is only in memory
  Syncs syncs = Syncs::every_second;
  std::string maxmemory = "0", maxmemory_policy = "noeviction";  ///< as for CONFIG SET
  bool names_memory_limit = false;                               ///< the command line has one of these two
  std::string fabric;
  std::string acl_file, requirepass_file;  ///< empty if there is none
  std::optional<std::uint16_t> tls_port;   ///< nullopt: clients cannot use TLS
  bool tls_only = false;
  TlsOptions tls;
  std::string metrics;  ///< "[ADDR:]PORT" for Prometheus; empty for none
  control::Identity identity;
  bool json = false;

  bool is_alone() const { return members.empty(); }
};

/// rdmc_kv status.
struct StatusOptions {
  Address server;
  std::string user = "default", password_file;  ///< the file is empty if the servers need no password
  TlsClientOptions tls;                         ///< without an authority, there is no TLS
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
