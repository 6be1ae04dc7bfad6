// The names of the algorithms, as they stand on command lines and on the wire. Values only.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rdmc::relay {

/// The numbers are on the wire.
enum class Algorithm : std::uint8_t {
  binomial_pipeline = 0,  ///< along a hypercube, optimal in steps for every number of members
  binomial_tree = 1,      ///< those who hold a block double with each step
  chain = 2,              ///< each passes on to the next
  sequential = 3,         ///< the root sends to one after the other
  hybrid = 4,             ///< a chain between racks, the binomial pipeline inside each
  host_pipeline = 5,      ///< the binomial pipeline between hosts, a chain inside each
  two_trees = 6,          ///< down two binary trees in turn: few neighbours, each at an even pace
  circulant = 7,          ///< along a circulant graph, with as few steps, and no two members share a vertex
  host_trees = 8,         ///< two trees between hosts, a chain inside each
  site_trees = 9,         ///< two trees in each rack, and each rack sends to the next
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

/// Nothing for a name or a number of no algorithm.
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

/// Whether the racks of its members are hosts, whose members reach each other through memory.
constexpr bool is_for_hosts(Algorithm algorithm) {
  return algorithm == Algorithm::host_pipeline || algorithm == Algorithm::host_trees;
}

/// Whether a member's first source depends on the message's block count. Where it does not, a member may
/// grant room for the first block of a message whose length it does not know. Where it does, the length is
/// announced before anything is granted.
constexpr bool first_source_needs_length(Algorithm algorithm) {
  return algorithm == Algorithm::circulant;
}

/// How one message travels.
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
