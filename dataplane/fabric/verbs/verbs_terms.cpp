#include "dataplane/fabric/verbs/verbs_terms.hpp"

#include <algorithm>
#include <bit>
#include <cassert>

#include "dataplane/base/gid.hpp"

namespace rdmc::fabric {

ibv_gid gid_of(const Address& address) {
  ibv_gid gid;
  std::ranges::copy(to_gid(address), gid.raw);
  return gid;
}

std::uint32_t bytes_of(ibv_mtu mtu) {
  return 128U << mtu;
}

ibv_mtu mtu_of(std::uint32_t bytes) {
  assert(std::has_single_bit(bytes) && bytes >= 256 && bytes <= 4096);
  return static_cast<ibv_mtu>(std::countr_zero(bytes) - 7);
}

std::uint8_t ack_timeout_exponent(Duration patience, std::uint32_t tries) {
  // The least exponent gives 1 ms. This time covers short pauses of a busy peer, not the round trip of the
  // network. If a NIC knows that packets are missing, it repeats them at once and does not wait for this
  // time.
  constexpr std::uint8_t kLeast = 8, kMost = 31;
  const double each = static_cast<double>(patience.ns) / std::max(tries, 1U) / 4096;
  std::uint8_t exponent = kLeast;
  while (exponent < kMost && static_cast<double>(std::uint64_t{1} << exponent) < each) ++exponent;
  return exponent;
}

WorkStatus status_of(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_SUCCESS: return WorkStatus::success;
    case IBV_WC_RETRY_EXC_ERR: return WorkStatus::retry_exceeded;
    case IBV_WC_RNR_RETRY_EXC_ERR: return WorkStatus::rnr_retry_exceeded;
    case IBV_WC_REM_INV_REQ_ERR: return WorkStatus::remote_invalid_request;
    case IBV_WC_REM_ACCESS_ERR: return WorkStatus::remote_access;
    case IBV_WC_REM_OP_ERR: return WorkStatus::remote_operational;
    case IBV_WC_LOC_LEN_ERR: return WorkStatus::local_length;
    case IBV_WC_BAD_RESP_ERR: return WorkStatus::bad_response;
    default: return WorkStatus::flushed;
  }
}

std::string text_of(ibv_wc_status status) {
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR: return "the peer stopped acknowledging";
    case IBV_WC_RNR_RETRY_EXC_ERR: return "the peer posted no receive";
    case IBV_WC_REM_INV_REQ_ERR: return "the peer refused a request as invalid";
    case IBV_WC_REM_ACCESS_ERR: return "the peer refused access: key or range revoked or wrong";
    case IBV_WC_REM_OP_ERR: return "the peer reported an error of its own";
    case IBV_WC_LOC_LEN_ERR: return "a message arrived that is longer than the posted receive";
    case IBV_WC_BAD_RESP_ERR: return "the peer answered a READ or atomic with something else";
    // If the device has ended the connection because of the peer's fault, this is the first status that is
    // seen.
    case IBV_WC_WR_FLUSH_ERR: return "the RDMA device has ended the connection";
    default: return std::string("the RDMA device reports: ") + ibv_wc_status_str(status);
  }
}

int access_flags(RemoteAccess access) {
  int flags = IBV_ACCESS_LOCAL_WRITE;
  if (permits(access, RemoteAccess::write)) flags |= IBV_ACCESS_REMOTE_WRITE;
  if (permits(access, RemoteAccess::read)) flags |= IBV_ACCESS_REMOTE_READ;
  if (permits(access, RemoteAccess::atomic)) flags |= IBV_ACCESS_REMOTE_ATOMIC;
  return flags;
}

}  // namespace rdmc::fabric
