#include "lib/replica/broken_links.hpp"

#include <algorithm>

namespace rdmc::replica {
namespace {

/// True if a link has failed for a reason that has nothing to do with the life of the peer.
bool is_fault(Errc code) {
  return code == Errc::protocol_error || code == Errc::resource_limit;
}

}  // namespace

void BrokenLinks::remove(ProcessId process) {
  std::erase_if(links_, [&](const Link& link) { return link.process == process; });
}

const BrokenLinks::Link* BrokenLinks::find_fatal(Time now) {
  for (Link& link : links_)
    if (link.since == Time::never()) link.since = now;
  const auto fatal = std::ranges::find_if(links_, [&](const Link& link) {
    return is_fault(link.cause.code) || now - link.since > kDeathPatience;
  });
  return fatal == links_.end() ? nullptr : &*fatal;
}

}  // namespace rdmc::replica
