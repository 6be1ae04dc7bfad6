// `example [LAUNCHER]` runs in each process that mpirun, srun or RDMC_HOSTS names. The processes keep a list
// of lines alike. A line that is typed at one of them is an event, and is printed there as soon as no death
// can make it lost. The line "show" prints the whole list. If a process is killed, the others go on. A
// process that is started later gets the list from the others.
#include <poll.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <map>
#include <rdmc/replicated_state.hpp>
#include <string>
#include <vector>

namespace {

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The state, and one function for each kind of change.
struct List {
  std::vector<std::string> lines;
  std::map<std::uint64_t, std::string> unanswered;  // own lines that may still be lost, by their positions
  std::string unfinished;
  bool has_ended = false;

  void on(const rdmc::OrderedEvent& event) {
    lines.emplace_back(text_of(event.bytes));
    if (event.own_number != 0) unanswered[event.position] = lines.back();
  }
  void on(const rdmc::StableEvents& stable) {
    for (; !unanswered.empty() && unanswered.begin()->first < stable.position;
         unanswered.erase(unanswered.begin()))
      std::printf("added: %s\n", unanswered.begin()->second.c_str());
  }
  void on(const rdmc::ReplicaStatus& status) {
    if (status.is_complete)
      std::printf("%s of %u\n", status.is_main ? "main" : "replica", status.complete_replicas);
  }
  void on(rdmc::SaveState& save) {
    std::string all;
    for (const std::string& line : lines) all += line + "\n";
    const auto bytes = std::as_bytes(std::span(all));
    save.to.write({bytes.begin(), bytes.end()});
    save.to.finish();
  }
  void on(const rdmc::LoadState& load) {
    if (load.step == rdmc::LoadState::Step::begin) {
      lines.clear();
      unfinished.clear();
    }
    for (const char c : text_of(load.bytes)) {
      if (c == '\n')
        lines.push_back(std::exchange(unfinished, {}));
      else
        unfinished += c;
    }
  }
  void on(const rdmc::StateEnded& end) {
    std::printf("ended: %s\n", end.cause.what.c_str());
    has_ended = true;
  }
};

bool has_input() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return std::cin.rdbuf()->in_avail() > 0 || ::poll(&input, 1, 0) > 0;
}

}  // namespace

int main(int argc, char** argv) {
  const auto job = rdmc::launched_job({.launcher = argc > 1 ? argv[1] : "auto"});
  if (!job) return std::fprintf(stderr, "%s\n", job.error().what.c_str()), 1;
  const auto options = rdmc::membership_options(*job);
  if (!options) return std::fprintf(stderr, "%s\n", options.error().what.c_str()), 1;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const auto membership = rdmc::Membership::join(*options, {});
  if (!membership) return std::fprintf(stderr, "%s\n", membership.error().what.c_str()), 2;
  const auto state = rdmc::ReplicatedState::open(
      **membership, {.number = rdmc::GroupNumber{1}, .first_replicas = job->members.size()});
  if (!state) return std::fprintf(stderr, "%s\n", state.error().what.c_str()), 3;

  List list;
  while (!list.has_ended) {
    if (auto change = (*state)->take(rdmc::milliseconds(20)))
      std::visit([&](auto& one) { list.on(one); }, *change);
    else if (has_input()) {
      std::string line;
      if (!std::getline(std::cin, line)) return 0;
      if (line == "show")
        for (const std::string& one : list.lines) std::printf("- %s\n", one.c_str());
      else if (const auto number = (*state)->submit(std::as_bytes(std::span(line))); !number)
        std::printf("not added: %s\n", number.error().what.c_str());
    }
  }
}
