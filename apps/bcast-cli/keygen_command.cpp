// rdmc_bcast keygen, and what all commands share: keys and complaints.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <utility>

#include "apps/bcast-cli/commands.hpp"
#include "apps/bcast-cli/events.hpp"
#include "controlplane/auth/cluster_key.hpp"

namespace rdmc::bcast {

void complain(const Error& error) {
  const auto text = printable(complaint(error)) + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
}

Result<control::Security> security_of(const std::string& key_file, bool insecure) {
  if (insecure) return control::Insecure{};
  const auto key = control::ClusterKey::load(std::filesystem::path(key_file));
  if (!key) return std::unexpected(key.error());
  auto context = control::TlsContext::create(*key);
  if (!context) return std::unexpected(context.error());
  return control::Security(std::move(*context));
}

ExitCode run_keygen(const KeygenOptions& options) {
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
