// The messages that collective operations need: sends and receives between the ranks of one communicator. The
// collective operations use only this interface, so that tests can run all ranks of a program in one thread,
// over simulated messages.
//
// The memory of a request belongs to the caller, and must exist until finish() has returned for the request.
// Only one thread may use an Exchange.
//
// After the first error, an Exchange has failed: finish() ends the other requests without waiting for
// messages of other ranks. Otherwise two ranks could wait for each other forever, because a collective
// operation begins no further request after an error. The implementation must also let the other ranks fail
// that need this rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/base/error.hpp"

namespace rdmc::replica {

class Exchange {
 public:
  virtual ~Exchange() = default;

  /// The number of this rank, from 0 to size() - 1.
  virtual int rank() const = 0;
  virtual int size() const = 0;

  /// Begins to send `bytes` to the rank `to`, and returns the number of the request. The bytes must not
  /// change until finish() has returned for this request. Messages from one rank to another one match
  /// receives in the order of sending.
  virtual Result<std::uint64_t> begin_send(std::span<const std::byte> bytes, int to, int tag) = 0;
  /// Begins to receive a message of bytes.size() bytes, and returns the number of the request.
  virtual Result<std::uint64_t> begin_receive(std::span<std::byte> bytes, int from, int tag) = 0;
  /// Waits until all of the requests have ended. If requests have failed, returns the error of the first one
  /// of them. No request exists any more after that, whether it has failed or not.
  virtual Result<void> finish(std::span<const std::uint64_t> requests) = 0;
};

}  // namespace rdmc::replica
