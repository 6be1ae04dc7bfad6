#include "apps/run/output_merger.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

namespace rdmc::run {

void OutputMerger::Digester::add(const OutputPart& part) {
  XXH3_128bits_update(state_.get(), part.text.data(), part.text.size());
  const char end = part.ends_line ? '\n' : '\0';
  XXH3_128bits_update(state_.get(), &end, 1);
}

OutputMerger::OutputMerger(std::uint32_t replicas, const Limits& limits)
    : limits_(limits), replicas_(replicas), digest_distance_(limits.digest_bytes) {}

void OutputMerger::write(std::uint32_t replica, std::string_view bytes) {
  std::string& pending = replicas_[replica].pending;
  assert(replicas_[replica].is_open);
  while (!bytes.empty()) {
    const std::string_view next = bytes.substr(0, limits_.part_bytes - pending.size());
    const auto newline = next.find('\n');
    const bool ends_line = newline != next.npos;
    pending += next.substr(0, newline);
    bytes.remove_prefix(ends_line ? newline + 1 : next.size());
    if (ends_line || pending.size() == limits_.part_bytes)
      take(replica, {std::exchange(pending, {}), ends_line});
  }
}

void OutputMerger::take(std::uint32_t number, OutputPart part) {
  Replica& replica = replicas_[number];
  if (replica.index < printed_) return compare(number, part);
  const bool others_lead = replica.differs && std::ranges::any_of(replicas_, [](const Replica& other) {
                             return other.is_open && !other.differs;
                           });
  if (!others_lead) return print(replica, std::move(part));
  replica.held_bytes += part.text.size() + 1;
  replica.held.push_back(std::move(part));
}

/// Compares a part with the one that was printed in its place.
void OutputMerger::compare(std::uint32_t number, const OutputPart& part) {
  Replica& replica = replicas_[number];
  const bool is_kept = replica.index >= first_kept();
  if (!replica.differs && is_kept) {
    const OutputPart& printed = kept_[replica.index - first_kept()];
    if (part != printed) {
      const std::uint64_t line = replica.line + 1;
      report(number, {number, line, line, printed.text, part.text});
    }
  }
  pass(replica, part);
  if (replica.differs) return;
  if (is_kept) {
    replica.sure_line = replica.line;
  } else if (const auto digest = digest_at(replica.index)) {
    const std::uint64_t last = replica.line + (part.ends_line ? 0 : 1);
    if (XXH128_isEqual(*digest, replica.digester.digest()) == 0)
      report(number, {number, replica.sure_line + 1, last, std::nullopt, part.text});
    else
      replica.sure_line = replica.line;
  }
}

void OutputMerger::print(Replica& replica, OutputPart part) {
  assert(replica.index == printed_);
  pass(replica, part);
  replica.sure_line = replica.line;
  parts_.push_back(part);
  ++printed_;
  if (replicas_.size() > 1) {
    kept_bytes_ += part.text.size() + 1;
    kept_.push_back(std::move(part));
    while (kept_bytes_ > limits_.kept_bytes) drop_oldest();
  }
  for (Replica& other : replicas_) {
    if (other.held.empty() || other.index >= printed_) continue;
    other.held_bytes -= other.held.front().text.size() + 1;
    pass(other, std::exchange(other.held.front(), {}));
    other.held.pop_front();
  }
}

/// Counts a part that was printed or compared.
void OutputMerger::pass(Replica& replica, const OutputPart& part) {
  ++replica.index;
  replica.line += part.ends_line ? 1 : 0;
  if (replicas_.size() > 1 && !replica.differs) replica.digester.add(part);
}

/// Replaces the oldest kept text by its digest.
void OutputMerger::drop_oldest() {
  const OutputPart& oldest = kept_.front();
  const std::size_t bytes = oldest.text.size() + 1;
  dropped_.add(oldest);
  kept_bytes_ -= bytes;
  dropped_bytes_ += bytes;
  kept_.pop_front();
  if (dropped_bytes_ < digest_distance_) return;
  dropped_bytes_ = 0;
  checkpoints_.push_back({first_kept(), dropped_.digest()});
  if (checkpoints_.size() <= limits_.digests) return;
  std::size_t kept = 0;
  for (std::size_t i = 1; i < checkpoints_.size(); i += 2) checkpoints_[kept++] = checkpoints_[i];
  checkpoints_.resize(kept);
  digest_distance_ *= 2;
}

std::optional<OutputMerger::Digest> OutputMerger::digest_at(std::uint64_t index) const {
  if (index == first_kept()) return dropped_.digest();
  const auto found = std::ranges::lower_bound(checkpoints_, index, {}, &Checkpoint::index);
  if (found == checkpoints_.end() || found->index != index) return std::nullopt;
  return found->digest;
}

void OutputMerger::reopen(std::uint32_t replica, std::uint32_t parent) {
  assert(!replicas_[replica].is_open && replicas_[parent].is_open);
  replicas_[replica] = replicas_[parent];
}

void OutputMerger::close(std::uint32_t replica, bool is_complete) {
  replicas_[replica].is_open = false;
  replicas_[replica].is_complete = is_complete;
  release_held();
  if (std::ranges::none_of(replicas_, &Replica::is_open)) end();
}

/// If all replicas whose text was equal are closed, prints what the others have written beyond.
void OutputMerger::release_held() {
  if (std::ranges::any_of(replicas_, [](const Replica& one) { return one.is_open && !one.differs; })) return;
  for (Replica& replica : replicas_) {
    while (!replica.held.empty()) {
      OutputPart part = std::move(replica.held.front());
      replica.held.pop_front();
      replica.held_bytes -= part.text.size() + 1;
      print(replica, std::move(part));
    }
  }
}

/// Prints the unfinished last line, which is the longest one that a replica has written, and reports the
/// replicas that have ended before the others.
void OutputMerger::end() {
  const Replica* last = nullptr;
  for (const Replica& replica : replicas_) {
    if (replica.index != printed_ || replica.pending.empty()) continue;
    const auto rank = [](const Replica& one) { return std::pair(!one.differs, one.pending.size()); };
    if (last == nullptr || rank(*last) < rank(replica)) last = &replica;
  }
  const std::string text = last == nullptr ? std::string() : last->pending;
  for (std::uint32_t number = 0; number < replicas_.size(); ++number) {
    const Replica& replica = replicas_[number];
    const bool is_behind = replica.index < printed_;
    const OutputPart* kept =
        is_behind && replica.index >= first_kept() ? &kept_[replica.index - first_kept()] : nullptr;
    if (is_behind && kept == nullptr && !replica.is_complete) continue;  // Nothing is left to compare with.
    const std::string_view printed = is_behind ? (kept == nullptr ? std::string_view() : kept->text) : text;
    // A replica that has died may have written less than the others, but nothing else.
    const bool is_equal =
        replica.is_complete ? !is_behind && replica.pending == text : printed.starts_with(replica.pending);
    if (replica.differs || is_equal) continue;
    const std::uint64_t line = replica.line + 1;
    report(number, {number, line, line,
                    is_behind && kept == nullptr ? std::nullopt : std::optional(std::string(printed)),
                    replica.pending.empty() ? std::nullopt : std::optional(replica.pending)});
  }
  if (!text.empty()) parts_.push_back({text, false});
}

void OutputMerger::report(std::uint32_t number, Difference difference) {
  replicas_[number].differs = true;
  ++differing_;
  differences_.push_back(std::move(difference));
}

std::vector<OutputPart> OutputMerger::take_parts() {
  return std::exchange(parts_, {});
}
std::vector<Difference> OutputMerger::take_differences() {
  return std::exchange(differences_, {});
}

std::size_t OutputMerger::memory() const {
  std::size_t bytes = kept_bytes_ + checkpoints_.size() * sizeof(Checkpoint);
  for (const Replica& replica : replicas_) bytes += replica.pending.size() + replica.held_bytes;
  return bytes;
}

}  // namespace rdmc::run
