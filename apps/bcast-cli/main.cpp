// rdmc_bcast sends a file to many hosts. Every receiver also passes on the blocks that it has.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <variant>
#include <vector>

#include "apps/bcast-cli/commands.hpp"
#include "apps/bcast-cli/file_io.hpp"
#include "apps/program/output.hpp"

namespace {

using namespace rdmc;
using namespace rdmc::bcast;

/// The largest size of a hostlist file. It is larger than any hostlist that can be used.
constexpr std::size_t kMaxHostFile = 4 << 20;

ExitCode run(const SendOptions& options) {
  return options.launch.empty() ? run_send(options) : run_launched(options);
}
ExitCode run(const AgentOptions& options) {
  return run_agent(options);
}
ExitCode run(const KeygenOptions& options) {
  return run_keygen(options);
}
ExitCode run(const LocalReceiverOptions& options) {
  return run_local_receiver(options);
}
ExitCode run(const Information& information) {
  std::fputs(information.text.c_str(), stdout);
  return ExitCode::success;
}

}  // namespace

int main(int argc, char** argv) {
  // Opens the standard descriptors if the process was started without them. Otherwise files that are opened
  // later would get their numbers, and output would be written into those files.
  for (int fd = 0; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) < 0) (void)::open("/dev/null", O_RDWR);
  }
  // A broken pipe and a file size limit then appear as errors of a call, and do not end the process.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    const auto command =
        parse_command_line(std::vector<std::string>(argv + 1, argv + argc),
                           [](const std::string& path) { return read_small_file(path, kMaxHostFile); });
    if (!command) {
      complain(command.error());
      std::fputs("Run 'rdmc_bcast --help' for the options.\n", stderr);
      return static_cast<int>(ExitCode::usage);
    }
    return static_cast<int>(std::visit([](const auto& options) { return run(options); }, *command));
  } catch (const std::exception& error) {  // These are std::bad_alloc, and exceptions of libraries when there
                                           // is no memory.
    complain({Errc::resource_limit, error.what()});
    return static_cast<int>(ExitCode::local_error);
  }
}
