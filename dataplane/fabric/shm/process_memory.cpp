#include "dataplane/fabric/shm/process_memory.hpp"

#include <poll.h>
#include <sys/uio.h>

namespace rdmc::fabric::shm {

std::size_t read_process(pid_t process, std::uint64_t address, std::span<std::byte> to) {
  const iovec here{to.data(), to.size()};
  const iovec there{reinterpret_cast<void*>(address), to.size()};  // NOLINT: an address of another process
  const ssize_t count = process > 0 ? process_vm_readv(process, &here, 1, &there, 1, 0) : -1;
  return count > 0 ? static_cast<std::size_t>(count) : 0;
}

std::size_t ProcessMemory::read(std::uint64_t address, std::span<std::byte> to) const {
  const std::size_t count = read_process(process_, address, to);
  pollfd end{.fd = end_.get(), .events = POLLIN};  // -1 is left out
  return poll(&end, 1, 0) > 0 ? 0 : count;
}

}  // namespace rdmc::fabric::shm
