// The requests of one collective operation that are in flight. It limits their number, waits for the bytes
// that a send needs, and finishes all requests before it is destroyed. So a function that returns early
// because of an error leaves no request.
//
// A window waits for a request only if the request belongs to the same step of the algorithm as the caller,
// or to an earlier one. So there is no deadlock if these conditions hold: a message is sent in the step in
// which it is received, a rank begins the receives and the sends of the steps in order, and it begins the
// receive of a step before the send of this step.
//
// The memory of the requests belongs to the caller. One thread uses a window.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/base/error.hpp"
#include "lib/replica/exchange.hpp"

namespace rdmc::replica::collectives {

/// The kind of an operation is the tag of its messages. The messages of two ranks stay in order, so one tag
/// for each kind is enough.
enum class Kind : std::uint8_t {
  barrier,
  broadcast,
  gather,
  scatter,
  all_gather,
  all_to_all,
  reduce,
  all_reduce,
  reduce_scatter,
  scan,
};

class RequestWindow {
 public:
  /// The largest number of sends, and the largest number of receives.
  static constexpr std::size_t kMost = 32;
  /// The number of sends for long messages. If there are more of them, they share the link, and then the
  /// first one is received late.
  static constexpr std::size_t kFewSends = 4;

  /// Precondition: 1 <= most_sends <= kMost.
  RequestWindow(Exchange& exchange, Kind kind, std::size_t most_sends = kMost);
  /// Waits for all requests.
  ~RequestWindow();
  RequestWindow(const RequestWindow&) = delete;
  RequestWindow& operator=(const RequestWindow&) = delete;

  /// Begins to send, after it has waited for all receives that write into `bytes`. If too many sends are in
  /// flight, waits for the oldest one first.
  Result<void> send(std::span<const std::byte> bytes, int to);
  /// Begins to receive. If too many receives are in flight, waits for the oldest one first.
  Result<void> receive(std::span<std::byte> bytes, int from);
  /// Waits for all receives that write into `bytes`.
  Result<void> wait_for(std::span<const std::byte> bytes);
  /// Waits for all requests.
  Result<void> finish();

 private:
  struct Request {
    std::uint64_t number = 0;
    std::span<const std::byte> bytes;
    bool is_finished = false;
  };
  /// Requests in the order in which they have begun.
  struct Ring {
    std::array<Request, kMost> requests;
    std::size_t first = 0, count = 0;
    Request& at(std::size_t index) { return requests[(first + index) % kMost]; }
    void add(std::uint64_t number, std::span<const std::byte> bytes);
    void drop_finished();
  };
  Result<void> make_space(Ring& ring, std::size_t most);

  Exchange& exchange_;
  int tag_;
  std::size_t most_sends_;
  Ring sends_, receives_;
};

/// Sends a message to `to` and receives one from `from`, and waits for both.
Result<void> send_and_receive(Exchange& exchange, Kind kind, std::span<const std::byte> bytes, int to,
                              std::span<std::byte> into, int from);

}  // namespace rdmc::replica::collectives
