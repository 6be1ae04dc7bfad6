// Encodes and decodes the parts of the session's messages that the session does not look into: the job, the
// parameters of an epoch, a receiver's state (the map of the blocks that it has), and its report (the
// digest). Decoding checks every value. The functions are pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "apps/bcast-cli/file_digest.hpp"
#include "apps/bcast-cli/file_shape.hpp"
#include "apps/bcast-cli/ranking.hpp"
#include "controlplane/session/types.hpp"
#include "dataplane/base/error.hpp"
#include "dataplane/base/types.hpp"
#include "dataplane/relay/schedule.hpp"

namespace rdmc::bcast {

/// The name of the service that agents offer to senders, and survivors to each other.
inline constexpr const char* kService = "bcast";

struct JobDescription {
  std::string destination;
  std::string source_name;
  FileShape shape;
  std::uint64_t allocated_bytes = 0;
  std::uint32_t mode = 0600;  ///< the copy's permissions, at most 0777
  bool overwrite = false;
  bool dry_run = false;
  std::optional<std::uint64_t> limit_rate;  ///< the bits per second that the source may send, at least 1
  bool encrypt = false;                     ///< true if data that leaves a host is encrypted
  friend bool operator==(const JobDescription&, const JobDescription&) = default;
};
session::Bytes encode(const JobDescription& job);
/// Decodes a job. Leaves out the setuid, setgid and sticky bits. Otherwise a sender could make such a file
/// through an agent that runs as root. Errors: protocol_error if the bytes are malformed, or the shape or the
/// mode is out of bounds.
Result<JobDescription> decode_job(std::span<const std::byte> bytes);

struct EpochParameters {
  relay::Algorithm algorithm = relay::Algorithm::binomial_pipeline;
  relay::Racks racks{};  ///< in the order of the members' ranks; empty if the racks are not known
  std::uint32_t stragglers = 0;
  Duration suspect_after{};
  BlockMap blocks;
  friend bool operator==(const EpochParameters&, const EpochParameters&) = default;
};
/// The sender's settings for its epochs. After the sender's death a new coordinator uses the same settings.
struct TransferWishes {
  relay::Algorithm algorithm = relay::Algorithm::binomial_pipeline;
  Duration suspect_after{};
  RackOf racks;
};
session::Bytes encode(const EpochParameters& parameters);
/// Decodes the parameters of an epoch. Errors: protocol_error if the bytes are malformed or belong to a file
/// with another number of blocks, if the algorithm is unknown, if there is no block, if a time is out of
/// bounds, or if the racks are invalid.
Result<EpochParameters> decode_parameters(std::span<const std::byte> bytes, const FileShape& shape);

session::Bytes encode(const Digest& digest);

/// Encodes the blocks that a receiver has. If they form too many ranges for one message, some of the blocks
/// are left out.
session::Bytes encode_held(const BlockMap& held);

}  // namespace rdmc::bcast
