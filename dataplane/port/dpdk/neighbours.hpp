// Finds the MAC addresses of the neighbours on the local link. This class is one state machine for ARP (RFC
// 826) and IPv6 neighbour discovery (RFC 4861), because the two protocols differ only in their packets. It
// answers requests for the local address, finds the next hop of a destination, and repeats requests before it
// gives up. It is pure: the caller passes in the time and the received messages, and takes the messages to be
// sent. Owned by a DPDK port, and used by one thread.
//
// A neighbour has one of these states:
// - Unknown: there is no entry.
// - Resolving: a request was sent, and no answer has arrived.
// - Known: an answer arrived within kReachableFor.
// - Probing: the neighbour is in use, its answer is old, and a request was sent to it by unicast.
// - Unreachable: no request was answered. Requests are sent again after a while.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "dataplane/base/address.hpp"
#include "dataplane/base/types.hpp"
#include "dataplane/port/dpdk/frames.hpp"

namespace rdmc::port::dpdk {

/// The local port's addresses on the link.
struct LinkAddress {
  MacAddress mac{};
  Address ip;                      ///< The local IP address, without a port number.
  std::uint8_t prefix_bits = 24;   ///< Addresses that share these leading bits with `ip` are on the link.
  std::optional<Address> gateway;  ///< The next hop of all other addresses.
};

class Neighbours {
 public:
  /// The time for which an answer is valid. After this time, the neighbour is asked again (RFC 4861,
  /// REACHABLE_TIME).
  static constexpr Duration kReachableFor = seconds(30);
  /// The first request is repeated after this time, and each further request after twice the previous time.
  /// The first interval is far below the 67 ms after which RC sends again.
  static constexpr Duration kFirstRetry = milliseconds(10);
  /// A neighbour is unreachable after this number of requests without an answer. These requests take 1.27 s
  /// together.
  static constexpr std::uint32_t kRequests = 7;
  /// The time for which an unreachable neighbour is not asked again.
  static constexpr Duration kUnreachableFor = seconds(1);
  /// The maximum number of entries. A full table drops the entry that was not used for the longest time.
  static constexpr std::size_t kMostNeighbours = 1024;
  /// The maximum number of queued messages. Further messages are dropped.
  static constexpr std::size_t kMostQueued = 64;

  struct Lookup {
    enum class State : std::uint8_t {
      known,      ///< `mac` is the MAC address of the next hop.
      resolving,  ///< The caller must look up again when `generation()` has changed.
      /// The next hop does not answer, or the destination is not on the link and there is no gateway.
      unreachable,
    };
    State state;
    MacAddress mac{};
    bool asked_once = false;  ///< For `resolving`: true if the answer to the first request may still arrive.
  };

  explicit Neighbours(LinkAddress ours) : ours_(ours) {}

  /// Announces the local address on the link (RFC 5227, 2.3; RFC 4861, 7.2.6). Must be called when the link
  /// comes up.
  void announce();
  /// Returns the next hop's MAC address. Sends a request if the MAC address is not known or is old. The port
  /// number of `destination` is ignored.
  Lookup lookup(const Address& destination, Time now);
  /// Handles a message from the link. If the message is not addressed to this port, the function changes only
  /// entries that already exist.
  void on_message(const NeighbourMessage& message, Time now);

  void on_timer(Time now);
  Time next_deadline() const;

  /// Returns the next message to be sent, or nullopt if there is none.
  std::optional<NeighbourMessage> poll();

  /// Changes whenever a lookup may give another answer than before.
  std::uint64_t generation() const { return generation_; }
  const LinkAddress& ours() const { return ours_; }

 private:
  enum class State : std::uint8_t { resolving, known, probing, unreachable };
  struct Neighbour {
    State state;
    MacAddress mac{};
    /// For resolving and probing, the time of the next request. For known, the end of the answer's validity.
    /// For unreachable, the time from which requests are sent again.
    Time deadline;
    Time used;
    std::uint32_t requests = 0;
  };

  std::optional<Address> next_hop(const Address& destination) const;
  bool on_link(const Address& address) const;
  void request(const Address& target, Neighbour& neighbour, Time now);
  void learn(Neighbour& neighbour, const MacAddress& mac, Time now);
  void answer(const NeighbourMessage& request);
  Neighbour& insert(const Address& address, Neighbour neighbour);
  void queue(const NeighbourMessage& message);

  LinkAddress ours_;
  std::map<Address, Neighbour> neighbours_;
  std::deque<NeighbourMessage> queue_;
  std::uint64_t generation_ = 0;
};

}  // namespace rdmc::port::dpdk
