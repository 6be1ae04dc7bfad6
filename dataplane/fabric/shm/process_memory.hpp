// The kernel's copy from another process's memory (process_vm_readv), which it permits to whom it would let
// trace that process. Any thread.
#pragma once

#include <sys/types.h>

#include "dataplane/base/descriptor.hpp"
#include "dataplane/fabric/peer_memory.hpp"

namespace rdmc::fabric::shm {

/// How many bytes it was, from the front.
std::size_t read_process(pid_t process, std::uint64_t address, std::span<std::byte> to);

class ProcessMemory final : public PeerMemory {
 public:
  /// `end`: readable from the end of `process` on, whose number may be another's then; none: it is ours.
  ProcessMemory(pid_t process, Descriptor end);
  std::size_t read(std::uint64_t address, std::span<std::byte> to) const override;
  /// By /proc/PID/pagemap, which shows to whom it lets read the process what is present and nothing else.
  bool is_present(std::uint64_t address, std::size_t bytes) const override;

 private:
  pid_t process_;
  Descriptor pages_;
  Descriptor end_;
};

}  // namespace rdmc::fabric::shm
