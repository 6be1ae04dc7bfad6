// The messages of InfiniBand's communication management (IBTA vol. 1, chapter 12) as values, and the codec
// between these values and the 256 bytes of a management datagram. Foreign endpoints that use rdma_cm connect
// by these messages. This file also has the header in which rdma_cm carries IP addresses (Annex A11). All
// functions are pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "dataplane/base/address.hpp"
#include "dataplane/base/types.hpp"

namespace rdmc::cm {

inline constexpr std::size_t kMadBytes = 256;
using Mad = std::array<std::byte, kMadBytes>;

/// The number that one side gives to a connection. Each side has its own number for it.
enum class CommunicationId : std::uint32_t {};

/// The sizes of the private data in the messages (tables 106 to 113). Shorter private data is padded with
/// zeros.
inline constexpr std::size_t kRequestPrivateBytes = 92, kReplyPrivateBytes = 196, kRejectPrivateBytes = 148;

/// The parameters of one side's queue pair.
struct QueuePairParameters {
  Qpn qpn{};
  Psn starting_psn;  ///< The first PSN that the *other* side must use (12.7.8).
  /// The largest number of the peer's READs and atomics that this queue pair accepts at a time.
  std::uint8_t responder_resources = 0;
  /// The largest number of READs and atomics that this queue pair starts at a time.
  std::uint8_t initiator_depth = 0;
  std::uint8_t rnr_retry_count = 7;  ///< 3 bits; 7 means for ever.
};

struct Request {
  CommunicationId local{};
  std::uint64_t service_id = 0;
  std::uint64_t adapter_guid = 0;
  QueuePairParameters queue_pair;
  /// The time within which each side must answer: 4.096 us x 2^response_timeout. The value has 5 bits.
  std::uint8_t response_timeout = 0;
  std::uint8_t retry_count = 7;   ///< 3 bits
  std::uint8_t cm_retries = 15;   ///< 4 bits
  std::uint32_t path_mtu = 1024;  ///< 256, 512, 1024, 2048 or 4096
  std::uint8_t ack_timeout = 14;  ///< The ACK timeout is 4.096 us x 2^ack_timeout. The value has 5 bits.
  Address local_address, remote_address;  ///< The GIDs of the path. Their port numbers are not encoded.
  std::uint8_t hop_limit = 64, traffic_class = 0;
  std::vector<std::byte> private_data;
};
struct Reply {
  CommunicationId local{}, remote{};
  std::uint64_t adapter_guid = 0;
  QueuePairParameters queue_pair;
  std::vector<std::byte> private_data;
};
/// The reasons of table 109 that have a name in the code. Other reasons are carried as numbers.
enum class RejectReason : std::uint16_t {
  no_resources = 3,
  timeout = 4,
  invalid_service_id = 8,
  stale_connection = 10,
  invalid_path_mtu = 26,
  too_few_responder_resources = 27,
  consumer = 28  ///< The program rejected the connection.
};
/// Returns a text for people that says what was refused and why. For a reason outside table 109 it contains
/// the number.
std::string explain(RejectReason reason);
/// The kind of the message that a Reject or MessageReceived answers.
enum class Answered : std::uint8_t { request = 0, reply = 1, other = 2 };
struct Reject {
  CommunicationId local{}, remote{};
  Answered answered{};
  RejectReason reason{};
  std::vector<std::byte> private_data;
};
/// The message MRA. Its sender reports that its answer will take longer.
struct MessageReceived {
  CommunicationId local{}, remote{};
  Answered answered{};
  /// The additional time is 4.096 us x 2^service_timeout. The value has 5 bits.
  std::uint8_t service_timeout = 0;
};
struct ReadyToUse {
  CommunicationId local{}, remote{};
};
struct DisconnectRequest {
  CommunicationId local{}, remote{};
  Qpn remote_qpn{};
};
struct DisconnectReply {
  CommunicationId local{}, remote{};
};

struct Message {
  std::uint64_t transaction = 0;
  std::variant<Request, Reply, Reject, MessageReceived, ReadyToUse, DisconnectRequest, DisconnectReply> body;
};

enum class ParseError : std::uint8_t {
  too_short,
  not_connection_management,  ///< The datagram has another class, version or method.
  unknown_message,
  /// A field has a bad value: a reserved QPN, an invalid path MTU, a transport that is not the reliable
  /// connection, or a GID that cannot belong to a host.
  bad_field
};
std::string_view name(ParseError error) noexcept;

/// Encodes `message`. Cuts off private data that is longer than the message allows.
Mad encode(const Message& message);
std::expected<Message, ParseError> decode(std::span<const std::byte> mad);

/// Returns the service ID of a port number in rdma_cm's TCP port space.
constexpr std::uint64_t service_of(std::uint16_t port) {
  constexpr std::uint64_t kTcpPortSpace = 0x0106'0000;
  return kTcpPortSpace | port;
}
/// Returns 4.096 us x 2^exponent. All timeouts of these messages have this form.
constexpr Duration timeout_of(std::uint8_t exponent) {
  return nanoseconds(std::int64_t{4096} << (exponent & 31));
}

/// The header before the program's own private data in an rdma_cm Request (36 bytes; Annex A11.4).
struct IpHeader {
  /// Both have the same address family. Of the two port numbers, only that of the source is encoded.
  Address source, destination;
};
inline constexpr std::size_t kIpHeaderBytes = 36;
std::array<std::byte, kIpHeaderBytes> encode(const IpHeader& header);
std::optional<IpHeader> decode_ip_header(std::span<const std::byte> private_data);

}  // namespace rdmc::cm
