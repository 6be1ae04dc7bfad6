#include "apps/replicated-kv/server/member_list.hpp"

#include "apps/replicated-kv/server/question.hpp"

namespace rdmc::kv {

std::string to_string(const std::vector<Address>& members) {
  std::string text;
  for (const Address& member : members) text += (text.empty() ? "" : ",") + rdmc::to_string(member);
  return text;
}

Result<void> check_members(const std::vector<Address>& members, const Address& self) {
  const std::string list = to_string(members);
  for (const Address& member : members) {
    if (member == self) continue;
    // A server that is alone has no list. Its reply is an empty array.
    const auto reply = ask(member, std::string("CONFIG GET ") + kMembersParameter);
    if (!reply || reply->empty() || *reply == list) continue;
    return fail(Errc::invalid_argument, "the server " + rdmc::to_string(member) +
                                            " has another list of members than this one: " + list);
  }
  return {};
}

}  // namespace rdmc::kv
