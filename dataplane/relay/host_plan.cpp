#include "dataplane/relay/host_plan.hpp"

namespace rdmc::relay {
namespace {

/// Returns the block that moves in `step`, if block 0 moves in the step `first` and each later block moves
/// two steps after the block before it.
std::optional<std::uint64_t> moving(std::uint64_t step, std::uint64_t first, std::uint64_t blocks) {
  if (step < first || (step - first) % 2 != 0) return std::nullopt;
  return before((step - first) / 2, blocks);
}

}  // namespace

template <typename Between>
HostPlan<Between>::HostPlan(Rank rank, Racks hosts)
    : rank_(value_of(rank)),
      hosts_(std::move(hosts)),
      index_(hosts_.index_of(rank_)),
      host_(hosts_.all()[index_]),
      position_(rank_ - host_.head),
      between_(Rank{static_cast<std::uint32_t>(index_)}, static_cast<std::uint32_t>(hosts_.all().size())) {}

/// Before the head of a host passes a block on to the host's other members, it waits until every host
/// certainly has the block. This takes steps(1) steps of the plan between hosts: the time of a message with
/// one block. The root's own host does not have to wait.
template <typename Between>
std::uint64_t HostPlan<Between>::entry(std::size_t index, std::uint64_t position) const {
  const std::uint64_t waits = index == 0 ? 0 : between_.steps(1);
  return 2 * waits + position;
}

template <typename Between>
std::uint64_t HostPlan<Between>::steps(std::uint64_t blocks) const {
  const std::uint64_t between = between_.steps(blocks);
  std::uint64_t last = between == 0 ? 0 : 2 * between - 1;
  const auto all = hosts_.all();
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].members > 1) last = std::max(last, entry(i, all[i].members - 1) + 2 * (blocks - 1) + 1);
  return last;
}

template <typename Between>
StepTransfers HostPlan<Between>::at(std::uint64_t step, std::uint64_t blocks) const {
  StepTransfers now;
  if (is_head() && step % 2 == 0 && step / 2 < between_.steps(blocks)) {
    now = between_.at(step / 2, blocks);
    for (auto* const transfer : {&now.send, &now.receive})
      if (*transfer) (*transfer)->peer = head_of((*transfer)->peer);
  }
  if (!is_head()) {
    if (const auto block = moving(step, entry(), blocks)) now.receive = Transfer{Rank{rank_ - 1}, *block};
  }
  if (has_next()) {
    if (const auto block = moving(step, entry() + 1, blocks)) now.send = Transfer{Rank{rank_ + 1}, *block};
  }
  return now;
}

template <typename Between>
std::optional<Transfer> HostPlan<Between>::first_receive(std::uint64_t blocks) const {
  if (!is_head()) return Transfer{Rank{rank_ - 1}, 0};
  auto first = between_.first_receive(blocks);
  if (first) first->peer = head_of(first->peer);
  return first;
}

template <typename Between>
std::vector<Rank> HostPlan<Between>::sources() const {
  if (!is_head()) return {Rank{rank_ - 1}};
  auto all = between_.sources();
  for (Rank& host : all) host = head_of(host);
  return all;
}

template <typename Between>
std::vector<Rank> HostPlan<Between>::destinations() const {
  auto all = is_head() ? between_.destinations() : std::vector<Rank>{};
  for (Rank& host : all) host = head_of(host);
  if (has_next()) all.push_back(Rank{rank_ + 1});
  return all;
}

template <typename Between>
std::optional<std::uint64_t> HostPlan<Between>::next_receive_from(Rank source, std::uint64_t step,
                                                                  std::uint64_t blocks) const {
  if (!is_head()) {
    if (value_of(source) + 1 != rank_) return std::nullopt;
    const std::uint64_t from = std::max(step, entry());
    return before(from + (from - entry()) % 2, entry() + 2 * blocks);
  }
  const std::size_t host = hosts_.index_of(value_of(source));
  if (hosts_.all()[host].head != value_of(source)) return std::nullopt;
  auto next = between_.next_receive_from(Rank{static_cast<std::uint32_t>(host)}, (step + 1) / 2, blocks);
  if (next) *next *= 2;
  return next;
}

template <typename Between>
std::optional<std::uint64_t> HostPlan<Between>::next_send(std::uint64_t step, std::uint64_t end,
                                                          std::uint64_t blocks) const {
  std::optional<std::uint64_t> next;
  if (has_next()) {
    const std::uint64_t first = entry() + 1, from = std::max(step, first);
    next = before(from + (from - first) % 2, std::min(end, first + 2 * blocks));
  }
  if (!is_head()) return next;
  const auto between = between_.next_send(
      (step + 1) / 2, std::min((next.value_or(end) + 1) / 2, between_.steps(blocks)), blocks);
  return between ? 2 * *between : next;
}

template <typename Between>
Pace HostPlan<Between>::pace() const {
  if (!is_head()) return {.stride = 2, .lead = entry() + 1, .lag = entry() + 1};
  const std::uint64_t between = 2 * between_.pace().lag;
  return {.stride = 2, .lead = 0, .lag = has_next() ? std::max(between, entry() + 1) : between};
}

template <typename Between>
std::uint64_t HostPlan<Between>::minimum_slots() const {
  const auto all = hosts_.all();
  const bool others_wait =
      std::ranges::any_of(all.subspan(1), [](const Rack& host) { return host.members > 1; });
  return others_wait ? std::max(between_.minimum_slots(), between_.steps(1) + 1) : between_.minimum_slots();
}

template class HostPlan<BinomialPipeline>;
template class HostPlan<TwoTrees>;

}  // namespace rdmc::relay
