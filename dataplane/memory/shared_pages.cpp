#include "dataplane/memory/shared_pages.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "dataplane/memory/aligned_mapping.hpp"
#include "dataplane/memory/arena.hpp"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace rdmc::memory {
namespace {

/// The name of the memory in /proc/PID/maps is made of this name.
constexpr const char* kName = "rdmc";

}  // namespace

Result<SharedPages> SharedPages::map(Descriptor descriptor, std::size_t bytes, int protection) {
  // Huge pages are aligned to their size, both in the file and in the address space.
  const bool large = bytes >= 2 * kHugePageBytes;
  void* const wanted = large ? map_aligned(bytes, PROT_NONE) : nullptr;
  if (wanted == MAP_FAILED) return fail_errno("no addresses for shared memory", errno);
  void* const at = mmap(wanted, bytes, protection, MAP_SHARED | (large ? MAP_FIXED : 0), descriptor.get(), 0);
  if (at == MAP_FAILED) {
    const int error = errno;
    if (large) munmap(wanted, bytes);
    return fail_errno("cannot map shared memory", error);
  }
  SharedPages pages(std::move(descriptor), {static_cast<std::byte*>(at), bytes});
  if (large) madvise(at, bytes, MADV_HUGEPAGE);
  return pages;
}

Result<SharedPages> SharedPages::make(std::size_t bytes, Peers peers, Touch touch) {
  const std::size_t size = round_up_to_page(bytes);
  if (size == 0 || size < bytes) return fail(Errc::resource_limit, "no such amount of shared memory");
  Descriptor descriptor(memfd_create(kName, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!descriptor) return fail_errno("memfd_create", errno);
  if (ftruncate(descriptor.get(), static_cast<off_t>(size)) != 0)
    return fail_errno("cannot get " + std::to_string(size) + " bytes of shared memory", errno);
  auto pages = map(std::move(descriptor), size, PROT_READ | PROT_WRITE);
  if (!pages) return pages;
  // This mapping stays writable. F_SEAL_FUTURE_WRITE affects only mappings that are made from now on.
  const int seals = F_SEAL_SHRINK | F_SEAL_GROW | (peers == Peers::may_read ? F_SEAL_FUTURE_WRITE : 0);
  if (fcntl(pages->descriptor_.get(), F_ADD_SEALS, seals | F_SEAL_SEAL) != 0) {
    if (errno == EINVAL) return fail(Errc::unsupported, "this kernel cannot seal shared memory");
    return fail_errno("cannot seal shared memory", errno);
  }
  if (touch == Touch::now && madvise(pages->bytes_.data(), size, MADV_POPULATE_WRITE) != 0) {
    if (errno != EINVAL) return fail_errno("cannot get " + std::to_string(size) + " bytes of memory", errno);
    for (std::size_t at = 0; at < size; at += kPageBytes) pages->bytes_[at] = std::byte{0};
  }
  return pages;
}

Result<SharedPages> SharedPages::attach(Descriptor descriptor, std::size_t bytes, Peers we) {
  const std::size_t size = round_up_to_page(bytes);
  // The size is checked after the seals, because it is reliable only if no process can shrink the memory any
  // more.
  const int seals = fcntl(descriptor.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return fail(Errc::protocol_error, "a peer's shared memory is not sealed");
  struct stat status {};
  if (fstat(descriptor.get(), &status) != 0) return fail_errno("a peer's shared memory", errno);
  if (size == 0 || size < bytes || std::cmp_less(status.st_size, size))
    return fail(Errc::protocol_error, "a peer's shared memory is smaller than it says");
  return map(std::move(descriptor), size, we == Peers::may_write ? PROT_READ | PROT_WRITE : PROT_READ);
}

SharedPages::~SharedPages() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
}

void unmap_shared_pages() {
  const std::string ending = std::string("/memfd:") + kName + " (deleted)";
  std::vector<std::span<std::byte>> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    if (!line.ends_with(ending) || std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR, &begin, &end) != 2)
      continue;
    found.emplace_back(reinterpret_cast<std::byte*>(begin), end - begin);
  }
  for (const auto& mapping : found) munmap(mapping.data(), mapping.size());
}

}  // namespace rdmc::memory
