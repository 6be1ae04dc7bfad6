// A process with one replica of a state, whose state is the list of all events: state_process STORE FIRST
// NAME. It submits the events "NAME:1", "NAME:2" and so on, one after the other was answered, until it gets a
// line on standard input. The second line names the process that submits the last event of all. When this
// event has come, each process prints all events and "end". The other lines that it prints are:
//   complete        this replica has the whole state
//   main            this replica is the main now
//   answered N T    event N was answered; T is the time in microseconds
//   stopped         this process submits no more numbered events
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <rdmc/replicated_state.hpp>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace rdmc;

constexpr std::string_view kLast = "the last event";

template <typename Value>
Value need(Result<Value> result) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "%s\n", result.error().what.c_str());
  std::_Exit(1);
}

long long now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

bool has_input() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return ::poll(&input, 1, 0) > 0;
}

struct Replica {
  explicit Replica(ReplicatedState& its_state) : state(its_state) {}

  void on(OrderedEvent& event) {
    events.emplace_back(reinterpret_cast<const char*>(event.bytes.data()), event.bytes.size());
    if (event.own_number != 0) unanswered[event.position] = event.own_number;
  }
  void on(StableEvents& stable) {
    for (; !unanswered.empty() && unanswered.begin()->first < stable.position;
         unanswered.erase(unanswered.begin())) {
      answered = unanswered.begin()->second;
      std::printf("answered %llu %lld\n", static_cast<unsigned long long>(answered), now_us());
    }
  }
  void on(ReplicaStatus& status) {
    if (status.is_complete && !std::exchange(is_complete, true)) std::puts("complete");
    if (status.is_main && !std::exchange(is_main, true)) std::puts("main");
  }
  void on(SaveState& save) {
    for (const std::string& event : events) {
      const std::string saved = event + "\n";
      const auto* const bytes = reinterpret_cast<const std::byte*>(saved.data());
      save.to.write({bytes, bytes + saved.size()});
    }
    save.to.finish();
  }
  void on(LoadState& load) {
    if (load.step == LoadState::Step::begin) {
      events.clear();
      line.clear();
    }
    for (const std::byte byte : load.bytes) {
      if (byte == std::byte{'\n'})
        events.push_back(std::exchange(line, {}));
      else
        line += static_cast<char>(byte);
    }
  }
  void on(StateEnded& end) {
    std::fprintf(stderr, "ended: %s\n", end.cause.what.c_str());
    std::_Exit(2);
  }
  void take(Duration longest) {
    if (auto change = state.take(longest)) std::visit([this](auto& one) { on(one); }, *change);
  }

  ReplicatedState& state;
  std::vector<std::string> events;
  std::map<std::uint64_t, std::uint64_t> unanswered;
  std::uint64_t answered = 0;
  bool is_complete = false, is_main = false;
  std::string line;
};

}  // namespace

int main(int, char** words) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::string name = words[3];
  const auto membership = need(Membership::join({.group = "states",
                                                 .name = name,
                                                 .store = {.nodes = {need(parse_address(words[1], 0))}},
                                                 .insecure = true,
                                                 .lease = milliseconds(150)},
                                                {}));
  ReplicatedStateOptions options{.number = GroupNumber{1}};
  options.first_replicas = std::strtoul(words[2], nullptr, 10);
  const auto state = need(ReplicatedState::open(*membership, options));
  Replica replica(*state);
  while (!replica.is_complete) replica.take(seconds(1));
  for (std::uint64_t number = 1; !has_input(); ++number) {
    const std::string event = name + ":" + std::to_string(number);
    if (!state->submit(std::as_bytes(std::span(event)))) return 3;
    while (replica.answered < number) replica.take(seconds(1));
    std::this_thread::sleep_for(std::chrono::microseconds(500));
  }
  std::string input;
  std::getline(std::cin, input);
  std::puts("stopped");
  while (!has_input()) replica.take(milliseconds(10));
  std::getline(std::cin, input);
  if (input == name && !state->submit(std::as_bytes(std::span(kLast)))) return 4;
  while (replica.events.empty() || replica.events.back() != kLast) replica.take(milliseconds(10));
  for (const std::string& event : replica.events) std::puts(event.c_str());
  std::puts("end");
  std::fflush(stdout);
  std::_Exit(0);
}
