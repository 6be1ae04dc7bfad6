// What a completion says: which kind of work it was, and how it ended. In a header of its own, because
// applications of librdmc read the same words.
#pragma once

#include <cstdint>
#include <string_view>

namespace rdmc::fabric {

enum class WorkKind : std::uint8_t {
  send,                     ///< our SEND was acknowledged
  write,                    ///< our WRITE (with or without immediate) was acknowledged
  receive,                  ///< a SEND arrived in a posted receive
  receive_write_immediate,  ///< a WRITE with immediate arrived; it consumed a posted receive, the bytes are
                            ///< in place
  read,                     ///< the bytes that our READ asked for are here
  atomic,                   ///< our COMPARE & SWAP or FETCH & ADD was executed, once
};

/// Named as in verbs (ibv_wc_status). Every status but success means that the queue pair is in the error
/// state.
enum class WorkStatus : std::uint8_t {
  success,
  retry_exceeded,          ///< the peer never acknowledged: gone or unreachable
  rnr_retry_exceeded,      ///< the peer never posted a receive
  remote_invalid_request,  ///< NAK 0x61
  remote_access,           ///< NAK 0x62: key, range or rights
  remote_operational,      ///< NAK 0x63
  local_length,            ///< a SEND longer than the posted receive
  bad_response,            ///< the answer to a READ or atomic did not fit it
  flushed,                 ///< the queue pair went to the error state before this request's turn
};
std::string_view name(WorkStatus status) noexcept;

}  // namespace rdmc::fabric
