#include "dataplane/relay/auto_plan.hpp"

#include <algorithm>
#include <bit>
#include <cassert>
#include <limits>

namespace rdmc::relay {
namespace {

/// A plan without measurements counts as faster than predicted, by one of these factors. kDoubtOfAlgorithm
/// applies if the algorithm was not measured. kDoubtOfBlocks applies if the algorithm was measured, but with
/// other block sizes. With smaller factors, `auto` tries more plans that are in fact not faster than the best
/// known plan.
constexpr double kDoubtOfAlgorithm = 0.6, kDoubtOfBlocks = 0.9;
/// A measurement is too old after this number of messages of about the same length.
constexpr std::uint64_t kAge = 256;
/// After this number of trials in a row without a usable time, no more plans are tried for a while.
constexpr std::uint32_t kMostUnknown = 3;

/// The length of a message, for use as a divisor. The result is 1 for an empty message.
double length_of(std::uint64_t bytes) {
  return static_cast<double>(std::max<std::uint64_t>(bytes, 1));
}

}  // namespace

std::vector<Algorithm> auto_algorithms(const AutoConfig& config, const Racks& racks) {
  if (config.fixed.algorithm) return {*config.fixed.algorithm};
  std::vector<Algorithm> all(kAutoAlgorithms.begin(), kAutoAlgorithms.end());
  if (racks.all().size() < 2)
    std::erase_if(all,
                  [](Algorithm one) { return one == Algorithm::hybrid || one == Algorithm::site_trees; });
  if (config.racks_are_hosts && racks.are_shared())
    all.insert(all.end(), kHostAlgorithms.begin(), kHostAlgorithms.end());
  return all;
}

AutoPlan::AutoPlan(const AutoConfig& config, std::uint32_t members, const Racks& racks)
    : members_(members),
      racks_(racks),
      algorithms_(auto_algorithms(config, racks)),
      path_(config.guess),
      fit_(config.guess) {
  if (config.fixed.block_bytes)
    block_sizes_.push_back(*config.fixed.block_bytes);
  else
    for (std::uint32_t size = kLeastAutoBlock; size <= kMostAutoBlock; size *= 2)
      block_sizes_.push_back(size);
  untried_.samples.resize(algorithms_.size() * block_sizes_.size());
  if (!racks_.are_shared()) return;
  for (const Algorithm algorithm : algorithms_)
    crossings_[algorithm] = uplink_messages(algorithm, {.members = members_, .racks = racks_, .bytes = 0});
}

CriticalPath AutoPlan::path_of(std::uint64_t bytes, const MessagePlan& plan) const {
  const auto crossing = crossings_.find(plan.algorithm);
  return critical_path(plan.algorithm, {.members = members_, .racks = racks_, .bytes = bytes},
                       plan.block_bytes, path_, crossing == crossings_.end() ? 0 : crossing->second);
}

double AutoPlan::foretold(std::uint64_t bytes, const MessagePlan& plan) const {
  return seconds_of(path_of(bytes, plan), path_);
}

/// Returns the time that counts for a plan with measurements, or nullopt if the plan has no measurements. If
/// only one time was measured and it is longer than predicted, the difference may be chance. In that case the
/// prediction counts. Two measured times are reliable until they are too old.
std::optional<AutoPlan::Known> AutoPlan::known(const Samples& samples, const Table& table,
                                               std::uint64_t bytes, const MessagePlan& plan) const {
  const auto& [last, count, taken] = samples;
  if (count == 0) return std::nullopt;
  const double least = (count == 1 ? last[0] : std::min(last[0], last[1])) * length_of(bytes);
  if (table.sent - taken > kAge) return Known{std::min(least, foretold(bytes, plan)), false};
  if (count > 1 || least <= foretold(bytes, plan)) return Known{least, true};
  return Known{foretold(bytes, plan), false};
}

/// Compares one algorithm, with all its block sizes, with the best plan so far. If the model's prediction for
/// one block size was wrong by a factor, the same factor is assumed for the next block sizes.
void AutoPlan::consider(std::size_t algorithm, std::uint64_t bytes, const Table& table, Next& best,
                        double& best_seconds) const {
  const auto samples = std::span(table.samples).subspan(algorithm * block_sizes_.size(), block_sizes_.size());
  const bool tries = table.unknown < kMostUnknown;
  const auto plan = [&](std::size_t i) { return MessagePlan{algorithms_[algorithm], block_sizes_[i]}; };
  std::vector<std::optional<Known>> measured;
  for (std::size_t i = 0; i < samples.size(); ++i)
    measured.push_back(known(samples[i], table, bytes, plan(i)));
  double doubt = tries ? kDoubtOfAlgorithm : 1;
  const auto take = [&](std::size_t i) {
    if (measured[i]) doubt = (tries ? kDoubtOfBlocks : 1) * measured[i]->seconds / foretold(bytes, plan(i));
    const double seconds = measured[i] ? measured[i]->seconds : doubt * foretold(bytes, plan(i));
    if (seconds >= best_seconds) return;
    best_seconds = seconds;
    best = {plan(i), tries && !(measured[i] && measured[i]->is_certain)};
  };
  const auto first = std::ranges::find_if(measured, [](const auto& m) { return m.has_value(); });
  const auto from = first == measured.end() ? 0 : static_cast<std::size_t>(first - measured.begin());
  for (std::size_t i = from; i < samples.size(); ++i) take(i);
  for (std::size_t i = from; i-- > 0;) take(i);
}

AutoPlan::Next AutoPlan::next(std::uint64_t bytes) const {
  const auto tried = tables_.find(std::bit_width(bytes));
  const Table& table = tried == tables_.end() ? untried_ : tried->second;
  Next best;
  double seconds = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < algorithms_.size(); ++i) consider(i, bytes, table, best, seconds);
  if (members_ == 1) best.is_trial = false;
  return best;
}

AutoPlan::Table& AutoPlan::table_of(std::uint64_t bytes) {
  return tables_.try_emplace(std::bit_width(bytes), untried_).first->second;
}

void AutoPlan::took(std::uint64_t bytes, const MessagePlan& plan, double seconds) {
  assert(seconds > 0);
  if (members_ == 1) return;
  const auto algorithm = std::ranges::find(algorithms_, plan.algorithm);
  const auto block_size = std::ranges::find(block_sizes_, plan.block_bytes);
  if (algorithm == algorithms_.end() || block_size == block_sizes_.end()) return;
  const auto index = static_cast<std::size_t>(algorithm - algorithms_.begin()) * block_sizes_.size() +
                     static_cast<std::size_t>(block_size - block_sizes_.begin());
  Table& table = table_of(bytes);
  table.unknown = 0;
  auto& [last, count, taken] = table.samples[index];
  if (table.sent - taken > kAge) count = 0;
  last[count++ % last.size()] = seconds / length_of(bytes);
  taken = table.sent;
  fit_.observe(path_of(bytes, plan), seconds);
  path_ = fit_.parameters();
}

void AutoPlan::sent(std::uint64_t bytes) {
  Table& table = table_of(bytes);
  if (++table.sent % kAge == 0) table.unknown = 0;
}

void AutoPlan::took_what_somebody_needed(std::uint64_t bytes) {
  ++table_of(bytes).unknown;
}

}  // namespace rdmc::relay
