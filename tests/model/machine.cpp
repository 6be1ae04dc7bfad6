#include "tests/model/machine.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace rdmc::model {
namespace {

/// A run with more accesses has a loop that never ends.
constexpr std::size_t kMostSteps = 100'000;

}  // namespace

Machine* Machine::machine_ = nullptr;
Machine::Thread* Machine::self_ = nullptr;

Outcome Machine::explore(const Options& options, const std::function<std::vector<Program>()>& make,
                         const std::function<void()>& judge) {
  Machine machine(options);
  Outcome outcome;
  do {
    machine.run(make());
    ++outcome.runs;
    outcome.stuck += machine.is_stuck_ ? 1 : 0;
    judge();
    if (options.has_weak_stores && outcome.stuck > 0) break;
  } while (machine.next_run());
  return outcome;
}

void Machine::run(std::vector<Program> programs) {
  depth_ = sleeps_ = steps_ = 0;
  preemptions_left_ = options_.preemptions;
  is_stuck_ = false;
  while (threads_.size() < programs.size()) {
    Thread& added = *threads_.emplace_back(std::make_unique<Thread>());
    added.fiber = std::make_unique<Fiber>([this, &added] {
      for (;;) {
        added.program();
        added.state = State::ended;
        pass_on(&added);
      }
    });
  }
  for (std::size_t i = 0; i < programs.size(); ++i) {
    threads_[i]->program = std::move(programs[i]);
    threads_[i]->state = State::ready;
    threads_[i]->needs_empty_buffer = false;
  }
  machine_ = this;
  pass_on(nullptr);
  for (const auto& thread : threads_) {
    thread->state = State::none;
    thread->program = nullptr;
  }
}

/// Advances to the decisions of the next run. Returns false if all runs are done.
bool Machine::next_run() {
  while (!decisions_.empty() && decisions_.back().taken + 1 == decisions_.back().of) decisions_.pop_back();
  if (decisions_.empty()) return false;
  ++decisions_.back().taken;
  return true;
}

std::size_t Machine::decide(std::size_t of) {
  if (of == 1) return 0;
  if (depth_ == decisions_.size()) decisions_.push_back({0, of});
  return decisions_[depth_++].taken;
}

/// Switches to a thread, or to the caller of run() if `to` is null.
void Machine::switch_to(Thread* from, Thread* to) {
  self_ = to;
  if (to == nullptr)
    from->fiber->return_to(caller_);
  else if (from == nullptr)
    to->fiber->enter(caller_);
  else
    from->fiber->switch_to(*to->fiber);
}

/// Chooses the thread that runs next, and switches to it. Returns when `self` is chosen. A null `self` is the
/// caller of run(). For this caller, the function returns when all threads have ended.
void Machine::pass_on(Thread* self) {
  // A fiber that has ended never leaves switch_to(), so nothing on its stack may own memory then.
  Thread* const next = choose_next(self);
  if (next != self) switch_to(self, next);
}

/// Makes decisions. Each decision chooses either a thread, or a store that leaves its buffer. Ends with the
/// first decision that chooses a thread, and returns this thread. Returns null if all threads have ended.
Machine::Thread* Machine::choose_next(Thread* self) {
  const auto can_run = [](const Thread& thread) {
    return thread.state == State::ready && (!thread.needs_empty_buffer || thread.buffer.empty());
  };
  for (;;) {
    if (++steps_ > kMostSteps) {
      std::fprintf(stderr, "the threads of a model check never end\n");
      std::abort();
    }
    // The running thread comes first, so the first run has no preemption.
    std::vector<Thread*> runnable, storing;
    if (self != nullptr && can_run(*self)) runnable.push_back(self);
    // A thread that waits only for its own stores could continue, too.
    const bool may_continue = self != nullptr && self->state == State::ready;
    for (const auto& thread : threads_) {
      if (thread.get() != self && can_run(*thread) && (!may_continue || preemptions_left_ > 0))
        runnable.push_back(thread.get());
      if (!thread->buffer.empty()) storing.push_back(thread.get());
    }
    if (runnable.empty() && storing.empty()) {
      if (std::ranges::none_of(threads_, [](const auto& one) { return one->state == State::asleep; }))
        return nullptr;
      is_stuck_ = true;
      for (const auto& thread : threads_)
        if (thread->state == State::asleep) thread->state = State::ready;
      continue;
    }
    const std::size_t choice = is_stuck_ ? 0 : decide(runnable.size() + storing.size());
    if (choice < runnable.size()) {
      if (may_continue && runnable[choice] != self) --preemptions_left_;
      return runnable[choice];
    }
    Thread& thread = *storing[choice - runnable.size()];
    const Store& oldest = thread.buffer.front();
    std::memcpy(oldest.cell, oldest.value.data(), oldest.bytes);
    thread.buffer.pop_front();
  }
}

/// Waits until the running thread may make its next access.
void Machine::access(bool needs_empty_buffer) {
  if (self_ == nullptr) return;
  self_->needs_empty_buffer = needs_empty_buffer;
  machine_->pass_on(self_);
  self_->needs_empty_buffer = false;
}

void Machine::load(const void* cell, void* to, std::size_t bytes) {
  access(false);
  if (self_ != nullptr)
    for (auto store = self_->buffer.rbegin(); store != self_->buffer.rend(); ++store)
      if (store->cell == cell) return static_cast<void>(std::memcpy(to, store->value.data(), bytes));
  std::memcpy(to, cell, bytes);
}

void Machine::store(void* cell, const void* from, std::size_t bytes, bool is_sequentially_consistent) {
  const bool is_buffered =
      self_ != nullptr && (!is_sequentially_consistent || machine_->options_.has_weak_stores);
  access(!is_buffered);
  if (!is_buffered) return static_cast<void>(std::memcpy(cell, from, bytes));
  Store& store = self_->buffer.emplace_back(Store{.cell = cell, .value = {}, .bytes = bytes});
  std::memcpy(store.value.data(), from, bytes);
}

void Machine::modify(const std::function<void()>& change) {
  access(true);
  change();
}

void Machine::fence() {
  if (self_ != nullptr && !machine_->options_.has_weak_stores) access(true);
}

void Machine::wait(const void* word, const void* value, std::size_t bytes) {
  access(true);
  if (self_ == nullptr || std::memcmp(word, value, bytes) != 0) return;
  self_->state = State::asleep;
  self_->word = word;
  self_->slept_since = machine_->sleeps_++;
  machine_->pass_on(self_);
}

void Machine::wake(const void* word, std::size_t most) {
  access(true);
  if (self_ == nullptr) return;
  for (; most > 0; --most) {
    Thread* first = nullptr;
    for (const auto& thread : machine_->threads_)
      if (thread->state == State::asleep && thread->word == word &&
          (first == nullptr || thread->slept_since < first->slept_since))
        first = thread.get();
    if (first == nullptr) return;
    first->state = State::ready;
  }
}

}  // namespace rdmc::model
