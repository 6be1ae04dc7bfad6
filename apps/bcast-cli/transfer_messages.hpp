// The opaque parts of the session's messages as values: the job, an epoch's parameters, a receiver's state
// (the map of the blocks it holds) and its report (the digest). Decoding trusts nothing. Pure.
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

/// What agents serve, and survivors for each other.
inline constexpr const char* kService = "bcast";

struct JobDescription {
  std::string destination;
  std::string source_name;
  FileShape shape;
  std::uint64_t allocated_bytes = 0;
  std::uint32_t mode = 0600;  ///< the copy's permissions, at most 0777
  bool overwrite = false;
  bool dry_run = false;
  std::optional<std::uint64_t> limit_rate;  ///< bits per second that a source gives, at least 1
  bool encrypt = false;                     ///< what leaves a host
  friend bool operator==(const JobDescription&, const JobDescription&) = default;
};
session::Bytes encode(const JobDescription& job);
/// Leaves setuid, setgid and sticky bits out: whoever sends must not make such a file for an agent that runs
/// as root. Errors: protocol_error (malformed, or a shape or mode out of bounds).
Result<JobDescription> decode_job(std::span<const std::byte> bytes);

struct EpochParameters {
  relay::Algorithm algorithm = relay::Algorithm::binomial_pipeline;
  relay::Racks racks{};  ///< of the members by rank, if they are known
  std::uint32_t stragglers = 0;
  Duration suspect_after{};
  BlockMap blocks;
  friend bool operator==(const EpochParameters&, const EpochParameters&) = default;
};
/// How the sender wants its epochs to go; who leads on without it wants the same.
struct TransferWishes {
  relay::Algorithm algorithm = relay::Algorithm::binomial_pipeline;
  Duration suspect_after{};
  RackOf racks;
};
session::Bytes encode(const EpochParameters& parameters);
/// Errors: protocol_error (malformed, of another file, an unknown algorithm, no block, a time out of bounds,
/// racks that make no sense).
Result<EpochParameters> decode_parameters(std::span<const std::byte> bytes, const FileShape& shape);

session::Bytes encode(const Digest& digest);

/// What a receiver says it holds; of more ranges than a message takes, only as much as fits.
session::Bytes encode_held(const BlockMap& held);

}  // namespace rdmc::bcast
