#include "dataplane/fabric/foreign_icrc.hpp"

namespace rdmc::fabric {

bool ForeignIcrc::matches(const Address& source, std::span<const std::byte> header,
                          std::span<const std::byte> payload, std::size_t pad_bytes,
                          std::size_t datagram_bytes, std::uint32_t icrc,
                          std::optional<std::uint16_t> identification) {
  if (!path_ || source != source_) {
    source_ = source;
    path_.emplace(source, ours_);
  }
  const std::uint32_t computed =
      path_->compute(identification.value_or(latest_), datagram_bytes, header, payload, pad_bytes);
  if (computed == icrc || identification) return computed == icrc;
  const auto solved = path_->solve_identification(latest_, computed, icrc, datagram_bytes);
  if (solved) latest_ = *solved;
  return solved.has_value();
}

}  // namespace rdmc::fabric
