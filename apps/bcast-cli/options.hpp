// The command line of rdmc_bcast as values. One parser decides which program this process is: sender, agent,
// key generator, or a receiver that a sender with --local started. The parser checks everything that can be
// checked without access to the source, the destination or the network. Its only I/O is reading the files
// that ^FILE in a hostlist and --topology name.
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

/// The exit code of the process. It is part of the interface.
enum class ExitCode : int {
  success = 0,  ///< every receiver has the file
  usage = 1,
  local_error = 2,  ///< an error of the source or of this machine
  some_failed = 3,  ///< some receivers failed or refused
  all_failed = 4,
  all_refused = 5,  ///< all receivers refused because of authentication
  interrupted = 130,
};

constexpr std::uint32_t kMaxLocalReceivers = 256;
constexpr Duration kDefaultSuspectAfter = milliseconds(600);
constexpr Duration kDefaultConnectWithin = seconds(5);

struct SendOptions {
  std::string source;
  std::string destination;
  std::vector<control::Host> hosts;   ///< the hosts of -w without the hosts of -x; empty with --local
  std::uint32_t local_receivers = 0;  ///< 0 without --local
  std::string launch;  ///< the launcher whose tasks send and receive; empty with agents or with --local
  FabricChoice fabric;
  /// Empty with --local. With `launch` it may be empty. Then the default key file is used.
  control::Identity identity;
  bool overwrite = false;
  bool json = false;
  bool dry_run = false;
  std::optional<relay::Algorithm> algorithm;  ///< empty means auto
  std::optional<Topology> topology;           ///< the value of --topology; if empty, racks follow from the
                                              ///< addresses
  std::optional<std::uint32_t> block_size;    ///< empty means auto
  std::optional<std::uint64_t> uplink_rate;   ///< the rate of a rack's uplink in bits per second, used by
                                              ///< auto
  Duration suspect_after = kDefaultSuspectAfter;
  Duration connect_within = kDefaultConnectWithin;
  std::optional<std::uint64_t> limit_rate;  ///< in bits per second
};

struct AgentOptions {
  Address listen;
  std::string root;
  FabricChoice fabric;
  control::Identity identity;
  bool json = false;
};

struct KeygenOptions {
  /// The file that is made for the key. Only its owner can read it. If `file` is empty, the key is printed.
  /// If `rotate` is set, `file` is an existing key file that is changed.
  std::string file;
  bool json = false;
  /// A step that changes the existing `file`: add appends a new key, promote makes the last key the first
  /// one, and retire removes all keys except the first one.
  enum class Step : std::uint8_t { add, promote, retire };
  std::optional<Step> rotate;
};

/// The options of a receiver that --local started. Secrets come through inherited descriptors (see
/// local_receivers.hpp).
struct LocalReceiverOptions {
  Address listen;
  std::string directory;
};

/// The answer to --help or --version. The program prints it on stdout and ends with success.
struct Information {
  std::string text;
};

using Command = std::variant<SendOptions, AgentOptions, KeygenOptions, LocalReceiverOptions, Information>;

/// The first argument with which a sender starts its own receivers. The address and the directory follow it.
/// Users do not need this argument.
constexpr const char* kLocalReceiverArgument = "--local-receiver";

/// Parses `arguments`, which must not contain the program's name. Errors: invalid_argument if the command
/// line is wrong (the error's text names the option), and the errors of `reader`.
Result<Command> parse_command_line(const std::vector<std::string>& arguments,
                                   const control::ListReader& reader);

}  // namespace rdmc::bcast
