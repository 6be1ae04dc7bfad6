#include "dataplane/fabric/verbs/local_keys.hpp"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <utility>

#include "dataplane/memory/arena.hpp"

namespace rdmc::fabric {
namespace {

bool covers(std::span<const std::byte> whole, std::span<const std::byte> part) {
  const std::less_equal<const std::byte*> not_after;
  return not_after(whole.data(), part.data()) &&
         not_after(part.data() + part.size(), whole.data() + whole.size());
}

bool overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  const std::less<const std::byte*> before;
  return before(a.data(), b.data() + b.size()) && before(b.data(), a.data() + a.size());
}

std::span<const std::byte> pages_around(std::span<const std::byte> memory) {
  const auto before = reinterpret_cast<std::uintptr_t>(memory.data()) % memory::kPageBytes;
  return {memory.data() - before, memory::round_up_to_page(before + memory.size())};
}

}  // namespace

Result<VerbsHandle<ibv_mr>> register_with_device(ibv_pd* domain, std::span<const std::byte> memory,
                                                 std::uint64_t address, int access) {
  void* const start = const_cast<std::byte*>(memory.data());
  VerbsHandle<ibv_mr> region(ibv_reg_mr_iova(domain, start, memory.size(), address, access));
  if (region) return region;
  if (errno == ENOMEM)
    return fail(Errc::resource_limit, std::to_string(memory.size()) +
                                          " bytes cannot be registered with the RDMA device: raise the limit "
                                          "on locked memory (ulimit -l unlimited)");
  return fail_errno("registering memory with the RDMA device", errno);
}

LocalKeys::LocalKeys(ibv_pd* domain) : domain_(domain) {
  if (auto watch = memory::MappingWatch::open()) mappings_ = std::move(*watch);
}

Result<LocalKeys::Lease> LocalKeys::lease(std::span<const std::byte> memory, Holder holder, Use use) {
  drop_what_has_gone();
  Registration* registration = find(memory, use);
  if (registration == nullptr) {
    const auto made = make(memory, use);
    if (!made) return std::unexpected(made.error());
    registration = *made;
  }
  ++(holder == Holder::region ? registration->regions : registration->works);
  registration->last_use = ++uses_;
  return Lease{registration->handle->lkey, registration};
}

void LocalKeys::release(const Lease& lease, Holder holder) {
  if (lease.registration == nullptr) return;
  Registration& one = *lease.registration;
  --(holder == Holder::region ? one.regions : one.works);
  if (one.works + one.regions == 0 && (one.gone || !one.watched))
    forget(std::ranges::find(known_, &one, [](const Registration& known) { return &known; }));
}

void LocalKeys::drop_what_has_gone() {
  if (!mappings_) return;
  const auto gone = mappings_->take();
  if (gone.count == 0 && !gone.everything) return;
  for (Registration& known : known_)
    if (known.watched) known.gone = known.gone || gone.touches(known.pages);
  for (auto at = known_.begin(); at != known_.end();) {
    const auto one = at++;
    if (one->gone && one->works + one->regions == 0) forget(one);
  }
}

/// Forgets a registration. Its pages stay watched if another registration contains some of them.
void LocalKeys::forget(std::list<Registration>::iterator one) {
  const auto pages = one->pages;
  const bool watched = one->watched;
  known_.erase(one);
  const bool shared = std::ranges::any_of(
      known_, [&](const Registration& known) { return known.watched && overlap(known.pages, pages); });
  if (watched && !shared) mappings_->unwatch(pages);
}

LocalKeys::Registration* LocalKeys::find(std::span<const std::byte> memory, Use use) {
  const auto found = std::ranges::find_if(known_, [&](const Registration& known) {
    return !known.gone && (known.watched || known.regions > 0) && (known.writable || use == Use::read) &&
           covers(known.pages, memory);
  });
  if (found == known_.end()) return nullptr;
  known_.splice(known_.begin(), known_, found);
  return &known_.front();
}

Result<LocalKeys::Registration*> LocalKeys::make(std::span<const std::byte> memory, Use use) {
  if (known_.size() >= kMostKept) {
    const auto last_use = [](const Registration& known) {
      return known.works + known.regions == 0 ? known.last_use : UINT64_MAX;
    };
    const auto oldest = std::ranges::min_element(known_, {}, last_use);
    if (last_use(*oldest) != UINT64_MAX) forget(oldest);
  }
  const auto pages = pages_around(memory);
  // The pages are watched before they are registered, so that no later change of the mapping is missed.
  const bool watched = mappings_ && mappings_->watch(pages).has_value();
  const auto address = reinterpret_cast<std::uint64_t>(pages.data());
  auto handle = register_with_device(domain_, pages, address, IBV_ACCESS_LOCAL_WRITE);
  const bool writable = handle.has_value();
  if (!handle && use == Use::read)  // Memory that is mapped read-only can still be sent.
    handle = register_with_device(domain_, pages, address, 0);
  if (!handle) return std::unexpected(handle.error());
  ++registrations_;
  return &known_.emplace_front(
      Registration{.pages = pages, .handle = std::move(*handle), .writable = writable, .watched = watched});
}

}  // namespace rdmc::fabric
