#include "apps/run/determinism.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "apps/program/output.hpp"
#include "apps/run/run_state.hpp"
#include "apps/run/send_order.hpp"
#include "dataplane/base/descriptor.hpp"
#include "lib/replica/assignment.hpp"

namespace rdmc::run {
namespace {

namespace setting = replica::option;

/// A folder that is removed with everything in it.
struct Folder {
  static Result<Folder> create() {
    std::string path = (std::filesystem::temp_directory_path() / "rdmc-run-XXXXXX").string();
    if (::mkdtemp(path.data()) == nullptr) return fail_errno("cannot make a folder for the logs", errno);
    return Folder{path};
  }
  Result<std::string> make(const std::string& name) const {
    const std::string made = path + "/" + name;
    if (::mkdir(made.c_str(), S_IRWXU) != 0) return fail_errno(made, errno);
    return made;
  }
  void remove() const {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string path;
};

/// A verdict is what the runs have in common. A later run can only weaken it.
struct Verdict {
  struct Where {
    std::uint32_t rank = 0;
    int run = 0;
    SendMismatch mismatch;
  };
  SendOrder order = SendOrder::process;
  std::optional<Where> mismatch{}, content{};
  std::uint64_t sends = 0;  ///< of all ranks in the first run
  bool is_cut = false;      ///< a rank has sent more than is compared
};

/// Makes one run in a child process, and returns its exit code. The signals that end rdmc_run are passed on.
int run_in_child(const RunOptions& options, int (*run)(const RunOptions&), const sigset_t& signals) {
  const pid_t parent = ::getpid(), child = ::fork();
  if (child < 0) return complain(fail_errno("fork", errno).error(), kCannotStart);
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(kInterrupted);
    ::sigprocmask(SIG_UNBLOCK, &signals, nullptr);
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) {
      ::dup2(null, STDIN_FILENO);
      ::dup2(null, STDOUT_FILENO);
    }
    ::_exit(run(options));
  }
  for (;;) {
    const int signal = ::sigwaitinfo(&signals, nullptr);
    if (signal > 0 && signal != SIGCHLD) ::kill(child, signal);
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) == child)
      return WIFEXITED(status) ? WEXITSTATUS(status) : kInterrupted;
  }
}

Result<void> compare(const std::string& reference, const std::string& other, std::uint32_t ranks, int run,
                     Verdict& verdict) {
  verdict.sends = 0;
  for (std::uint32_t i = 0; i < ranks; ++i) {
    const auto first = replica::SendLog::read(reference, Rank{i});
    if (!first) return std::unexpected(first.error());
    const auto second = replica::SendLog::read(other, Rank{i});
    if (!second) return std::unexpected(second.error());
    verdict.sends += first->size();
    verdict.is_cut = verdict.is_cut || first->size() == replica::SendLog::kMostSends;
    const auto result = compare_sends(*first, *second);
    if (result.order > verdict.order) {
      verdict.order = result.order;
      verdict.mismatch = {.rank = i, .run = run, .mismatch = *result.mismatch};
    }
    if (result.content && !verdict.content)
      verdict.content = {.rank = i, .run = run, .mismatch = *result.content};
  }
  return {};
}

const char* name_of(SendOrder order) {
  switch (order) {
    case SendOrder::process: return "process";
    case SendOrder::channel: return "channel";
    case SendOrder::none: break;
  }
  return "none";
}

void print_text(const Verdict& verdict, int runs, std::uint32_t ranks) {
  std::string text = fmt::format("{} runs of {} ranks, with {} messages\n", runs, ranks, verdict.sends);
  switch (verdict.order) {
    case SendOrder::process:
      text += "send-deterministic: each rank has sent the same messages in the same order\n";
      break;
    case SendOrder::channel:
      text +=
          "deterministic in each channel: each rank has sent the same messages to each rank with each tag, "
          "in "
          "different orders\n";
      break;
    case SendOrder::none:
      text += "not deterministic: a rank has sent different messages, so it cannot have replicas\n";
      break;
  }
  const auto add = [&](const char* what, const std::optional<Verdict::Where>& where) {
    if (where)
      text += fmt::format("{} (rank {}, runs 0 and {}): {}\n", what, where->rank, where->run,
                          describe(where->mismatch));
  };
  add("the first difference", verdict.mismatch);
  add("the first message with other content", verdict.content);
  if (verdict.is_cut)
    text +=
        fmt::format("only the first {} messages of each rank were compared\n", replica::SendLog::kMostSends);
  std::fputs(text.c_str(), stdout);
}

Json json_of(const std::optional<Verdict::Where>& where) {
  if (!where) return nullptr;
  const auto message = [](const std::optional<replica::LoggedSend>& send) -> Json {
    if (!send) return nullptr;
    return {{"destination", send->to},
            {"communicator", replica::communicator_of(send->context)},
            {"collective", replica::is_collective(send->context)},
            {"tag", send->tag},
            {"bytes", send->bytes}};
  };
  return {{"rank", where->rank},
          {"run", where->run},
          {"call", where->mismatch.call},
          {"first", message(where->mismatch.first)},
          {"second", message(where->mismatch.second)}};
}

int print(const Verdict& verdict, const RunOptions& options) {
  if (options.json)
    std::fputs(json_line({{"event", "determinism"},
                          {"runs", options.runs},
                          {"sends", verdict.sends},
                          {"same", name_of(verdict.order)},
                          {"difference", json_of(verdict.mismatch)},
                          {"content", json_of(verdict.content)},
                          {"cut", verdict.is_cut}})
                   .c_str(),
               stdout);
  else
    print_text(verdict, options.runs, options.layout.ranks());
  std::fflush(stdout);
  return verdict.order == SendOrder::none ? kDiffers : 0;
}

int check_in(const Folder& folder, const RunOptions& options, int (*run)(const RunOptions&),
             const sigset_t& signals) {
  Verdict verdict;
  std::string reference;
  for (int number = 0; number < options.runs; ++number) {
    const auto logs = folder.make(std::to_string(number));
    if (!logs) return complain(logs.error(), kCannotStart);
    RunOptions one = options;
    one.respawns = one.json = false;
    one.failures.reset();
    one.settings.insert_or_assign(std::string(setting::kLogSends), *logs);
    if (number != 0) one.settings.insert_or_assign(std::string(setting::kPerturb), std::to_string(number));
    if (const int code = run_in_child(one, run, signals); code != 0)
      return complain(fmt::format("run {} of the program has ended with exit code {}", number, code), code);
    if (number == 0) {
      reference = *logs;
      continue;
    }
    if (auto compared = compare(reference, *logs, options.layout.ranks(), number, verdict); !compared)
      return complain(compared.error(), kCannotStart);
    std::error_code ignored;
    std::filesystem::remove_all(*logs, ignored);
  }
  return print(verdict, options);
}

}  // namespace

int check_determinism(const RunOptions& options, int (*run)(const RunOptions&)) {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) ::sigaddset(&signals, signal);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  const auto folder = Folder::create();
  if (!folder) return complain(folder.error(), kCannotStart);
  const int code = check_in(*folder, options, run, signals);
  folder->remove();
  return code;
}

}  // namespace rdmc::run
