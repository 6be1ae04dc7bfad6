// rdmc_run: starts the ranks of a program, each with several replicas, and merges their output. The exit
// codes are in its help.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "apps/program/output.hpp"
#include "apps/run/determinism.hpp"
#include "apps/run/guardian.hpp"
#include "apps/run/options.hpp"
#include "apps/run/runner.hpp"
#include "apps/run/runs_folder.hpp"

namespace {

using namespace rdmc;
using namespace rdmc::run;

/// The time that the last output may take after an interrupt, in seconds.
constexpr unsigned kLastWords = 1;

int run_program(const RunOptions& options) {
  const auto settings = prepare_process();
  if (!settings) return complain(settings.error(), kCannotStart);
  auto guardian = Guardian::start();
  if (!guardian) return complain(guardian.error(), kCannotStart);
  auto runner = Runner::create(options, *settings, *guardian);
  if (!runner) return complain(runner.error(), kCannotStart);
  const int code = (*runner)->run();
  if ((*runner)->was_interrupted()) {
    // The destructor waits for the reader of the output, which may have stopped reading.
    ::signal(SIGALRM, [](int) { ::_exit(kInterrupted); });
    ::alarm(kLastWords);
  }
  runner->reset();
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  // The descriptors 0 to 2 must be open, so that no other file gets one of these numbers.
  for (int fd = 0; fd >= 0 && fd <= STDERR_FILENO;) fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  const auto wanted = parse_command_line(argc, argv);
  if (const auto* const end = std::get_if<EndNow>(&wanted)) return end->code;
  if (const auto* const list = std::get_if<ListOptions>(&wanted)) return print_runs(list->json);
  const auto& options = std::get<RunOptions>(wanted);
  return options.runs != 0 ? check_determinism(options, run_program) : run_program(options);
}
