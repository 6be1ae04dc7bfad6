#include "apps/replicated-kv/server/member_list.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <thread>
#include <utility>

#include "apps/replicated-kv/server/question.hpp"
#include "dataplane/base/signal_masked_thread.hpp"

namespace rdmc::kv {

namespace {

/// The name of `--appendfsync` at a server without a log.
constexpr const char* kNoLog = "none";

/// Takes the first value from a description of a service.
std::string_view take_value(std::string_view& description) {
  const std::size_t end = std::min(description.find(kAfterMembers), description.size());
  std::string_view value = description.substr(0, end);
  description.remove_prefix(std::min(end + 1, description.size()));
  const std::size_t equals = value.find('=');
  return equals == std::string_view::npos ? value : value.substr(equals + 1);
}

/// Asks all other servers at the same time what they have.
std::map<Address, Result<std::string>> ask_others(const ServeOptions& options, int stop) {
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
  return replies;
}

}  // namespace

std::string to_string(const std::vector<Address>& members) {
  std::string text;
  for (const Address& member : members) text += (text.empty() ? "" : ",") + rdmc::to_string(member);
  return text;
}

std::string describe_service(const ServeOptions& options) {
  const bool has_log = !options.directory.empty();
  return to_string(options.members) + kAfterMembers +
         "min-replicas=" + std::to_string(options.least_replicas) +
         ";log=" + (has_log ? to_string(options.syncs) : kNoLog) +
         ";fabric=" + (options.fabric.empty() ? "auto" : options.fabric);
}

std::string describe_differences(const std::string& own, const std::string& others,
                                 const std::string& other) {
  std::string text;
  const auto say = [&](std::string_view option, std::string_view here, std::string_view there) {
    text += (text.empty() ? "" : ". ") + std::string(option) + " is " + std::string(here) + " here, and " +
            std::string(there) + " at " + other;
  };
  std::string_view rest = own, rest_of_other = others;
  for (const std::string_view option : {"--members", "--min-replicas", "--appendfsync", "--fabric"}) {
    const std::string_view here = take_value(rest), there = take_value(rest_of_other);
    if (here == there) continue;
    if (here == kNoLog || there == kNoLog)
      say("--dir", here == kNoLog ? "missing" : "given", there == kNoLog ? "missing" : "given");
    else
      say(option, here, there);
  }
  // A newer version may compare more.
  return text.empty() ? "This server has " + own + ", but " + other + " has " + others : text;
}

Result<void> check_members(const ServeOptions& options, int stop) {
  const std::string own = describe_service(options);
  for (const auto& [member, reply] : ask_others(options, stop)) {
    if (!reply || *reply == "1") continue;
    return fail(Errc::invalid_argument,
                "--members, --min-replicas, --appendfsync, --fabric and whether there is a --dir must be the "
                "same at all servers. " +
                    // A server that is alone, or that has an older version, replies with a number.
                    (*reply == "0" ? "But " + rdmc::to_string(member) + " is alone, or has an older version"
                                   : describe_differences(own, *reply, rdmc::to_string(member))));
  }
  return {};
}

std::vector<Address> find_silent_members(const ServeOptions& options, int stop) {
  std::vector<Address> silent;
  for (const auto& [member, reply] : ask_others(options, stop))
    if (!reply) silent.push_back(member);
  return silent;
}

}  // namespace rdmc::kv
