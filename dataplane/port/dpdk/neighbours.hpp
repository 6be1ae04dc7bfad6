// Who has which MAC address on our link: ARP (RFC 826) and IPv6 neighbour discovery (RFC 4861) as one pure
// state machine, since they differ only in their packets. It answers for our address, finds the next hop of a
// destination, and asks again before it gives up. No clock, no I/O: time is passed in, messages are drained.
// Owned by a DPDK port; one thread.
//
// A neighbour is unknown, resolving (asked, nothing known), known (an answer within kReachableFor), probing
// (in use, its answer is old, asked by unicast), or unreachable (asked in vain; asked anew after a while).
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

/// Our place on the link.
struct LinkAddress {
  MacAddress mac{};
  Address ip;                      ///< without a port
  std::uint8_t prefix_bits = 24;   ///< what shares these bits is on the link
  std::optional<Address> gateway;  ///< the next hop of everything else
};

class Neighbours {
 public:
  /// How long an answer is believed before the neighbour is asked again (RFC 4861, REACHABLE_TIME).
  static constexpr Duration kReachableFor = seconds(30);
  /// The first request is repeated after this, each further one after twice the time: far below the 67 ms
  /// after which RC sends again.
  static constexpr Duration kFirstRetry = milliseconds(10);
  /// Requests without an answer, after which a neighbour is unreachable: 1.27 s in all.
  static constexpr std::uint32_t kRequests = 7;
  /// For how long an unreachable neighbour is not asked again.
  static constexpr Duration kUnreachableFor = seconds(1);
  /// Entries; a full table forgets the one not used for longest.
  static constexpr std::size_t kMostNeighbours = 1024;
  /// Messages to be drained; more are not made.
  static constexpr std::size_t kMostQueued = 64;

  struct Lookup {
    enum class State : std::uint8_t {
      known,        ///< `mac` is the next hop's
      resolving,    ///< ask again when `generation()` has changed
      unreachable,  ///< nobody answers, or it is not on the link and there is no gateway
    };
    State state;
    MacAddress mac{};
    bool asked_once = false;  ///< resolving: the answer to the first request may still be on its way
  };

  explicit Neighbours(LinkAddress ours) : ours_(ours) {}

  /// Tells the link our address (RFC 5227, 2.3; RFC 4861, 7.2.6): to be called when the link comes up.
  void announce();
  /// The next hop's MAC; asks for it if it is not known or old. `destination` without regard to its port.
  Lookup lookup(const Address& destination, Time now);
  /// A message from the link. What is not addressed to us changes at most what we know already.
  void on_message(const NeighbourMessage& message, Time now);

  void on_timer(Time now);
  Time next_deadline() const;

  /// The next message to be sent, if there is one.
  std::optional<NeighbourMessage> poll();

  /// Changes whenever a lookup may give another answer than before.
  std::uint64_t generation() const { return generation_; }
  const LinkAddress& ours() const { return ours_; }

 private:
  enum class State : std::uint8_t { resolving, known, probing, unreachable };
  struct Neighbour {
    State state;
    MacAddress mac{};
    Time deadline;  ///< resolving, probing: of the next request; known: end of belief; unreachable: of that
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
