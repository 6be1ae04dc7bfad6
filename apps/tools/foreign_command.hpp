// What the programs for strangers have in common on their command lines: options, how addresses are
// understood, exit codes, and the part of the report that every queue pair has. Used by the main thread.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "apps/tools/foreign_host.hpp"
#include "apps/tools/foreign_options.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::tools {

class ForeignCommand {
 public:
  /// How it reads in --help and in complaints.
  struct Words {
    std::string program;          ///< "rdmc_ping"
    std::string purpose;          ///< one sentence
    std::string server, address;  ///< of SERVER and --address
  };

  /// `options` outlives this; parse() fills it in.
  ForeignCommand(Words words, ForeignOptions& options);

  /// For the options that only this program has; they stand between the common ones in --help.
  CLI::App& app() { return app_; }
  /// --fabric, for options that say the same in another way.
  CLI::Option* fabric() { return fabric_; }
  bool is_server() const { return server_.empty(); }
  bool names_address() const { return !address_.empty(); }
  bool json() const { return json_; }

  /// The exit code when there is nothing to run: 0 after --help and --version, 1 for wrong usage, told on
  /// stderr. `port`: of a SERVER that names none, read once the options are known. `check` throws
  /// CLI::ParseError for what is wrong with several options together.
  std::optional<int> parse(int argc, char** argv, const std::uint16_t& port,
                           const std::function<void()>& check = {});
  /// Says on stderr that the run failed, and with --json what went over the wire until then; the exit
  /// code, 2.
  int failed(const Error& error, const WireCounters& wire) const;

 private:
  Words words_;
  ForeignOptions& options_;
  CLI::App app_;
  CLI::Option* fabric_;
  std::string server_, address_;
  bool json_ = false;
};

/// "client" or "server".
const char* role(const ForeignOptions& options);

/// As both programs report it.
nlohmann::ordered_json json_of(const WireCounters& wire);

}  // namespace rdmc::tools
