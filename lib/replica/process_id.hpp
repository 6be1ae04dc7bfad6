// The number of a process of a rank program. A rank has one process for each of its replicas.
#pragma once

#include <cstdint>

namespace rdmc::replica {

/// The processes are numbered from 0: the replicas of rank 0 first, then those of rank 1, and so on.
enum class ProcessId : std::uint32_t {};

}  // namespace rdmc::replica
