// What a transfer tells programs and people: each event once as a line of JSON for stdout (with --json) and
// once as text for stderr. Values and pure functions; nothing here writes. Names and causes come from peers
// and users: JSON is valid UTF-8 whatever bytes they hold, and text carries no control character to a
// terminal.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "controlplane/session/types.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::bcast {

struct ProgressEvent {
  std::uint64_t bytes = 0;        ///< of the file, that a receiver still in the transfer has on average
  std::uint64_t total_bytes = 0;  ///< the file's size
  double seconds = 0;             ///< since the transfer began
  double bits_per_second = 0;     ///< at which `bytes` grew lately
  std::uint32_t receivers = 0;    ///< still in the transfer, or done
  std::uint32_t done = 0;
  std::string slowest_host;  ///< empty when nobody is behind
  std::uint64_t slowest_bytes = 0;
};

/// What carries the sender's data.
struct FabricEvent {
  std::string fabric;  ///< "udp"
  std::string reason;  ///< why this one
};

/// How an epoch's blocks travel.
struct PlanEvent {
  std::string algorithm;
  std::uint32_t block_bytes = 0;
  std::uint32_t receivers = 0;
};

/// A receiver was found whose link is slower than the others', or that is far from them; it does not hold
/// them up.
struct StragglerEvent {
  std::string host;
};

struct ReceiverEvent {
  std::string host;  ///< "10.0.0.5:7700"
  session::Status status = session::Status::failed;
  std::uint64_t bytes = 0;  ///< of the file, in its place or not
  double seconds = 0;
  std::string digest;  ///< 32 hex digits; empty unless ok, and in a dry run
  std::string cause;   ///< empty if ok
};

struct SummaryEvent {
  std::uint32_t ok = 0;
  std::uint32_t failed = 0;
  std::uint32_t refused = 0;
  std::uint64_t bytes = 0;  ///< the file's size
  double seconds = 0;
  bool dry_run = false;
  std::string cause;  ///< why the whole ended, if it was not for single receivers; else empty

  void count(session::Status status);
  /// Of the file, at every receiver that has it; 0 when nobody has.
  double goodput_gbps() const;
};

/// One object on one line, with its newline.
std::string json_line(const ProgressEvent& event);
std::string json_line(const FabricEvent& event);
std::string json_line(const PlanEvent& event);
std::string json_line(const StragglerEvent& event);
std::string json_line(const ReceiverEvent& event);
std::string json_line(const SummaryEvent& event);

/// One line for people, with its newline.
std::string text_line(const FabricEvent& event);
std::string text_line(const PlanEvent& event);
std::string text_line(const StragglerEvent& event);
std::string text_line(const ReceiverEvent& event);
std::string text_line(const SummaryEvent& event);

/// "rdmc_bcast: TEXT", without a newline and not yet printable().
std::string complaint(const Error& error);

/// `text` with control characters and invalid UTF-8 written as \xNN, so that it can be shown on a terminal.
std::string printable(std::string_view text);

}  // namespace rdmc::bcast
