#include "lib/replica/arguments.hpp"
#include "lib/replica/collectives.hpp"
#include "lib/replica/request_window.hpp"

namespace rdmc::replica::collectives {

Result<void> barrier(Exchange& exchange) {
  const int rank = exchange.rank();
  for (std::int64_t distance = 1; distance < exchange.size(); distance *= 2) {
    const int to = rank_above(exchange, rank, static_cast<int>(distance));
    const int from = rank_below(exchange, rank, static_cast<int>(distance));
    if (auto done = send_and_receive(exchange, Kind::barrier, {}, to, {}, from); !done) return done;
  }
  return {};
}

}  // namespace rdmc::replica::collectives
