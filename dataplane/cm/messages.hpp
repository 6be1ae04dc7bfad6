// The messages of InfiniBand's communication management (IBTA vol. 1, chapter 12) as values, and the codec
// between them and the 256 bytes of a management datagram; and the header in which rdma_cm carries IP
// addresses (Annex A11). Pure: values in, values out. Outsiders that use rdma_cm connect with these.
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

/// One side's number for a connection that is made, kept or ended.
enum class CommunicationId : std::uint32_t {};

/// Sizes of the private data that each message carries (tables 106 to 113); less is filled up with zeros.
inline constexpr std::size_t kRequestPrivateBytes = 92, kReplyPrivateBytes = 196, kRejectPrivateBytes = 148;

/// What one side says of its queue pair.
struct QueuePairParameters {
  Qpn qpn{};
  Psn starting_psn;                      ///< where the *other* side begins (12.7.8)
  std::uint8_t responder_resources = 0;  ///< READs and atomics of the peer that it can have under way
  std::uint8_t initiator_depth = 0;      ///< … and the most that it will start itself
  std::uint8_t rnr_retry_count = 7;      ///< 3 bits, 7 = for ever
};

struct Request {
  CommunicationId local{};
  std::uint64_t service_id = 0;
  std::uint64_t adapter_guid = 0;
  QueuePairParameters queue_pair;
  std::uint8_t response_timeout = 0;      ///< 5 bits: 4.096 us x 2^this, for the peer to answer and for us
  std::uint8_t retry_count = 7;           ///< 3 bits
  std::uint8_t cm_retries = 15;           ///< 4 bits
  std::uint32_t path_mtu = 1024;          ///< 256, 512, 1024, 2048 or 4096
  std::uint8_t ack_timeout = 14;          ///< 5 bits
  Address local_address, remote_address;  ///< the GIDs of the path; their ports are not part of them
  std::uint8_t hop_limit = 64, traffic_class = 0;
  std::vector<std::byte> private_data;
};
struct Reply {
  CommunicationId local{}, remote{};
  std::uint64_t adapter_guid = 0;
  QueuePairParameters queue_pair;
  std::vector<std::byte> private_data;
};
/// Reasons of table 109 that we give or explain; others are carried as they are.
enum class RejectReason : std::uint16_t {
  no_resources = 3,
  timeout = 4,
  invalid_service_id = 8,
  stale_connection = 10,
  invalid_path_mtu = 26,
  too_few_responder_resources = 27,
  consumer = 28  ///< the program said no
};
/// What was refused and why, for people; the number of one that is not of the table.
std::string explain(RejectReason reason);
/// Which message is answered (of a Reject and a MessageReceived).
enum class Answered : std::uint8_t { request = 0, reply = 1, other = 2 };
struct Reject {
  CommunicationId local{}, remote{};
  Answered answered{};
  RejectReason reason{};
  std::vector<std::byte> private_data;
};
/// MRA: the answer will take longer.
struct MessageReceived {
  CommunicationId local{}, remote{};
  Answered answered{};
  std::uint8_t service_timeout = 0;  ///< 5 bits: 4.096 us x 2^this more
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
  not_connection_management,  ///< another class, version or method
  unknown_message,
  bad_field  ///< a reserved QPN, a path MTU that is none, an unreliable transport, a GID of nobody
};
std::string_view name(ParseError error) noexcept;

/// Private data that is longer than its message has room for is cut.
Mad encode(const Message& message);
std::expected<Message, ParseError> decode(std::span<const std::byte> mad);

/// The service that rdma_cm's TCP port space names by a port number.
constexpr std::uint64_t service_of(std::uint16_t port) {
  constexpr std::uint64_t kTcpPortSpace = 0x0106'0000;
  return kTcpPortSpace | port;
}
/// 4.096 us x 2^exponent, as all timeouts of these messages are written.
constexpr Duration timeout_of(std::uint8_t exponent) {
  return nanoseconds(std::int64_t{4096} << (exponent & 31));
}

/// What precedes the program's own private data in an rdma_cm Request (36 bytes; Annex A11.4).
struct IpHeader {
  Address source, destination;  ///< the source's port counts; both of one family
};
inline constexpr std::size_t kIpHeaderBytes = 36;
std::array<std::byte, kIpHeaderBytes> encode(const IpHeader& header);
std::optional<IpHeader> decode_ip_header(std::span<const std::byte> private_data);

}  // namespace rdmc::cm
