#include "apps/sim/store_disk.hpp"

#include <algorithm>
#include <utility>

namespace rdmc::sim_app {
namespace {

/// The size of an atomic write of the device, scaled down to the size of the journal entries in this
/// simulation.
constexpr std::size_t kSectorBytes = 32;

}  // namespace

void SimDisk::begin(const store::Acceptor::Write& write, store::Journal& journal) {
  writing_ = Writing{journal.frame(write), write.whole};
  // A new journal appears under its name only when it is complete and durable. Appended bytes appear at once.
  if (write.whole) return;
  // Only a faulty node appends to a missing journal. The recovery reports this.
  if (!seen_) seen_.emplace();
  seen_->insert(seen_->end(), writing_->bytes.begin(), writing_->bytes.end());
}

void SimDisk::finish() {
  if (writing_->whole) seen_ = std::move(writing_->bytes);
  durable_ = seen_;
  writing_.reset();
}

void SimDisk::refuse() {
  writing_.reset();
}

void SimDisk::run_full(Random& random) {
  if (!writing_->whole) seen_->resize(seen_->size() - random.below(writing_->bytes.size() + 1));
  writing_.reset();
}

void SimDisk::kill_process() {
  writing_.reset();
}

SimDisk::Outcome SimDisk::lose_power(Random& random) {
  const bool appended = durable_ && seen_ && seen_->size() > durable_->size();
  const std::size_t before = durable_ ? durable_->size() : 0;
  writing_.reset();
  if (!appended) {
    seen_ = durable_;
    return Outcome::kept;
  }
  // Each sector is either written or not. The file may have become longer by sectors that are not written.
  store::Bytes left = *durable_;
  bool all = true, any = false;
  const std::size_t end =
      random.below(2) == 0 ? seen_->size() : before + 1 + random.below(seen_->size() - before);
  for (std::size_t at = before; at < end; at += kSectorBytes) {
    const bool there = random.below(4) != 0;
    all = all && there;
    any = any || there;
    for (std::size_t i = at; i < std::min(end, at + kSectorBytes); ++i)
      left.push_back(there ? (*seen_)[i] : std::byte{});
  }
  all = all && end == seen_->size();
  if (random.below(3) == 0) {
    left = *durable_;
    any = all = false;
  }
  durable_ = seen_ = std::move(left);
  return all ? Outcome::kept : any ? Outcome::torn : Outcome::lost;
}

}  // namespace rdmc::sim_app
