#include "controlplane/launch/own_address.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <memory>

#include "controlplane/connect/resolver.hpp"
#include "dataplane/base/address_kind.hpp"
#include "dataplane/base/signal_masked_thread.hpp"
#include "dataplane/port/network_interface.hpp"

namespace rdmc::control {
namespace {

/// Returns the first address of `host` that other hosts could use. The look-up runs on a detached thread,
/// because getaddrinfo() cannot be cancelled.
Result<Address> address_of(const std::string& host, Duration patience) {
  if (auto numeric = parse_address(host, 0)) return numeric;
  std::packaged_task<Result<std::vector<Address>>()> asking([host] { return look_up(host, 0); });
  auto answer = asking.get_future();
  auto thread = start_signal_masked_thread(("to resolve '" + host + "'").c_str(), std::move(asking));
  if (!thread) return std::unexpected(thread.error());
  thread->detach();
  if (answer.wait_for(std::chrono::nanoseconds(patience.ns)) != std::future_status::ready)
    return fail(Errc::timed_out, "resolving '" + host + "': no answer in time");
  const auto addresses = answer.get();
  if (!addresses) return std::unexpected(addresses.error());
  const auto usable = std::ranges::find_if_not(*addresses, is_link_local);
  if (usable == addresses->end())
    return fail(Errc::not_found,
                "'" + host + "' has link-local addresses only, which mean nothing elsewhere");
  return *usable;
}

}  // namespace

bool is_this_host(const std::string& host) {
  if (const auto numeric = parse_address(host, 0)) return port::find_interface(*numeric).has_value();
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return false;
  const std::string ours = name.data();
  const auto without_domain = [](const std::string& text) { return text.substr(0, text.find('.')); };
  return host == ours || host == without_domain(ours) || without_domain(host) == ours;
}

Result<Address> own_address(const std::string& own, const std::vector<std::string>& hosts,
                            Duration patience) {
  const auto other = std::ranges::find_if(hosts, [&](const std::string& host) { return host != own; });
  if (other == hosts.end()) {
    // A numeric `own` is used unchanged. Otherwise any address is good enough, because there is no other host
    // that needs it.
    return parse_address(own, 0).value_or(Address::ipv4(127, 0, 0, 1, 0));
  }
  const auto ours = address_of(own, patience);
  if (ours && !is_loopback(*ours)) return ours;
  const auto theirs = address_of(*other, patience);
  if (theirs && !is_loopback(*theirs)) return port::local_address_towards(*theirs);
  if (ours) return ours;  // As far as this process can find out, all members are on this machine.
  return theirs ? ours : theirs;
}

}  // namespace rdmc::control
