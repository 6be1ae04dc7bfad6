// The reasons of a Reject as texts (IBTA vol. 1, table 109).
#include <array>

#include "dataplane/cm/messages.hpp"

namespace rdmc::cm {
namespace {

/// Indexed by the reason's number. Reasons for the alternate path (18 to 23), and those that cannot occur on
/// Ethernet, have texts too.
constexpr std::array<std::string_view, 34> kReasons{
    "",
    "it has no queue pair left",
    "it has no end-to-end context left",
    "it has no room",
    "it gave up waiting",
    "it does not support what the request asks for",
    "it does not know the connection",
    "the request is not for that connection",
    "nobody listens on that port",
    "it has not that transport",
    "it knows this queue pair from before",
    "it has no such datagram domain",
    "it does not know the GID",
    "it does not know the LID",
    "it does not take the service level",
    "it does not take the traffic class",
    "it does not take the hop limit",
    "it does not take the packet rate",
    "it does not know the alternate GID",
    "it does not know the alternate LID",
    "it does not take the alternate service level",
    "it does not take the alternate traffic class",
    "it does not take the alternate hop limit",
    "it does not take the alternate packet rate",
    "its connection manager is elsewhere",
    "the service is at another port",
    "its link does not carry that path MTU",
    "it cannot have that many READs under way",
    "its program said no",
    "it does not take the RNR retry count",
    "it knows that communication ID from before",
    "it has another version of connection management",
    "it does not take the flow label",
    "it does not take the alternate flow label",
};

}  // namespace

std::string explain(RejectReason reason) {
  const auto number = static_cast<std::size_t>(reason);
  if (number > 0 && number < kReasons.size()) return std::string(kReasons.at(number));
  return "for reason " + std::to_string(number) + ", which InfiniBand does not name";
}

}  // namespace rdmc::cm
