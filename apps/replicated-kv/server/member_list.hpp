// The list of the servers of a service, which must be the same at each of them. A server with another list
// could take the place of a healthy server among those that keep the view. So a server asks the others before
// it takes part.
#pragma once

#include <string>
#include <vector>

#include "dataplane/base/address.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::kv {

/// The parameter of CONFIG GET that has the list.
inline constexpr const char* kMembersParameter = "rdmc-members";

/// The addresses, with commas between them.
std::string to_string(const std::vector<Address>& members);
/// Asks the other servers for their lists. A server that does not answer within 3 s is left out. Errors:
/// invalid_argument if a server has another list.
Result<void> check_members(const std::vector<Address>& members, const Address& self);

}  // namespace rdmc::kv
