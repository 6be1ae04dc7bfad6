// Some things must be the same at all servers of a service: the list of the servers, and some options. A
// server with another list could take the place of a healthy server among those that keep the view. If only
// some servers wait for their disks, the others wait for them in vain. So a server asks the others before it
// takes part.
#pragma once

#include <string>
#include <vector>

#include "apps/replicated-kv/server/options.hpp"
#include "dataplane/base/address.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::kv {

/// The parameter of CONFIG GET that has describe_service().
inline constexpr const char* kMembersParameter = "rdmc-members";

inline constexpr char kAfterMembers = ';';

/// The addresses, with commas between them.
std::string to_string(const std::vector<Address>& members);
/// Returns what must be the same, as one word. It begins with the members, and kAfterMembers follows.
std::string describe_service(const ServeOptions& options);
/// Returns what differs between `own` and `others`, which describe_service() made at this server and at the
/// server `other`, in words for people.
std::string describe_differences(const std::string& own, const std::string& others, const std::string& other);
/// Asks all other servers at the same time whether they have the same. A server that does not answer within
/// 3 s is left out. The questions end when the descriptor `stop` becomes readable. Errors: invalid_argument
/// if a server has something else.
Result<void> check_members(const ServeOptions& options, int stop);
/// Asks all other servers in the same way. Returns those that do not answer.
std::vector<Address> find_silent_members(const ServeOptions& options, int stop);

}  // namespace rdmc::kv
