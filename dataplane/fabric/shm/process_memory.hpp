// Copies from another process's memory (process_vm_readv). The kernel permits this if the caller would be
// allowed to trace that process. Any thread.
#pragma once

#include <sys/types.h>

#include "dataplane/base/descriptor.hpp"
#include "dataplane/fabric/peer_memory.hpp"

namespace rdmc::fabric::shm {

/// Returns how many bytes were copied, from the front.
std::size_t read_process(pid_t process, std::uint64_t address, std::span<std::byte> to);

class ProcessMemory final : public PeerMemory {
 public:
  /// `end`: the pidfd of `process`, readable once it has ended. Afterwards, its process id may belong to
  /// another process. `end` is empty if `process` is this process.
  ProcessMemory(pid_t process, Descriptor end);
  std::size_t read(std::uint64_t address, std::span<std::byte> to) const override;
  /// Reads /proc/PID/pagemap. It shows which pages are present to every process that may read PID's memory.
  bool is_present(std::uint64_t address, std::size_t bytes) const override;

 private:
  pid_t process_;
  Descriptor pages_;
  Descriptor end_;
};

}  // namespace rdmc::fabric::shm
