// The common command line of rdmc_pingpong and rdmc_ping, which talk to foreign endpoints: options, parsing
// of addresses, exit codes, and the part of the report that every queue pair has. Used by the main thread.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "apps/program/output.hpp"
#include "apps/tools/foreign_host.hpp"
#include "apps/tools/foreign_options.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::tools {

class ForeignCommand {
 public:
  /// The texts for --help and for error messages.
  struct Words {
    std::string purpose;          ///< One sentence about the program.
    std::string server, address;  ///< Descriptions of SERVER and --address.
  };

  /// `options` must outlive this object. parse() fills `options` in.
  ForeignCommand(Words words, ForeignOptions& options);

  /// Returns the parser, to which a program adds its own options. They appear between the common options in
  /// --help.
  CLI::App& app() { return app_; }
  /// Returns the option --fabric, for options that exclude it.
  CLI::Option* fabric() { return fabric_; }
  bool is_server() const { return server_.empty(); }
  bool names_address() const { return !address_.empty(); }
  bool json() const { return json_; }

  /// Parses the command line. Returns the exit code if the program must end: 0 after --help and --version, 1
  /// for wrong usage, which is reported on stderr. `port` is the default port of SERVER. It is read after the
  /// options are parsed. `check` throws CLI::ParseError if options contradict each other.
  std::optional<int> parse(int argc, char** argv, const std::uint16_t& port,
                           const std::function<void()>& check = {});
  /// Reports on stderr that the run failed. With --json, also prints the packet counters up to now. Returns
  /// the exit code 2.
  int failed(const Error& error, const WireCounters& wire) const;

 private:
  Words words_;
  ForeignOptions& options_;
  CLI::App app_;
  CLI::Option* fabric_;
  std::string server_, address_;
  bool json_ = false;
};

/// Returns "client" or "server".
const char* role(const ForeignOptions& options);

/// Returns the counters in the form in which both programs report them.
Json json_of(const WireCounters& wire);

}  // namespace rdmc::tools
