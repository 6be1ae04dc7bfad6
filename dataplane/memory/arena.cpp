#include "dataplane/memory/arena.hpp"

#include <sys/mman.h>

#include <cerrno>

namespace rdmc::memory {

Result<Arena> Arena::make(std::size_t bytes) {
  const std::size_t size = round_up_to_page(bytes);
  if (size == 0) return Arena();
  void* const base =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (base == MAP_FAILED) return fail_errno("cannot map " + std::to_string(size) + " bytes of memory", errno);
  return Arena({static_cast<std::byte*>(base), size});
}

Arena::~Arena() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

}  // namespace rdmc::memory
