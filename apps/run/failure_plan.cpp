#include "apps/run/failure_plan.hpp"

#include <charconv>
#include <cmath>
#include <string>

namespace rdmc::run {
namespace {

template <typename Number>
std::optional<Number> number_in(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

Result<FailureSpec> parse_failures(std::string_view text) {
  const auto bad = [&](const char* what) {
    return fail(Errc::invalid_argument, "'" + std::string(text) + "' " + what);
  };
  FailureSpec spec;
  std::string_view failures = text;
  if (const auto colon = text.find(':'); colon != text.npos) {
    const auto seed = number_in<std::uint64_t>(text.substr(colon + 1));
    if (!seed) return bad("has no number as its seed");
    spec.seed = *seed;
    failures = text.substr(0, colon);
  }
  if (failures.ends_with("/s")) {
    const auto rate = number_in<double>(failures.substr(0, failures.size() - 2));
    if (!rate || !(*rate >= FailureSpec::kLeastRate && *rate <= FailureSpec::kMostRate))
      return bad("is not a rate from 0.001/s to 1000/s");
    spec.rate = *rate;
    return spec;
  }
  const auto count = number_in<std::uint64_t>(failures);
  if (!count || *count == 0) return bad("is neither a number of failures nor a rate such as 0.5/s");
  spec.count = *count;
  return spec;
}

std::optional<Duration> FailurePlan::next() {
  if (left_ == 0) return std::nullopt;
  const double random = static_cast<double>(random_() >> 11) * 0x1p-53;  // at least 0, and less than 1
  return nanoseconds(static_cast<std::int64_t>(-std::log1p(-random) / rate_ * 1e9));
}

std::optional<replica::ProcessId> FailurePlan::choose(std::span<const replica::ProcessId> spare) {
  if (spare.empty() || left_ == 0) return std::nullopt;
  --left_;
  return spare[random_() % spare.size()];
}

}  // namespace rdmc::run
