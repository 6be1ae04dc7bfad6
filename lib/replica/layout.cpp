#include "lib/replica/layout.hpp"

#include <algorithm>
#include <cassert>
#include <charconv>
#include <optional>

namespace rdmc::replica {
namespace {

/// Parses the whole of `text` as a decimal number.
std::optional<std::uint32_t> number_of(std::string_view text) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

std::string to_string(const ReplicaId& id) {
  return std::to_string(value_of(id.rank)) + "." + std::to_string(id.replica);
}

Layout::Layout(const std::vector<std::uint32_t>& degrees) {
  first_.reserve(degrees.size() + 1);
  first_.push_back(0);
  for (const std::uint32_t degree : degrees) first_.push_back(first_.back() + degree);
}

Result<Layout> Layout::of(std::vector<std::uint32_t> degrees) {
  if (degrees.empty()) return fail(Errc::invalid_argument, "a run needs at least one rank");
  std::uint64_t processes = 0;
  for (const std::uint32_t degree : degrees) {
    if (degree == 0) return fail(Errc::invalid_argument, "each rank needs at least one replica");
    processes += degree;
  }
  if (processes > kMostProcesses)
    return fail(Errc::invalid_argument, "a run has at most " + std::to_string(kMostProcesses) +
                                            " processes, and " + std::to_string(processes) + " are wanted");
  return Layout(degrees);
}

Result<Layout> Layout::uniform(std::uint32_t ranks, std::uint32_t degree) {
  if (ranks > kMostProcesses)
    return fail(Errc::invalid_argument, "a run has at most " + std::to_string(kMostProcesses) +
                                            " processes, and " + std::to_string(ranks) + " ranks are wanted");
  return of(std::vector<std::uint32_t>(ranks, degree));
}

Result<Layout> Layout::parse(std::string_view text) {
  const auto malformed = [&] {
    return fail(Errc::invalid_argument, "'" + std::string(text) + "' is not a list of degrees such as 2x4,1");
  };
  std::vector<std::uint32_t> degrees;
  for (std::string_view rest = text; !rest.empty();) {
    const auto comma = std::min(rest.find(','), rest.size());
    const auto item = rest.substr(0, comma);
    if (comma + 1 == rest.size()) return malformed();  // A comma at the end.
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    const auto times = item.find('x');
    const auto degree = number_of(item.substr(0, times));
    const auto count = times == item.npos ? 1 : number_of(item.substr(times + 1));
    if (!degree || !count || *count == 0) return malformed();
    if (*count > kMostProcesses - degrees.size()) return malformed();
    degrees.insert(degrees.end(), *count, *degree);
  }
  if (degrees.empty()) return malformed();
  return of(std::move(degrees));
}

std::string Layout::text() const {
  std::string text;
  for (std::uint32_t rank = 0; rank < ranks();) {
    std::uint32_t end = rank + 1;
    while (end < ranks() && degree(Rank{end}) == degree(Rank{rank})) ++end;
    if (!text.empty()) text += ',';
    text += std::to_string(degree(Rank{rank}));
    if (end - rank > 1) text += "x" + std::to_string(end - rank);
    rank = end;
  }
  return text;
}

std::uint32_t Layout::most_degree() const {
  std::uint32_t most = 0;
  for (std::uint32_t rank = 0; rank < ranks(); ++rank) most = std::max(most, degree(Rank{rank}));
  return most;
}

ReplicaId Layout::replica(ProcessId process) const {
  assert(value_of(process) < processes());
  const auto after = std::ranges::upper_bound(first_, value_of(process));
  const auto rank = static_cast<std::uint32_t>(after - first_.begin() - 1);
  return {Rank{rank}, value_of(process) - first_[rank]};
}

}  // namespace rdmc::replica
