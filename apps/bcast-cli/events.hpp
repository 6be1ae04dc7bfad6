// The events of a transfer, for programs and for people. Each event can be written as a line of JSON for
// stdout (with --json) and as text for stderr. This file has only values and pure functions; it writes
// nothing. Names and causes come from peers and users and can contain any bytes. Nevertheless the JSON is
// valid UTF-8, and the text contains no control characters for a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "controlplane/session/types.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::bcast {

struct ProgressEvent {
  /// The bytes of the file that a receiver has on average. Receivers that have left the transfer do not
  /// count.
  std::uint64_t bytes = 0;
  std::uint64_t total_bytes = 0;  ///< the file's size
  double seconds = 0;             ///< the time since the transfer began
  double bits_per_second = 0;     ///< the rate at which `bytes` has grown recently
  std::uint32_t receivers = 0;    ///< the number of receivers that are still in the transfer or have the file
  std::uint32_t done = 0;
  std::string slowest_host;  ///< empty if all receivers have the file
  std::uint64_t slowest_bytes = 0;
};

/// The fabric that carries the sender's data.
struct FabricEvent {
  std::string fabric;  ///< the fabric's name, such as "udp"
  std::string reason;  ///< the reason why it was chosen
};

/// How the blocks of an epoch are sent.
struct PlanEvent {
  std::string algorithm;
  std::uint32_t block_bytes = 0;
  std::uint32_t receivers = 0;
};

/// A receiver was found that is far from the others or has a slower link. It does not delay the others.
struct StragglerEvent {
  std::string host;
};

struct ReceiverEvent {
  std::string host;  ///< the receiver's address, such as "10.0.0.5:7700"
  session::Status status = session::Status::failed;
  std::uint64_t bytes = 0;  ///< the number of bytes of the file that the receiver has, committed or not
  double seconds = 0;
  std::string digest;  ///< the digest as 32 hex digits; empty in a dry run, or if the status is not ok
  std::string cause;   ///< empty if the status is ok
};

struct SummaryEvent {
  std::uint32_t ok = 0;
  std::uint32_t failed = 0;
  std::uint32_t refused = 0;
  std::uint64_t bytes = 0;  ///< the file's size
  double seconds = 0;
  bool dry_run = false;
  std::string cause;  ///< the reason why the whole transfer ended; empty if only single receivers failed

  void count(session::Status status);
  /// Returns the rate, in Gb/s, at which each successful receiver has received the file. Returns 0 if no
  /// receiver has the file.
  double goodput_gbps() const;
};

/// Returns one JSON object on one line, with a newline.
std::string json_line(const ProgressEvent& event);
std::string json_line(const FabricEvent& event);
std::string json_line(const PlanEvent& event);
std::string json_line(const StragglerEvent& event);
std::string json_line(const ReceiverEvent& event);
std::string json_line(const SummaryEvent& event);

/// Returns one line for people, with a newline.
std::string text_line(const FabricEvent& event);
std::string text_line(const PlanEvent& event);
std::string text_line(const StragglerEvent& event);
std::string text_line(const ReceiverEvent& event);
std::string text_line(const SummaryEvent& event);

}  // namespace rdmc::bcast
