#include "lib/replica/assignment.hpp"

#include <algorithm>
#include <array>

namespace rdmc::replica {
namespace {

constexpr std::string_view kLauncher = "RDMC_RUN_LAUNCHER", kName = "RDMC_RUN_NAME", kRank = "RDMC_RUN_RANK",
                           kReplica = "RDMC_RUN_REPLICA", kDegrees = "RDMC_RUN_DEGREES",
                           kProtocol = "RDMC_RUN_PROTOCOL", kOptions = "RDMC_RUN_OPTIONS",
                           kKeyDescriptor = "RDMC_RUN_KEY_FD", kForkDescriptor = "RDMC_RUN_FORK_FD";
constexpr std::array kAll{kLauncher, kName,    kRank,          kReplica,       kDegrees,
                          kProtocol, kOptions, kKeyDescriptor, kForkDescriptor};
/// The largest number of a descriptor that the environment may name.
constexpr std::uint32_t kMostDescriptor = 1 << 20;

std::unexpected<Error> damaged(std::string_view variable, const std::string& why) {
  return fail(Errc::invalid_argument,
              std::string(variable) + ", which rdmc_run has set for this process, is damaged: " + why);
}

bool is_word(std::string_view text) {
  return !text.empty() && text.size() <= kMostNameBytes && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

bool is_value(std::string_view text) {
  return text.size() <= kMostOptionBytes &&
         std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~' && c != ';'; });
}

bool is_run_name(std::string_view text) {
  return text.size() == 32 &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

/// Returns the reason why the values cannot be passed on, or an empty text if they can.
std::string fault_of(const Assignment& assignment) {
  if (!is_run_name(assignment.run)) return "the name of a run has 32 hexadecimal digits";
  if (!is_word(assignment.protocol)) return "'" + assignment.protocol + "' is not the name of a protocol";
  if (!assignment.layout.contains(assignment.self))
    return "there is no replica " + to_string(assignment.self);
  if (assignment.options.size() > kMostOptions) return "there are too many settings";
  for (const auto& [key, value] : assignment.options)
    if (!is_word(key) || !is_value(value)) return "'" + key + "=" + value + "' is not a setting";
  if (assignment.key_descriptor < 0) return "there is no key";
  return {};
}

Result<std::map<std::string, std::string, std::less<>>> options_of(std::string_view text) {
  std::map<std::string, std::string, std::less<>> options;
  while (!text.empty()) {
    const auto end = std::min(text.find(';'), text.size());
    const auto item = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const auto equals = item.find('=');
    if (equals == item.npos || !is_word(item.substr(0, equals)) || !is_value(item.substr(equals + 1)))
      return damaged(kOptions, "a setting has the form KEY=VALUE");
    if (!options.emplace(item.substr(0, equals), item.substr(equals + 1)).second)
      return damaged(kOptions, "a setting is there twice");
    if (options.size() > kMostOptions) return damaged(kOptions, "there are too many settings");
  }
  return options;
}

}  // namespace

Result<std::vector<std::pair<std::string, std::string>>> variables_of(const Assignment& assignment) {
  if (auto fault = fault_of(assignment); !fault.empty())
    return fail(Errc::invalid_argument, std::move(fault));
  std::string options;
  for (const auto& [key, value] : assignment.options)
    options += (options.empty() ? "" : ";") + key + "=" + value;
  return std::vector<std::pair<std::string, std::string>>{
      {std::string(kLauncher), rdmc::to_string(assignment.launcher)},
      {std::string(kName), assignment.run},
      {std::string(kRank), std::to_string(value_of(assignment.self.rank))},
      {std::string(kReplica), std::to_string(assignment.self.replica)},
      {std::string(kDegrees), assignment.layout.text()},
      {std::string(kProtocol), assignment.protocol},
      {std::string(kOptions), options},
      {std::string(kKeyDescriptor), std::to_string(assignment.key_descriptor)},
      {std::string(kForkDescriptor), std::to_string(assignment.fork_descriptor)}};
}

Result<std::optional<Assignment>> assignment_of(const control::Variables& variables) {
  const auto is_set = [&](std::string_view variable) { return variables.contains(variable); };
  if (std::ranges::none_of(kAll, is_set)) return std::nullopt;
  if (const auto absent = std::ranges::find_if_not(kAll, is_set); absent != kAll.end())
    return damaged(*absent, "it is not set");

  Assignment assignment;
  const auto launcher = parse_address(control::value_in(variables, kLauncher), 0);
  if (!launcher || launcher->port == 0) return damaged(kLauncher, "it has no address with a port");
  assignment.launcher = *launcher;
  assignment.run = control::value_in(variables, kName);
  if (!is_run_name(assignment.run)) return damaged(kName, "it does not have 32 hexadecimal digits");
  auto layout = Layout::parse(control::value_in(variables, kDegrees));
  if (!layout) return damaged(kDegrees, layout.error().what);
  assignment.layout = std::move(*layout);
  const auto rank = control::number_in(variables, kRank);
  if (!rank || *rank >= assignment.layout.ranks()) return damaged(kRank, "there is no such rank");
  const auto replica = control::number_in(variables, kReplica);
  if (!replica || *replica >= assignment.layout.degree(Rank{*rank}))
    return damaged(kReplica, "the rank has no such replica");
  assignment.self = {Rank{*rank}, *replica};
  assignment.protocol = control::value_in(variables, kProtocol);
  if (!is_word(assignment.protocol)) return damaged(kProtocol, "it is not the name of a protocol");
  auto options = options_of(control::value_in(variables, kOptions));
  if (!options) return std::unexpected(std::move(options.error()));
  assignment.options = std::move(*options);
  const auto descriptor = control::number_in(variables, kKeyDescriptor);
  if (!descriptor || *descriptor > kMostDescriptor)
    return damaged(kKeyDescriptor, "it is not the number of a descriptor");
  assignment.key_descriptor = static_cast<int>(*descriptor);
  if (control::value_in(variables, kForkDescriptor) != "-1") {
    const auto fork = control::number_in(variables, kForkDescriptor);
    if (!fork || *fork > kMostDescriptor)
      return damaged(kForkDescriptor, "it is not the number of a descriptor");
    assignment.fork_descriptor = static_cast<int>(*fork);
  }
  return assignment;
}

}  // namespace rdmc::replica
