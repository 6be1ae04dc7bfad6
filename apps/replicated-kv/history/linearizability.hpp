// Checks that a history of a key-value service is linearizable (Herlihy and Wing 1990): that there is an
// order of its operations which explains every reply, and in which an operation comes before another one if
// it ended before the other one began. The search is that of Wing and Gong (1993) with the memory of Lowe
// (2017, "Testing for linearizability"). Operations on different keys are checked separately, because
// linearizability is local. The functions are pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "dataplane/base/error.hpp"

namespace rdmc::kv {

/// One command of an operation, on one key.
struct Step {
  enum class Kind : std::uint8_t {
    get,     ///< the reply is the value; "" also means that the key is missing
    set,     ///< the value becomes `value`
    append,  ///< `value` is added to the end of the value; the reply is the new length
    incr,    ///< the value, a number, grows by one; the reply is the new value
  };
  Kind kind{};
  std::string key;
  std::string value;
  std::optional<std::string> reply;  ///< nullopt if it does not matter or is not known
};

/// A request of a client, which is one atomic step of the service.
struct Operation {
  /// The times at which the client sent it and got the reply, on one clock.
  std::int64_t called = 0, returned = 0;
  /// A connection of a client. Certain operations on one connection take effect in the order of the history:
  /// the service executes requests in the order in which they come. Operations on connection 0 have no such
  /// order.
  std::uint64_t connection = 0;
  /// False if the client got no reply, or the reply that nobody knows whether it took effect. `returned`
  /// means nothing then: the operation can take effect at any time, or never.
  bool is_certain = true;
  std::vector<Step> steps;
};

/// Returns nothing if the history is linearizable. Errors: corrupt, with the operations that no order
/// explains; resource_limit if more than `most_states` states were searched without a result.
Result<void> check_linearizable(const std::vector<Operation>& history, std::size_t most_states = 1'000'000);

/// One line for people.
std::string to_string(const Operation& operation);

}  // namespace rdmc::kv
