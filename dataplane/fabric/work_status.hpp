// What a completion reports: the kind of the work request, and how it ended. A header of its own, because
// applications of librdmc use these enums too.
#pragma once

#include <cstdint>
#include <string_view>

namespace rdmc::fabric {

enum class WorkKind : std::uint8_t {
  send,     ///< A local SEND was acknowledged.
  write,    ///< A local WRITE, with or without immediate, was acknowledged.
  receive,  ///< A SEND arrived in a posted receive.
  /// A WRITE with immediate arrived. It consumed a posted receive, and its bytes are in place.
  receive_write_immediate,
  read,    ///< The bytes that a local READ asked for have arrived.
  atomic,  ///< A local COMPARE & SWAP or FETCH & ADD was executed, exactly once.
};

/// The names are those of verbs (ibv_wc_status). Every status except success means that the queue pair is in
/// the error state.
enum class WorkStatus : std::uint8_t {
  success,
  retry_exceeded,          ///< The peer never acknowledged: it is gone or unreachable.
  rnr_retry_exceeded,      ///< The peer never posted a receive.
  remote_invalid_request,  ///< NAK 0x61
  remote_access,           ///< NAK 0x62: a wrong key, range or right.
  remote_operational,      ///< NAK 0x63
  local_length,            ///< A SEND was longer than the posted receive.
  bad_response,            ///< The answer to a READ or atomic did not fit the request.
  flushed,                 ///< The queue pair entered the error state before this request was done.
};
std::string_view name(WorkStatus status) noexcept;

}  // namespace rdmc::fabric
