// The command line of rdmc_bcast as values. One parser decides which program this is - sender, agent, key
// generator, or a receiver that a sender with --local started - and checks everything that can be checked
// without touching the source, the destination or the network. Pure but for the files that ^FILE names in a
// hostlist and that --topology names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "apps/bcast-cli/fabric_choice.hpp"
#include "apps/bcast-cli/file_shape.hpp"
#include "apps/bcast-cli/topology.hpp"
#include "controlplane/connect/identity.hpp"
#include "controlplane/launch/hostlist.hpp"
#include "dataplane/base/address.hpp"
#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"
#include "dataplane/relay/algorithm.hpp"

namespace rdmc::bcast {

/// What the process returns; part of the contract.
enum class ExitCode : int {
  success = 0,  ///< every receiver has the file
  usage = 1,
  local_error = 2,  ///< the source, or this machine
  some_failed = 3,  ///< some receivers failed or refused
  all_failed = 4,
  all_refused = 5,  ///< authentication
  interrupted = 130,
};

constexpr std::uint32_t kMaxLocalReceivers = 256;
constexpr Duration kDefaultSuspectAfter = milliseconds(600);
constexpr Duration kDefaultConnectWithin = seconds(5);

struct SendOptions {
  std::string source;
  std::string destination;
  std::vector<control::Host> hosts;   ///< of -w without -x; empty with --local
  std::uint32_t local_receivers = 0;  ///< 0 = not --local
  std::string launch;                 ///< the engine whose tasks send and receive; empty: agents, or --local
  FabricChoice fabric;
  control::Identity identity;  ///< empty with --local; with `launch`, the key file that is where it always is
  bool overwrite = false;
  bool json = false;
  bool dry_run = false;
  std::optional<relay::Algorithm> algorithm;  ///< none: auto
  std::optional<Topology> topology;           ///< of --topology; else addresses tell
  std::optional<std::uint32_t> block_size;    ///< none: auto
  std::optional<std::uint64_t> uplink_rate;   ///< of a rack, bits per second: for auto
  Duration suspect_after = kDefaultSuspectAfter;
  Duration connect_within = kDefaultConnectWithin;
  std::optional<std::uint64_t> limit_rate;  ///< bits per second
};

struct AgentOptions {
  Address listen;
  std::string root;
  FabricChoice fabric;
  control::Identity identity;
  bool json = false;
};

struct KeygenOptions {
  std::string file;  ///< made for the key, readable by its owner alone; empty: the key is printed
  bool json = false;
  /// Changes `file` instead: its last key becomes the first; the first alone is kept.
  enum class Step : std::uint8_t { add, promote, retire };
  std::optional<Step> rotate;
};

/// A receiver started by --local; what is secret comes through inherited descriptors (local_receivers.hpp).
struct LocalReceiverOptions {
  Address listen;
  std::string directory;
};

/// --help, --version: print it on stdout and end with success.
struct Information {
  std::string text;
};

using Command = std::variant<SendOptions, AgentOptions, KeygenOptions, LocalReceiverOptions, Information>;

/// The first argument with which a sender starts its own receivers, before address and directory; not for
/// people.
constexpr const char* kLocalReceiverArgument = "--local-receiver";

/// `arguments` without the program's name. Errors: invalid_argument, naming the option, and what `reader`
/// fails with.
Result<Command> parse_command_line(const std::vector<std::string>& arguments,
                                   const control::ListReader& reader);

}  // namespace rdmc::bcast
