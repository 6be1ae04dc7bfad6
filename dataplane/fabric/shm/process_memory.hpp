// Copies from another process's memory (process_vm_readv). The kernel permits this if the caller would be
// allowed to trace that process. May be used on any thread.
#pragma once

#include <sys/types.h>

#include "dataplane/base/descriptor.hpp"
#include "dataplane/fabric/peer_memory.hpp"

namespace rdmc::fabric::shm {

/// Copies to.size() bytes from `address` in `process`. Returns how many bytes were copied, counted from the
/// front.
std::size_t read_process(pid_t process, std::uint64_t address, std::span<std::byte> to);

class ProcessMemory final : public PeerMemory {
 public:
  /// `end` is the pidfd of `process`, which is readable once the process has ended. After that, the process
  /// id may belong to another process. `end` is empty if `process` is this process.
  ProcessMemory(pid_t process, Descriptor end);
  std::size_t read(std::uint64_t address, std::span<std::byte> to) const override;
  /// Reads /proc/PID/pagemap, which lists the pages that are present. Every process that may read PID's
  /// memory may read this file.
  bool is_present(std::uint64_t address, std::size_t bytes) const override;

 private:
  pid_t process_;
  Descriptor pages_;
  Descriptor end_;
};

}  // namespace rdmc::fabric::shm
