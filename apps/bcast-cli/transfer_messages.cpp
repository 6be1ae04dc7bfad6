#include "apps/bcast-cli/transfer_messages.hpp"

#include <algorithm>
#include <utility>

// Generated code causes warnings that this project enables.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "apps/bcast-cli/transfer.pb.h"
#pragma GCC diagnostic pop

namespace rdmc::bcast {
namespace {

constexpr std::uint32_t kAllModeBits = 07777, kPermissions = 0777;

template <typename Message>
session::Bytes serialized(const Message& message) {
  session::Bytes bytes(message.ByteSizeLong());
  message.SerializeToArray(bytes.data(), static_cast<int>(bytes.size()));
  return bytes;
}

template <typename Message>
bool parse(Message& message, std::span<const std::byte> bytes) {
  return bytes.size() <= session::kMaxMessageBytes &&
         message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

}  // namespace

session::Bytes encode(const JobDescription& job) {
  wire::Job message;
  message.set_destination(job.destination);
  message.set_source_name(job.source_name);
  message.set_size(job.shape.size);
  message.set_allocated_bytes(job.allocated_bytes);
  message.set_block_size(job.shape.block_size);
  message.set_overwrite(job.overwrite);
  message.set_dry_run(job.dry_run);
  message.set_limit_rate(job.limit_rate.value_or(0));
  message.set_encrypt(job.encrypt);
  message.set_mode(job.mode);
  return serialized(message);
}

Result<JobDescription> decode_job(std::span<const std::byte> bytes) {
  wire::Job message;
  if (!parse(message, bytes)) return fail(Errc::protocol_error, "a malformed job");
  const auto shape = FileShape::make(message.size(), message.block_size());
  if (!shape) return std::unexpected(shape.error());
  if (!message.has_mode() || message.mode() > kAllModeBits)
    return fail(Errc::protocol_error, "a job with a file mode out of bounds");
  std::optional<std::uint64_t> limit_rate;
  if (message.limit_rate() > 0) limit_rate = message.limit_rate();
  return JobDescription{.destination = message.destination(),
                        .source_name = message.source_name(),
                        .shape = *shape,
                        .allocated_bytes = message.allocated_bytes(),
                        .mode = message.mode() & kPermissions,
                        .overwrite = message.overwrite(),
                        .dry_run = message.dry_run(),
                        .limit_rate = limit_rate,
                        .encrypt = message.encrypt()};
}

session::Bytes encode(const EpochParameters& parameters) {
  wire::Epoch message;
  message.set_algorithm(static_cast<std::uint32_t>(parameters.algorithm));
  for (const std::uint32_t size : parameters.racks.sizes()) message.add_rack_sizes(size);
  message.set_stragglers(parameters.stragglers);
  message.set_suspect_after_ns(static_cast<std::uint64_t>(parameters.suspect_after.ns));
  const auto blocks = parameters.blocks.superset(BlockMap::kMaxRanges).encode();
  message.set_blocks(blocks.data(), blocks.size());
  return serialized(message);
}

Result<EpochParameters> decode_parameters(std::span<const std::byte> bytes, const FileShape& shape) {
  wire::Epoch message;
  if (!parse(message, bytes)) return fail(Errc::protocol_error, "malformed parameters of an epoch");
  const auto algorithm = relay::algorithm_of(message.algorithm());
  if (!algorithm) return fail(Errc::protocol_error, "an epoch of an unknown algorithm");
  relay::Racks racks;
  if (message.rack_sizes_size() > 0) {
    const std::vector<std::uint32_t> sizes(message.rack_sizes().begin(), message.rack_sizes().end());
    auto known = relay::Racks::of(sizes);
    if (!known) return fail(Errc::protocol_error, known.error().what);
    racks = std::move(*known);
  }
  constexpr auto kLongest = static_cast<std::uint64_t>(seconds(3600).ns);
  if (message.suspect_after_ns() == 0 || message.suspect_after_ns() > kLongest)
    return fail(Errc::protocol_error, "an epoch with a time out of bounds");
  auto blocks = BlockMap::decode(bytes_of(message.blocks()), shape.blocks());
  if (!blocks) return std::unexpected(blocks.error());
  if (blocks->count() == 0) return fail(Errc::protocol_error, "an epoch without blocks");
  return EpochParameters{.algorithm = *algorithm,
                         .racks = std::move(racks),
                         .stragglers = message.stragglers(),
                         .suspect_after = nanoseconds(static_cast<std::int64_t>(message.suspect_after_ns())),
                         .blocks = std::move(*blocks)};
}

session::Bytes encode(const Digest& digest) {
  return {digest.begin(), digest.end()};
}

session::Bytes encode_held(const BlockMap& held) {
  // The missing blocks are rounded up to fewer ranges. So some held blocks are reported as missing and are
  // sent again, but no missing block is reported as held.
  if (held.ranges().size() <= BlockMap::kMaxRanges) return held.encode();
  return held.complement().superset(BlockMap::kMaxRanges - 1).complement().encode();
}

}  // namespace rdmc::bcast
