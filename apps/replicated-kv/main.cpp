// rdmc_kv: a replicated key-value service. docs/kv.md is its guide. The exit codes are in its help.
#include <csignal>

#include "apps/program/output.hpp"
#include "apps/program/stop_signals.hpp"
#include "apps/replicated-kv/server/options.hpp"
#include "apps/replicated-kv/server/server.hpp"
#include "apps/replicated-kv/server/status.hpp"

int main(int argc, char** argv) {
  using namespace rdmc;
  // OpenSSL writes to sockets without MSG_NOSIGNAL.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // A file that may not become longer is an error like a full disk.
  const auto wanted = kv::parse_command_line(argc, argv);
  if (const auto* const end = std::get_if<kv::EndNow>(&wanted)) return end->code;
  if (const auto* const status = std::get_if<kv::StatusOptions>(&wanted)) {
    const auto shown = kv::show_status(*status);
    return shown ? *shown : complain(shown.error(), kv::kFailed);
  }
  auto signals = StopSignals::block();
  if (!signals) return complain(signals.error(), kv::kFailed);
  const auto served = kv::serve(std::get<kv::ServeOptions>(wanted), *signals);
  return served ? kv::kDone : complain(served.error(), kv::kFailed);
}
