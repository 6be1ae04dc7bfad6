// An Assignment says which rank and which replica a process of a run is, and has the settings of the run.
// rdmc_run passes it to each process in the environment, and the process reads it when its Job starts. The
// functions are pure, and any thread may call them. The environment has these variables, and all of them are
// set or none:
//
//     RDMC_RUN_LAUNCHER   the address at which rdmc_run listens: "127.0.0.1:40123"
//     RDMC_RUN_NAME       the name of the run: 32 hexadecimal digits, different for each run
//     RDMC_RUN_RANK       the rank of the process
//     RDMC_RUN_REPLICA    the number of the replica
//     RDMC_RUN_DEGREES    the degree of each rank: "2x4,1" means four ranks of degree 2 and one of degree 1
//     RDMC_RUN_PROTOCOL   the protocol of the replicas: "sdr"
//     RDMC_RUN_OPTIONS    further settings: "agree=time,random;lag=65536;strict=1"
//     RDMC_RUN_KEY_FD     the number of the descriptor from which the process reads the key of the run
//     RDMC_RUN_FORK_FD    the number of the descriptor socket (descriptor_socket.hpp), or -1 if the process
//                         will never be forked as a new replica
//
// The key itself is never in the environment, because other processes of the user can read that.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "controlplane/launch/job.hpp"
#include "dataplane/base/address.hpp"
#include "dataplane/base/error.hpp"
#include "lib/replica/layout.hpp"

namespace rdmc::replica {

/// The beginning of the names of all variables. rdmc_run removes variables with this prefix from the
/// environment that it passes on, so that a run inside a run gets its own values only.
inline constexpr std::string_view kVariablePrefix = "RDMC_RUN_";

/// The names of the settings in Assignment::options. A setting that is absent has its default.
namespace option {
inline constexpr std::string_view kStrict = "strict";  ///< "1": sends complete after acknowledgements only
inline constexpr std::string_view kLag = "lag";        ///< the bytes by which a shadow may lag behind
inline constexpr std::string_view kAgree = "agree";    ///< a list of "time", "random" and "tests"
inline constexpr std::string_view kVerify = "verify";  ///< "hash": the replicas compare their messages
/// Messages that are not compared: "tag=5,communicator=2"
inline constexpr std::string_view kVerifyExcept = "verify-except";
/// A folder in which each process logs what it sends (send_log.hpp)
inline constexpr std::string_view kLogSends = "log-sends";
inline constexpr std::string_view kPerturb = "perturb";  ///< the seed of a Perturbation
inline constexpr std::string_view kFabric = "fabric";    ///< the fabric of the data path
}  // namespace option

/// The limits for the settings. A setting that exceeds them counts as damaged.
inline constexpr std::size_t kMostOptions = 64, kMostOptionBytes = 1024, kMostNameBytes = 64;

struct Assignment {
  Layout layout;
  ReplicaId self;
  std::string protocol;
  /// The settings. Keys have the characters a-z, 0-9, '-' and '_'. Values have any printable ASCII character
  /// except ';'.
  std::map<std::string, std::string, std::less<>> options;
  Address launcher;
  std::string run;  ///< the name of the run
  int key_descriptor = -1;
  int fork_descriptor = -1;  ///< -1 if the process will never be forked as a new replica

  ProcessId process() const { return layout.process(self); }
  /// Returns the value of a setting, or an empty text if it is absent.
  std::string_view option(std::string_view key) const {
    const auto found = options.find(key);
    return found == options.end() ? std::string_view() : std::string_view(found->second);
  }

  friend bool operator==(const Assignment&, const Assignment&) = default;
};

/// Returns the variables for the environment of the process. Errors: invalid_argument if a value cannot be
/// written so that assignment_of() reads the same value again.
Result<std::vector<std::pair<std::string, std::string>>> variables_of(const Assignment& assignment);

/// Reads the variables. Returns nullopt if rdmc_run has not started this process, so none of the variables is
/// set. Errors: invalid_argument if a variable is absent or damaged; the text names the variable.
Result<std::optional<Assignment>> assignment_of(const control::Variables& variables);

}  // namespace rdmc::replica
