// Compares what one rank has sent in two runs of a program (rdmc_run --check-determinism). A core without
// I/O; any thread may call the functions.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "lib/replica/send_log.hpp"

namespace rdmc::run {

/// A SendOrder says how much of the sends of a rank is the same in two runs. The later values are weaker.
enum class SendOrder : std::uint8_t {
  process,  ///< all sends, in one order: the program is send-deterministic
  channel,  ///< the sends to each rank with each tag, but their order differs
  none,
};

/// A call that sends a message in one run, and what is in its place in the other run.
struct SendMismatch {
  std::size_t call = 0;  ///< the number of the call among the sends of the rank, from 0
  std::optional<replica::LoggedSend> first{}, second{};  ///< nullopt if that run has no such message
  friend bool operator==(const SendMismatch&, const SendMismatch&) = default;
};

struct SendComparisonResult {
  SendOrder order = SendOrder::process;
  /// The first difference in the order of the calls, if `order` is channel. The first difference in a
  /// channel, if it is none. The length of a message counts, and its content does not.
  std::optional<SendMismatch> mismatch{};
  /// The first message whose content differs, among the messages that correspond to each other.
  std::optional<SendMismatch> content{};
};

SendComparisonResult compare_sends(std::span<const replica::LoggedSend> first,
                                   std::span<const replica::LoggedSend> second);

/// Describes a mismatch for people: "call 5: 8 bytes to rank 2 with tag 1 in communicator 0, or ...".
std::string describe(const SendMismatch& mismatch);

}  // namespace rdmc::run
