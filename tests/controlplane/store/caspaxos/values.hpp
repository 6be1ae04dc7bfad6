// Acceptors, configurations and values for the tests of the store's cores.
#pragma once

#include <optional>

#include "controlplane/store/caspaxos/acceptor.hpp"

namespace rdmc::store::testing {

inline Id acceptor_id(std::uint64_t node) {
  return {1, node + 1};
}
inline Ballot ballot(std::uint64_t epoch, std::uint64_t counter) {
  return {epoch, counter, {9, 9}};
}
inline Bytes value(std::uint8_t first) {
  return {std::byte{first}, std::byte{2}};
}
inline Configuration first_configuration() {
  return {
      .epoch = 1, .acceptors = {acceptor_id(0), acceptor_id(1), acceptor_id(2)}, .from_epoch = 0, .from = {}};
}
/// In this configuration, a new acceptor replaces the third acceptor, which has lost its state.
inline Configuration second_configuration() {
  const Configuration first = first_configuration();
  return {.epoch = 2,
          .acceptors = {acceptor_id(0), acceptor_id(1), acceptor_id(3)},
          .from_epoch = 1,
          .from = first.acceptors};
}
/// Returns the state of a node that is active in the first configuration.
inline Durable first_state(std::uint64_t node) {
  return {.id = acceptor_id(node),
          .active = first_configuration(),
          .next = {},
          .vote = first_configuration(),
          .ceiling = 0,
          .registers = {}};
}
inline std::optional<Refused> refusal(const Acceptor::Answer& answer) {
  const auto* const refused = std::get_if<Refusal>(&answer.body);
  return refused == nullptr ? std::nullopt : std::optional(refused->reason);
}

}  // namespace rdmc::store::testing
