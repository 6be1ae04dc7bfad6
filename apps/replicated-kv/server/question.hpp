// Asks another server one question, as a client does.
#pragma once

#include <string>

#include "dataplane/base/address.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::kv {

/// Sends `request`, a line, and returns the bulk string of the reply, or the last bulk string of an array of
/// them. An empty array gives an empty text. Waits for each step for at most 3 s. Errors: timed_out or
/// peer_failed if there is no reply, protocol_error if the reply is something else, with its text.
Result<std::string> ask(const Address& server, const std::string& request);

}  // namespace rdmc::kv
