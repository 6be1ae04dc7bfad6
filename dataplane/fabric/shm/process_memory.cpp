#include "dataplane/fabric/shm/process_memory.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace rdmc::fabric::shm {

std::size_t read_process(pid_t process, std::uint64_t address, std::span<std::byte> to) {
  const iovec here{to.data(), to.size()};
  const iovec there{reinterpret_cast<void*>(address), to.size()};  // NOLINT: an address of another process
  const ssize_t count = process > 0 ? process_vm_readv(process, &here, 1, &there, 1, 0) : -1;
  return count > 0 ? static_cast<std::size_t>(count) : 0;
}

ProcessMemory::ProcessMemory(pid_t process, Descriptor end)
    : process_(process),
      pages_(::open(("/proc/" + std::to_string(process) + "/pagemap").c_str(), O_RDONLY | O_CLOEXEC)),
      end_(std::move(end)) {}

bool ProcessMemory::is_present(std::uint64_t address, std::size_t bytes) const {
  static const auto page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  // The bit that marks a present page (Documentation/admin-guide/mm/pagemap.rst of the kernel).
  constexpr std::uint64_t kPresent = std::uint64_t{1} << 63;
  if (bytes == 0) return true;
  if (bytes - 1 > UINT64_MAX - address) return false;
  std::array<std::uint64_t, 512> entries;
  const std::uint64_t end = (address + (bytes - 1)) / page_bytes + 1;
  for (std::uint64_t page = address / page_bytes; page < end;) {
    const std::size_t count = std::min<std::uint64_t>(entries.size(), end - page);
    const ssize_t read = ::pread(pages_.get(), entries.data(), count * sizeof entries[0],
                                 static_cast<off_t>(page * sizeof entries[0]));
    if (read != static_cast<ssize_t>(count * sizeof entries[0])) return false;
    if (!std::all_of(entries.begin(), entries.begin() + static_cast<std::ptrdiff_t>(count),
                     [](std::uint64_t entry) { return (entry & kPresent) != 0; }))
      return false;
    page += count;
  }
  return true;
}

std::size_t ProcessMemory::read(std::uint64_t address, std::span<std::byte> to) const {
  const std::size_t count = read_process(process_, address, to);
  pollfd end{.fd = end_.get(), .events = POLLIN};  // poll() ignores a descriptor of -1.
  return poll(&end, 1, 0) > 0 ? 0 : count;
}

}  // namespace rdmc::fabric::shm
