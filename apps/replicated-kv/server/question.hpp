// Asks another server one question, as a client does.
#pragma once

#include <string>
#include <vector>

#include "dataplane/base/address.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::kv {

/// How a client proves who it is. Without a password, it does not.
struct Credentials {
  std::string user, password;
};

/// Sends the words of a request. Returns the bulk string or the number of the reply, or the last bulk string
/// of an array of them. An empty array gives an empty text. Waits for each step for at most 3 s. Errors:
/// timed_out or peer_failed if there is no reply, permission_denied if the server refuses the credentials,
/// protocol_error if the reply is something else, with its text.
Result<std::string> ask(const Address& server, const std::vector<std::string>& request,
                        const Credentials& credentials = {});

}  // namespace rdmc::kv
