#include "bench/perf/rendezvous.hpp"

#include <sched.h>
#include <sys/mman.h>

#include <cassert>
#include <cstring>
#include <new>

namespace rdmc::perf {

Rendezvous* Rendezvous::make(std::uint32_t members) {
  void* const where =
      mmap(nullptr, sizeof(Rendezvous), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (where == MAP_FAILED) return nullptr;
  auto* const result = new (where) Rendezvous();
  result->members_ = members;
  return result;
}

void Rendezvous::give(std::uint32_t from, std::uint32_t to, const fabric::ConnectionBlob& blob) {
  Slot& slot = slots_[from][to];
  assert(blob.size() <= slot.blob.size());
  std::memcpy(slot.blob.data(), blob.data(), blob.size());
  slot.bytes.store(static_cast<std::uint32_t>(blob.size()), std::memory_order_release);
}

fabric::ConnectionBlob Rendezvous::take(std::uint32_t from, std::uint32_t to) {
  Slot& slot = slots_[from][to];
  std::uint32_t bytes = 0;
  while ((bytes = slot.bytes.load(std::memory_order_acquire)) == 0 && !failed()) sched_yield();
  return {slot.blob.begin(), slot.blob.begin() + bytes};
}

bool Rendezvous::barrier(const std::function<void()>& meanwhile) {
  // All members call this function the same number of times. So this barrier is complete when the count
  // reaches this member's number, rounded up to a multiple of the number of members.
  const std::uint64_t mine = arrived_.fetch_add(1) + 1;
  const std::uint64_t needed = (mine + members_ - 1) / members_ * members_;
  while (arrived_.load() < needed && !failed()) meanwhile();
  return !failed();
}

void Rendezvous::fail(std::uint32_t member, const std::string& what) {
  if (failed_.exchange(true)) return;
  const std::string text = "member " + std::to_string(member) + ": " + what;
  std::strncpy(failure_, text.c_str(), sizeof failure_ - 1);
}

}  // namespace rdmc::perf
