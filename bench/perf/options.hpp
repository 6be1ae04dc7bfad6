// The options of rdmc_perf, as plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dataplane/base/types.hpp"
#include "dataplane/relay/schedule.hpp"

namespace rdmc::perf {

enum class Test : std::uint8_t { unicast, latency, rate, bcast };

struct Options {
  Test test = Test::unicast;
  std::uint32_t members = 2;
  std::uint64_t size_bytes = 256ULL << 20;
  std::uint32_t iterations = 10;
  std::uint32_t block_bytes = 256 << 10;  ///< 0 means auto
  std::string fabric = "udp";
  std::string api = "qp";
  relay::Algorithm algorithm = relay::Algorithm::binomial_pipeline;
  relay::Racks racks{};
  std::uint32_t path_mtu = 0;  ///< 0 means the largest path MTU that the interface allows
  bool selective_repeat = true;
  bool icrc_on_loopback = false;
  bool encrypt = false;
  std::uint8_t dscp = 0;
  Duration spin = microseconds(50);
  bool busy_poll = false;
  std::uint32_t writes_in_flight = 0;  ///< 0 means the default of the test
  /// For bcast: the number of groups that send at once. Every group contains all members. Each group has a
  /// different root.
  std::uint32_t senders = 1;
  /// For bcast: if true, the time ends when every member knows that all members have the message.
  bool until_stable = false;
  bool read_only = false;  ///< For bcast: if true, members read the message in the root's memory.
  bool json = false;
  /// "NAMESPACE=ADDRESS" for each member. If the list is not empty, members run in these network namespaces
  /// instead of on loopback addresses.
  std::vector<std::string> places;
  /// For dpdk: the device of each member. If the list is empty, a memif between the two members is used.
  std::vector<std::string> devices;
};

inline constexpr std::uint32_t kWarmUpIterations = 2;
/// For rate: the number of SENDs in one iteration.
inline constexpr std::uint32_t kMessagesPerIteration = 500'000;

}  // namespace rdmc::perf
