// `kv_check_history FILE` checks a history that a test has recorded: one JSON object on each line, with
// `called`, `returned` (null if there was no certain reply), `connection` and `steps`: lists of kind, key,
// value and reply (null if it does not matter). Exit: 0 linearizable, 1 not, 2 the file is wrong.
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/replicated-kv/history/linearizability.hpp"

int main(int argc, char** argv) {
  using namespace rdmc::kv;
  if (argc != 2) return 2;
  std::ifstream file(argv[1]);
  std::vector<Operation> history;
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (json.is_discarded()) return 2;
    Operation one{.called = json["called"], .connection = json["connection"]};
    one.is_certain = !json["returned"].is_null();
    if (one.is_certain) one.returned = json["returned"];
    for (const auto& step : json["steps"]) {
      const std::string kind = step[0];
      one.steps.push_back({.kind = kind == "get"      ? Step::Kind::get
                                   : kind == "set"    ? Step::Kind::set
                                   : kind == "append" ? Step::Kind::append
                                                      : Step::Kind::incr,
                           .key = step[1],
                           .value = step[2],
                           .reply = {}});
      if (!step[3].is_null()) one.steps.back().reply = step[3];
    }
    history.push_back(std::move(one));
  }
  // The histories of the system tests are longer than those of the simulator.
  constexpr std::size_t kMostStates = 20'000'000;
  const auto checked = check_linearizable(history, kMostStates);
  if (checked) return std::printf("%zu operations are linearizable\n", history.size()), 0;
  std::printf("%s\n", checked.error().what.c_str());
  return 1;
}
