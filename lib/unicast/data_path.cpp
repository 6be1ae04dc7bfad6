#include "lib/unicast/data_path.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "dataplane/base/no_memory.hpp"

namespace rdmc::unicast {
namespace {

/// The time for which a failed link waits until the peer gives the cause. The control plane notices a peer's
/// end at about the same time as the fabric does.
constexpr Duration kWordPatience = seconds(5);
/// The maximum number of completions of one link in one turn. It lets the other links get their turns.
constexpr std::size_t kMostInTurn = 1024;

}  // namespace

EndpointCounters Counters::values() const {
  return {.connections_made = connections_made,
          .connections_accepted = connections_accepted,
          .peers_refused = peers_refused,
          .disconnected = disconnected,
          .sends = sends,
          .writes = writes,
          .reads = reads,
          .atomics = atomics,
          .receives = receives,
          .bytes_received = bytes_received,
          .failed = failed,
          .grants = grants,
          .revocations = revocations,
          .completions_dropped = completions_dropped};
}

DataPath::DataPath(std::shared_ptr<peer::FabricThread> thread, Handlers handlers,
                   std::shared_ptr<Counters> counters)
    : thread_(std::move(thread)), handlers_(std::move(handlers)), counters_(std::move(counters)) {}

void DataPath::start() {
  thread_->call([this] { thread_->engine().add(*this); });
}

void DataPath::end_links() {
  std::future<void> none_left;
  thread_->call([&] {
    take_added();
    none_left = stopping_.emplace().get_future();
    for (auto& [id, entry] : links_) end(*entry.link, {Errc::cancelled, "the endpoint was destroyed"});
  });
  kick();
  while (thread_->is_current() && none_left.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
    thread_->turn(milliseconds(1));
  none_left.get();
}

void DataPath::finish_tasks() {
  thread_->call([&] {
    while (run_tasks() != 0) {
    }
  });
}

void DataPath::leave() {
  thread_->call([&] {
    while (run_tasks() != 0) {
    }
    for (const auto& [raw, region] : regions_) end_region(*region);
    regions_.clear();
    thread_->engine().remove(*this);
    const std::lock_guard lock(tasks_mutex_);
    has_left_ = true;
  });
  some_removed_.notify_all();
}

void DataPath::run(std::move_only_function<void()> task) {
  {
    const std::lock_guard lock(tasks_mutex_);
    tasks_.push_back(std::move(task));
  }
  kick();
}

void DataPath::kick() noexcept {
  if (!kicked_.exchange(true)) thread_->notify();
}

void DataPath::add(std::shared_ptr<Link> link) {
  const std::lock_guard lock(tasks_mutex_);
  const ConnectionId id = link->id();
  added_.try_emplace(id, std::move(link), std::nullopt);
}

/// Takes over the links of add(). It moves map nodes that add() has allocated, so it needs no memory.
void DataPath::take_added() {
  const std::lock_guard lock(tasks_mutex_);
  links_.merge(added_);
}

void DataPath::end(Link& link, Error cause, bool at_once) {
  const auto found = links_.find(link.id());
  if (found == links_.end()) return;
  link.close();
  std::optional<Ending>& ending = found->second.ending;
  if (!ending) {
    ending.emplace(Ending{.cause = std::move(cause), .at_once = at_once});
  } else if (ending->word_until) {
    if (cause.code == Errc::cancelled && !ending->is_explained) ending->cause = std::move(cause);
    ending->word_until.reset();
    ending->at_once = true;
  } else {
    ending->at_once |= at_once;
  }
}

/// Called when the queue pair has failed or has refused an operation.
void DataPath::on_fault(Entry& entry, Link::Fault fault, Time now) {
  if (!entry.ending) {
    entry.link->close();
    const bool is_over = fault.is_explained && !fault.is_our_refusal;
    entry.ending.emplace(
        Ending{.cause = std::move(fault.error), .at_once = is_over, .is_explained = fault.is_explained});
    if (!is_over) entry.ending->word_until = now + kWordPatience;
  } else if (!entry.ending->word_until) {
    if (fault.is_explained && entry.ending->cause.code != Errc::cancelled)
      entry.ending->cause = std::move(fault.error);
    entry.ending->at_once = true;
  }
}

std::size_t DataPath::run_tasks() {
  std::vector<std::move_only_function<void()>> tasks;
  {
    const std::lock_guard lock(tasks_mutex_);
    links_.merge(added_);
    std::swap(tasks, tasks_);
  }
  for (auto& task : tasks) task();
  return tasks.size() + remove_regions();
}

std::size_t DataPath::remove_regions() {
  std::unique_lock lock(tasks_mutex_);
  RegionState* next = std::exchange(removed_, nullptr);
  if (next == nullptr) return 0;
  lock.unlock();
  std::size_t count = 0;
  for (RegionState* region = next; region != nullptr; region = next, ++count) {
    next = region->next_removed;
    const auto kept = std::move(regions_.extract(region).mapped());
    end_region(*region);
    lock.lock();
    region->is_removed = true;
    lock.unlock();
  }
  some_removed_.notify_all();
  return count;
}

std::size_t DataPath::work(Time now) {
  kicked_ = false;  // cleared before the tasks are read, so that no later kick is lost
  std::size_t done = run_tasks();
  for (auto next = links_.begin(); next != links_.end();) {
    Entry& entry = next->second;
    bool is_over = false;
    try {
      const std::size_t done_here = turn(entry, now);
      done += done_here;
      is_over = may_finish(entry, done_here, now);
      if (is_over) finish(entry);
    } catch (const std::bad_alloc&) {  // the next turn ends this link
      end(*entry.link, no_memory(), true);
      is_over = false;
      ++done;
    }
    if (is_over) ++done;
    next = is_over ? links_.erase(next) : std::next(next);
  }
  if (stopping_ && links_.empty()) std::exchange(stopping_, std::nullopt)->set_value();
  return done;
}

Time DataPath::next_deadline() const {
  if (stopping_ || kicked_) return Time{};
  Time earliest = Time::never();
  for (const auto& [id, entry] : links_)
    if (entry.ending) earliest = std::min(earliest, entry.ending->word_until.value_or(Time{}));
  return earliest;
}

std::size_t DataPath::turn(Entry& entry, Time now) {
  Link& link = *entry.link;
  std::size_t done = link.post_asked();
  std::size_t count = 0, taken = 0;
  do {
    count = take_completions(entry);
    taken += count;
    if (count == 0) break;
    done += count + link.post_asked();
  } while (taken < kMostInTurn);
  // If the application never learned of the connection, it waits for nothing on it. Then the link ends at
  // once.
  if (auto cause = link.take_end_wish()) end(link, std::move(*cause), !link.was_opened());
  // All completions were taken, including the one that gives the cause of a fault.
  if (count == 0)
    if (auto fault = link.fault()) on_fault(entry, std::move(*fault), now);
  return done;
}

std::size_t DataPath::take_completions(Entry& entry) {
  const std::size_t count = entry.link->poll(polled_, completions_);
  if (count != 0) deliver(entry.link, std::span(completions_).first(count));
  return count;
}

bool DataPath::may_finish(Entry& entry, std::size_t done, Time now) const {
  if (!entry.ending) return false;
  Ending& ending = *entry.ending;
  if (ending.word_until) return now >= *ending.word_until;
  return ending.at_once || ending.last_turns.are_over(done + thread_->last_progress());
}

/// Ends the link. Revokes the keys first, then delivers the completions that the queue pair still has.
/// Operations without a completion are flushed last.
void DataPath::finish(Entry& entry) {
  Link& link = *entry.link;
  for (const auto& [raw, region] : regions_) region->grants.erase(link.id());
  while (take_completions(entry) != 0) {
  }
  link.destroy_queue_pair();
  while (const std::size_t count = link.flush(completions_))
    deliver(entry.link, std::span(completions_).first(count));
  handlers_.ended(entry.link, entry.ending->cause);
}

void DataPath::deliver(const std::shared_ptr<Link>& link, std::span<const Completion> completions) {
  for (const Completion& completion : completions) count(completion);
  const auto drop = [&](std::size_t count) {
    counters_->completions_dropped += count;
    end(*link, no_memory(), true);
  };
  if (handlers_.completed) {
    link->hand_over(completions);
    try {
      handlers_.completed(completions);
    } catch (const std::bad_alloc&) {
      drop(completions.size());
    }
    return;
  }
  const std::lock_guard lock(taken_mutex_);
  for (const Completion& completion : completions) {
    try {
      ended_.emplace_back(link, completion);
    } catch (const std::bad_alloc&) {
      drop(1);
    }
  }
  some_.notify_all();
}

void DataPath::count(const Completion& completion) {
  if (completion.status != WorkStatus::success) {
    ++counters_->failed;
    return;
  }
  switch (completion.kind) {
    case WorkKind::send: ++counters_->sends; break;
    case WorkKind::write: ++counters_->writes; break;
    case WorkKind::read: ++counters_->reads; break;
    case WorkKind::atomic: ++counters_->atomics; break;
    case WorkKind::receive:
    case WorkKind::receive_write_immediate:
      ++counters_->receives;
      counters_->bytes_received += completion.byte_count;
      break;
  }
}

std::size_t DataPath::take(std::span<Completion> out, Duration longest) {
  std::unique_lock lock(taken_mutex_);
  if (ended_.empty() && longest.ns > 0 && !out.empty())
    some_.wait_for(lock, std::chrono::nanoseconds(longest.ns), [this] { return !ended_.empty(); });
  std::size_t count = 0;
  while (count < out.size() && !ended_.empty()) {
    const auto link = ended_.front().first;
    const std::size_t first = count;
    for (; count < out.size() && !ended_.empty() && ended_.front().first == link; ended_.pop_front())
      out[count++] = ended_.front().second;
    link->hand_over(out.subspan(first, count - first));
  }
  return count;
}

Capabilities DataPath::capabilities() {
  return thread_->call([this]() -> Capabilities {
    const fabric::FabricInfo info = fabric().info();
    return {.atomics = info.atomics,
            .keys_per_connection = info.ties_keys,
            .largest_message = std::min(info.largest_message, Capabilities().largest_message)};
  });
}

Result<void> DataPath::add(const std::shared_ptr<RegionState>& region) {
  return thread_->call([&]() -> Result<void> {
    if (fabric().info().pins_memory) {
      auto pinned = fabric().register_memory(region->memory, fabric::MemoryUse::general, RemoteAccess::none);
      if (!pinned) return std::unexpected(pinned.error());
      region->pinned = std::move(*pinned);
    }
    regions_.emplace(region.get(), region);
    return {};
  });
}

void DataPath::end_region(RegionState& region) {
  counters_->revocations += region.grants.size();
  region.grants.clear();
  region.pinned.reset();
}

void DataPath::remove(RegionState& region) noexcept {
  std::unique_lock lock(tasks_mutex_);
  if (has_left_) return;
  region.next_removed = std::exchange(removed_, &region);
  lock.unlock();
  if (thread_->is_current()) {
    remove_regions();
    return;
  }
  kick();
  // The application may never give the engine another turn, so this function does not wait for a turn.
  if (!thread_->options().own_thread) return;
  lock.lock();
  some_removed_.wait(lock, [&] { return region.is_removed || has_left_; });
}

bool DataPath::is_ours(const Link& link) const {
  const auto found = links_.find(link.id());
  return found != links_.end() && found->second.link.get() == &link;
}

Result<RemoteMemory> DataPath::grant(RegionState& region, Link& link, const GrantOptions& options) {
  const RemoteAccess access = options.access.value_or(region.access);
  if (access == RemoteAccess::none || !permits(region.access, access))
    return fail(Errc::invalid_argument, "the region permits less than the key would, or the key nothing");
  return thread_->call([&]() -> Result<RemoteMemory> {
    if (!link.is_open()) return fail(Errc::peer_failed, "the connection is over");
    if (!is_ours(link)) return fail(Errc::invalid_argument, "a connection of another endpoint");
    if (link.queue_pair() == nullptr) return fail(Errc::peer_failed, "the connection is over");
    if (region.grants.contains(link.id()))
      return fail(Errc::already_exists, "this connection has a key of the region");
    auto made = link.queue_pair()->register_memory(region.memory, access);
    if (!made && made.error().code == Errc::unsupported && options.widest == KeyScope::device)
      made = fabric().register_memory(region.memory, fabric::MemoryUse::general, access);
    if (!made) return std::unexpected(made.error());
    const RemoteMemory key{(*made)->remote_address(), region.memory.size(), (*made)->remote_key()};
    region.grants.emplace(link.id(), std::move(*made));
    ++counters_->grants;
    return key;
  });
}

Result<void> DataPath::revoke(RegionState& region, const Link& link) {
  return thread_->call([&]() -> Result<void> {
    if (is_ours(link)) counters_->revocations += region.grants.erase(link.id());
    return {};
  });
}

/// The fabric lacked memory. Any of its links may have lost something, so all of them end and must be made
/// again.
void DataPath::on_out_of_memory() {
  for (auto& [id, entry] : links_) end(*entry.link, no_memory(), true);
}

}  // namespace rdmc::unicast
