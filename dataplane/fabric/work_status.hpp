// The kind of a work request, and how the work request ended. A completion contains both values. These enums
// have a header of their own, because applications of librdmc use them too.
#pragma once

#include <cstdint>
#include <string_view>

namespace rdmc::fabric {

enum class WorkKind : std::uint8_t {
  send,     ///< A local SEND was acknowledged.
  write,    ///< A local WRITE, with or without immediate, was acknowledged.
  receive,  ///< A SEND was received into a posted receive.
  /// A WRITE with immediate arrived. It consumed a posted receive, and its bytes are in place.
  receive_write_immediate,
  read,    ///< The bytes that a local READ requested have arrived.
  atomic,  ///< A local COMPARE & SWAP or FETCH & ADD was executed, exactly once.
};

/// The names are those of verbs (ibv_wc_status). Every status except success means that the queue pair is in
/// the error state.
enum class WorkStatus : std::uint8_t {
  success,
  retry_exceeded,          ///< The peer never acknowledged: it is gone or unreachable.
  rnr_retry_exceeded,      ///< The peer never posted a receive.
  remote_invalid_request,  ///< NAK 0x61: the peer refused the request as invalid.
  remote_access,           ///< NAK 0x62: the key, the range or the right was wrong.
  remote_operational,      ///< NAK 0x63: the peer had an error of its own.
  local_length,            ///< A SEND was longer than the posted receive.
  bad_response,            ///< The answer to a READ or atomic did not fit the request.
  flushed,                 ///< The queue pair entered the error state before this request was done.
};
std::string_view name(WorkStatus status) noexcept;

}  // namespace rdmc::fabric
