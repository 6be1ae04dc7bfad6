#include "apps/replicated-kv/server/member_list.hpp"

#include <map>
#include <thread>
#include <utility>

#include "apps/replicated-kv/server/question.hpp"
#include "dataplane/base/signal_masked_thread.hpp"

namespace rdmc::kv {

std::string to_string(const std::vector<Address>& members) {
  std::string text;
  for (const Address& member : members) text += (text.empty() ? "" : ",") + rdmc::to_string(member);
  return text;
}

std::string describe_service(const ServeOptions& options) {
  const bool has_log = !options.directory.empty();
  return to_string(options.members) + kAfterMembers +
         "min-replicas=" + std::to_string(options.least_replicas) +
         ";log=" + (has_log ? to_string(options.syncs) : "none") +
         ";fabric=" + (options.fabric.empty() ? "auto" : options.fabric);
}

Result<void> check_members(const ServeOptions& options, int stop) {
  const std::string own = describe_service(options);
  std::map<Address, Result<std::string>> replies;
  std::vector<std::thread> threads;
  for (const Address& member : options.members) {
    if (member == options.listen) continue;
    // This command needs no password and no TLS.
    const auto ask_it = [&own, &member, &reply = replies[member], stop] {
      reply = ask(member, {"rdmc.same-members", own}, stop);
    };
    if (auto thread = start_signal_masked_thread("that asks a server", ask_it))
      threads.push_back(std::move(*thread));
    else
      ask_it();
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& [member, reply] : replies) {
    if (!reply || *reply == "1") continue;
    return fail(Errc::invalid_argument,
                "--members, --min-replicas, --appendfsync, --fabric and whether there is a --dir must be the "
                "same at all servers. This server has " +
                    own + ", but " + rdmc::to_string(member) +
                    // A server that is alone, or that has an older version, replies with a number.
                    (*reply == "0" ? " is alone, or has an older version" : " has " + *reply));
  }
  return {};
}

}  // namespace rdmc::kv
