// A client of a server, as Service sees it: what it has sent, what it gets, and its state. Service owns it.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "apps/replicated-kv/commands/command.hpp"
#include "apps/replicated-kv/resp/request_parser.hpp"

namespace rdmc::kv {

/// The reply, or several replies, to requests of a client that follow each other.
struct Answer {
  std::uint64_t batch = 0;     ///< the batch that has the requests, or 0
  std::uint64_t position = 0;  ///< the answer may leave when all events below this position are stable
  bool is_ready = false;       ///< `bytes` is complete
  bool is_waiting = false;     ///< the command waits for a key, as the databases know
  std::uint32_t writes = 0;    ///< the number of the requests that may change something
  std::uint32_t requests = 0;  ///< the number of the requests that have a reply in `bytes`, or will have one
  std::uint32_t missing = 0;   ///< the number of their replies that `bytes` does not have yet
  std::string bytes;
};

struct Client {
  Client(std::uint64_t client_number, std::string client_address, const RequestParser::Limits& limits)
      : number(client_number), address(std::move(client_address)), parser(limits) {}

  const std::uint64_t number;
  const std::string address;
  RequestParser parser;
  std::string output;            ///< replies that may leave
  std::deque<Answer> answers;    ///< replies that must wait, in the order of the requests
  bool is_lost = false;          ///< the connection ends at once, without what it has not sent
  bool is_closing = false;       ///< after `output`, the connection ends
  bool is_held = false;          ///< the request in the parser waits
  Milliseconds held_since = 0;   ///< when it began to wait, on the steady clock
  bool waits_for_space = false;  ///< the request in the parser waits because its reply is long
  bool is_listed = false;        ///< in the list of the clients that have changed in this turn
  bool is_stopped = false;       ///< the parser may have a request that waits until the client is not full

  /// The connection has no encryption, and the server wants all clients to use some.
  bool needs_tls = false;
  std::uint32_t database = 0;
  bool is_resp3 = false;
  std::string name;
  /// The number of the user that the client has proved to be, or 0. A client without a user acts as the
  /// default user if that one needs no password.
  std::uint64_t user = 0;
  std::uint32_t failed_logins = 0;  ///< since the last one that has succeeded
  /// The words of AUTH or HELLO while its event is on its way, with the digest of the password.
  std::vector<std::string> login;
  Milliseconds connected_at = 0, last_request = 0;
  Milliseconds active_at = 0;  ///< when the client has sent or read something
  std::string last_command;

  /// The last request is a command that may wait. The requests after it stay in the parser.
  bool may_be_waiting = false;
  Milliseconds waits_until = 0;  ///< or 0

  bool has_blocking_request = false;  ///< that command may wait for a key; otherwise it is EXEC
  bool is_being_unblocked = false;    ///< CLIENT UNBLOCK has ended the wait
  std::size_t waiter_bytes = 0;       ///< about the memory of the command that waits for a key

  std::size_t answer_bytes = 0;            ///< of `answers` that are ready
  Milliseconds over_soft_limit_since = 0;  ///< the output, with `answers`; or 0
  /// The reads in batches that have no reply yet, and about how long a reply to this client is.
  std::size_t reads_in_flight = 0, reply_bytes = 256 << 10;
  std::size_t long_reply_bytes = 0;  ///< about the bytes of those replies that are known to be long

  // Transactions.
  bool is_in_multi = false, has_multi_error = false, watches = false;
  /// It watched keys when the server left the order. Nobody knows whether they have changed since.
  bool has_lost_watches = false;
  std::vector<std::vector<std::string>> queued;
  std::size_t queued_bytes = 0;
};

}  // namespace rdmc::kv
