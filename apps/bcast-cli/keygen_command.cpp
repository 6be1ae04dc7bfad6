// Implements rdmc_bcast keygen.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "apps/bcast-cli/commands.hpp"
#include "apps/program/output.hpp"
#include "controlplane/auth/cluster_key.hpp"

namespace rdmc::bcast {

namespace {

/// Performs one step of a key change. The file must reach all hosts before the next step.
Result<void> rotate(const std::string& file, KeygenOptions::Step step) {
  auto keys = control::ClusterKey::load(std::filesystem::path(file));
  if (!keys) return std::unexpected(keys.error());
  switch (step) {
    case KeygenOptions::Step::add: {
      auto key = control::ClusterKey::generate();
      if (!key) return std::unexpected(key.error());
      keys->push_back(std::move(*key));
      break;
    }
    case KeygenOptions::Step::promote:
      if (keys->size() < 2)
        return fail(Errc::invalid_argument, "key file " + file + ": no key was added to it");
      std::rotate(keys->begin(), keys->end() - 1, keys->end());
      break;
    case KeygenOptions::Step::retire: keys->erase(keys->begin() + 1, keys->end()); break;
  }
  return control::ClusterKey::replace(file, *keys);
}

}  // namespace

ExitCode run_keygen(const KeygenOptions& options) {
  if (options.rotate) {
    const auto done = rotate(options.file, *options.rotate);
    if (!done) complain(done.error());
    return done ? ExitCode::success : ExitCode::local_error;
  }
  const auto key = control::ClusterKey::generate();
  if (!key) {
    complain(key.error());
    return ExitCode::local_error;
  }
  if (!options.file.empty()) {
    const auto written = key->write(options.file);
    if (written) return ExitCode::success;
    complain(written.error());
    return ExitCode::local_error;
  }
  const auto line = options.json ? fmt::format("{{\"key\":\"{}\"}}\n", key->text()) : key->text() + "\n";
  if (std::fwrite(line.data(), 1, line.size(), stdout) == line.size() && std::fflush(stdout) == 0)
    return ExitCode::success;
  complain({Errc::io_error, "the key cannot be written"});
  return ExitCode::local_error;
}

}  // namespace rdmc::bcast
