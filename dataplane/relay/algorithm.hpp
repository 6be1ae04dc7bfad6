// The algorithms, with their names for command lines and their numbers for the wire. They are plain values.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdmc::relay {

/// The numbers are used on the wire.
enum class Algorithm : std::uint8_t {
  /// Blocks move along a hypercube, in the fewest possible steps for every number of members.
  binomial_pipeline = 0,
  binomial_tree = 1,  ///< the number of members that hold a block doubles with each step
  chain = 2,          ///< each member passes every block on to the next member
  sequential = 3,     ///< the root sends to one member after the other
  hybrid = 4,         ///< a chain between racks, the binomial pipeline inside each rack
  host_pipeline = 5,  ///< the binomial pipeline between hosts, a chain inside each host
  /// Blocks go down two binary trees alternately. A member has few neighbours, and exchanges blocks with each
  /// neighbour at an even pace.
  two_trees = 6,
  /// Blocks move along a circulant graph, in as few steps as in the binomial pipeline. No two members share a
  /// vertex.
  circulant = 7,
  host_trees = 8,  ///< two trees between hosts, a chain inside each host
  site_trees = 9,  ///< two trees in each rack; each rack sends to the next rack
};

inline constexpr std::array kAlgorithms{
    Algorithm::binomial_pipeline, Algorithm::binomial_tree, Algorithm::chain,
    Algorithm::sequential,        Algorithm::hybrid,        Algorithm::host_pipeline,
    Algorithm::two_trees,         Algorithm::circulant,     Algorithm::host_trees,
    Algorithm::site_trees};

constexpr std::string_view to_string(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::binomial_pipeline: return "binomial_pipeline";
    case Algorithm::binomial_tree: return "binomial_tree";
    case Algorithm::chain: return "chain";
    case Algorithm::sequential: return "sequential";
    case Algorithm::hybrid: return "hybrid";
    case Algorithm::host_pipeline: return "host_pipeline";
    case Algorithm::two_trees: return "two_trees";
    case Algorithm::circulant: return "circulant";
    case Algorithm::host_trees: return "host_trees";
    case Algorithm::site_trees: return "site_trees";
  }
  return "";
}

/// Returns nullopt if no algorithm has this name or number.
constexpr std::optional<Algorithm> algorithm_of(std::string_view name) {
  for (const Algorithm algorithm : kAlgorithms)
    if (to_string(algorithm) == name) return algorithm;
  return std::nullopt;
}
constexpr std::optional<Algorithm> algorithm_of(std::uint32_t number) {
  for (const Algorithm algorithm : kAlgorithms)
    if (static_cast<std::uint32_t>(algorithm) == number) return algorithm;
  return std::nullopt;
}

/// True if the algorithm treats each rack as one host, whose members reach each other through memory.
constexpr bool is_for_hosts(Algorithm algorithm) {
  return algorithm == Algorithm::host_pipeline || algorithm == Algorithm::host_trees;
}

/// True if a member's first source depends on the message's block count. With such an algorithm, the length
/// of a message is announced before any memory is granted. With any other algorithm, a member may grant
/// memory for the first block before it knows the length of the message.
constexpr bool first_source_needs_length(Algorithm algorithm) {
  return algorithm == Algorithm::circulant;
}

/// The algorithm and the block size of one message.
struct MessagePlan {
  Algorithm algorithm = Algorithm::binomial_pipeline;
  std::uint32_t block_bytes = 0;
  friend auto operator<=>(const MessagePlan&, const MessagePlan&) = default;
};

inline std::vector<std::string> algorithm_names() {
  std::vector<std::string> names;
  for (const Algorithm algorithm : kAlgorithms) names.emplace_back(to_string(algorithm));
  return names;
}

}  // namespace rdmc::relay
