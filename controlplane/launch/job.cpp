#include "controlplane/launch/job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace rdmc::control {

std::string value_in(const Variables& variables, std::string_view variable) {
  const auto found = variables.find(variable);
  return found == variables.end() ? std::string() : found->second;
}

Result<std::uint32_t> number_in(const Variables& variables, std::string_view variable) {
  const auto found = variables.find(variable);
  if (found == variables.end()) return fail(Errc::not_found, fmt::format("{} is not set", variable));
  const std::string& text = found->second;
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || text.empty())
    return fail(Errc::invalid_argument, fmt::format("{} is '{}', which is no number", variable, text));
  return number;
}

Result<Job> hostlist_job(std::string_view hosts, std::optional<std::uint32_t> rank,
                         const std::function<bool(const std::string& host)>& is_ours) {
  const auto no_files = [](const std::string& path) -> Result<std::string> {
    return fail(Errc::invalid_argument, "a job's hosts are not read from a file ('" + path + "')");
  };
  auto members = expand_hostlist(hosts, {}, no_files);
  if (!members) return std::unexpected(members.error());
  if (!rank) {
    std::vector<std::uint32_t> ours;
    for (std::uint32_t i = 0; i < members->size(); ++i)
      if (is_ours((*members)[i].name)) ours.push_back(i);
    if (ours.size() != 1)
      return fail(
          Errc::invalid_argument,
          fmt::format("{} of the hosts '{}' {} this one: say in RDMC_RANK which rank this process has",
                      ours.empty() ? "none" : "several", hosts, ours.empty() ? "is" : "are"));
    rank = ours.front();
  }
  if (*rank >= members->size())
    return fail(Errc::invalid_argument,
                fmt::format("there is no rank {} of {}: they count from 0", *rank, members->size()));
  return Job{.rank = *rank, .members = std::move(*members), .name = {}};
}

}  // namespace rdmc::control
