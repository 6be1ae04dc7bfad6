#include "tests/lib/replica/simulated_ranks.hpp"

#include <algorithm>

namespace rdmc::replica {

struct SimulatedRanks::Rank final : Exchange {
  Rank(SimulatedRanks& world, int number) : world_(world), number_(number) {}

  int rank() const override { return number_; }
  int size() const override { return static_cast<int>(world_.ranks_.size()); }
  Result<std::uint64_t> begin_send(std::span<const std::byte> bytes, int to, int tag) override {
    // The simulation only reads the memory of a send.
    Request request{.rank = number_, .peer = to, .tag = tag, .is_send = true};
    request.memory = {const_cast<std::byte*>(bytes.data()), bytes.size()};
    return world_.begin(*this, std::move(request));
  }
  Result<std::uint64_t> begin_receive(std::span<std::byte> bytes, int from, int tag) override {
    Request request{.rank = number_, .peer = from, .tag = tag, .is_send = false};
    request.memory = bytes;
    return world_.begin(*this, std::move(request));
  }
  Result<void> finish(std::span<const std::uint64_t> requests) override {
    return world_.finish(*this, requests);
  }

  SimulatedRanks& world_;
  int number_;
  std::unique_ptr<model::Fiber> fiber_{};
  std::optional<Result<void>> result_{};
  std::optional<Error> failure_{};  ///< If it is set, other ranks get errors from this rank.
  bool has_seen_error_ = false;
  std::size_t awaited_ = 0;    ///< requests that finish() waits for and that are not complete
  std::size_t in_flight_ = 0;  ///< requests that have not been finished
  std::uint64_t sent_ = 0;     ///< bytes
  std::uint64_t now_ = 0, sending_until_ = 0, receiving_until_ = 0;
  std::deque<Delivery> arriving_{};  ///< in the order of the receives, if there is a virtual time
};

SimulatedRanks::SimulatedRanks(int size, Options options)
    : options_(std::move(options)), random_(options_.seed) {
  for (int number = 0; number < size; ++number) ranks_.push_back(std::make_unique<Rank>(*this, number));
}

SimulatedRanks::~SimulatedRanks() = default;

std::vector<Result<void>> SimulatedRanks::run(const Body& body) {
  for (const auto& rank : ranks_) {
    rank->fiber_ = std::make_unique<model::Fiber>([this, &body, self = rank.get()] {
      auto result = body(*self);
      check(self->in_flight_ == 0, "a function has returned before its requests were finished");
      if (!result) fail_rank(self->number_);
      self->result_ = std::move(result);
      while (true) self->fiber_->return_to(caller_);
    });
  }
  std::vector<int> runnable;
  while (true) {
    runnable.clear();
    bool is_complete = true;
    for (const auto& rank : ranks_) {
      is_complete &= rank->result_.has_value();
      if (!rank->result_ && rank->awaited_ == 0) runnable.push_back(rank->number_);
    }
    if (is_complete) break;
    if (runnable.empty() && deliveries_.empty()) {
      check(false, "all ranks wait forever");
      break;
    }
    turn(runnable);
  }
  std::vector<Result<void>> results;
  for (const auto& rank : ranks_) {
    results.push_back(rank->result_.value_or(fail(Errc::timed_out, "it has not returned")));
    counters_.time = std::max(counters_.time, rank->now_);
    counters_.most_sent = std::max(counters_.most_sent, rank->sent_);
  }
  const bool all_succeeded = std::ranges::all_of(results, [](const auto& result) { return !!result; });
  for (const auto& [ranks, waiting] : pairs_)
    check(!all_succeeded || (waiting.messages.empty() && waiting.receives.empty()),
          "a message was sent and never received");
  return results;
}

/// Runs one rank for a while, or delivers one message.
void SimulatedRanks::turn(std::vector<int>& runnable) {
  const std::size_t chosen = random_.below(runnable.size() + deliveries_.size());
  if (chosen < runnable.size()) {
    ranks_[runnable[chosen]]->fiber_->enter(caller_);
    return;
  }
  std::swap(deliveries_[chosen - runnable.size()], deliveries_.back());
  Delivery delivery = std::move(deliveries_.back());
  deliveries_.pop_back();
  deliver(std::move(delivery));
}

Result<std::uint64_t> SimulatedRanks::begin(Rank& rank, Request request) {
  if (!options_.cost && random_.below(4) == 0) rank.fiber_->return_to(caller_);
  check(!rank.has_seen_error_, "a rank has begun a request after an error");
  check(request.peer >= 0 && request.peer < rank.size() && request.peer != rank.number_,
        "a rank has sent to itself or to no rank");
  const auto& failure = options_.failure;
  const bool fails = failure && failure->operation == counters_.operations;
  ++counters_.operations;
  const auto refuse = [&](Errc code, const char* what) {
    rank.has_seen_error_ = true;
    fail_rank(rank.number_);
    return fail(code, what);
  };
  if (rank.failure_) {
    rank.has_seen_error_ = true;
    return std::unexpected(*rank.failure_);
  }
  if (fails && failure->at_begin) return refuse(Errc::io_error, "injected");
  if (ranks_[request.peer]->failure_ && request.is_send)
    return refuse(Errc::peer_failed, "the peer has failed");
  const std::uint64_t number = next_request_++;
  request.time = rank.now_;
  counters_.most_in_flight = std::max(counters_.most_in_flight, ++rank.in_flight_);
  const int peer = request.peer;
  if (request.is_send) {
    request.sent.assign(request.memory.begin(), request.memory.end());
  } else {
    std::ranges::fill(request.memory, std::byte{0xA5});
  }
  const bool is_send = request.is_send;
  requests_.emplace(number, std::move(request));
  if (fails) {
    fail_rank(rank.number_, {Errc::io_error, "injected"});
    return number;
  }
  if (is_send) {
    add_message(number);
    match(rank.number_, peer);
    return number;
  }
  pair(peer, rank.number_).receives.push_back(number);
  match(peer, rank.number_);
  if (!requests_.at(number).is_matched && ranks_[peer]->failure_) {
    pair(peer, rank.number_).receives.pop_back();
    complete(number, Error{Errc::peer_failed, "the peer has failed"});
  }
  return number;
}

void SimulatedRanks::add_message(std::uint64_t number) {
  Request& send = requests_.at(number);
  Rank& rank = *ranks_[send.rank];
  ++counters_.messages;
  rank.sent_ += send.memory.size();
  Message message{.bytes = send.sent, .tag = send.tag};
  if (options_.cost) {
    rank.sending_until_ = std::max(rank.now_, rank.sending_until_) + options_.cost(send.memory.size());
    message.arrival = send.time = rank.sending_until_;
    complete(number, std::nullopt);
  } else if (random_.below(2) == 0) {
    complete(number, std::nullopt);  // An eager message.
  } else {
    message.send = number;
  }
  pair(send.rank, send.peer).messages.push_back(std::move(message));
}

void SimulatedRanks::match(int from, int to) {
  Pair& waiting = pair(from, to);
  while (!waiting.messages.empty() && !waiting.receives.empty()) {
    const std::uint64_t receive = waiting.receives.front();
    Delivery delivery{.message = std::move(waiting.messages.front()), .receive = receive};
    waiting.messages.pop_front();
    waiting.receives.pop_front();
    Request& request = requests_.at(receive);
    check(request.tag == delivery.message.tag, "a receive has matched a message of another operation");
    check(request.memory.size() == delivery.message.bytes.size(), "a message has not the expected length");
    request.is_matched = true;
    if (delivery.message.send) requests_.at(*delivery.message.send).is_matched = true;
    if (options_.cost) {
      ranks_[to]->arriving_.push_back(std::move(delivery));
    } else {
      deliveries_.push_back(std::move(delivery));
    }
  }
  if (options_.cost) deliver_in_order(to);
}

/// In virtual time, a rank receives messages in the order of its receives.
void SimulatedRanks::deliver_in_order(int to) {
  Rank& rank = *ranks_[to];
  while (true) {
    // The oldest receive that is not complete is the next one.
    const auto oldest = std::ranges::find_if(requests_, [&](const auto& entry) {
      return entry.second.rank == to && !entry.second.is_send && !entry.second.is_complete;
    });
    if (oldest == requests_.end()) return;
    const auto arrived = std::ranges::find(rank.arriving_, oldest->first, &Delivery::receive);
    if (arrived == rank.arriving_.end()) return;
    Delivery delivery = std::move(*arrived);
    rank.arriving_.erase(arrived);
    const std::uint64_t cost = options_.cost(delivery.message.bytes.size());
    rank.receiving_until_ =
        std::max({delivery.message.arrival, rank.receiving_until_ + cost, oldest->second.time});
    oldest->second.time = rank.receiving_until_;
    deliver(std::move(delivery));
  }
}

void SimulatedRanks::deliver(Delivery delivery) {
  if (delivery.message.send) {
    Request& send = requests_.at(*delivery.message.send);
    if (send.is_complete) return;  // It has failed, together with its receive.
    // The bytes are copied out of the memory of the sender only now.
    delivery.message.bytes.assign(send.memory.begin(), send.memory.end());
    complete(*delivery.message.send, std::nullopt);
  }
  const auto found = requests_.find(delivery.receive);
  if (found == requests_.end() || found->second.is_complete) return;
  const auto into = found->second.memory;
  check(std::ranges::all_of(into, [](std::byte byte) { return byte == std::byte{0xA5}; }),
        "the memory of a receive was changed while it was in flight");
  std::ranges::copy(
      std::span(delivery.message.bytes).first(std::min(into.size(), delivery.message.bytes.size())),
      into.begin());
  complete(delivery.receive, std::nullopt);
}

void SimulatedRanks::complete(std::uint64_t number, std::optional<Error> error) {
  Request& request = requests_.at(number);
  if (request.is_complete) return;
  request.is_complete = true;
  request.error = std::move(error);
  if (request.is_awaited) --ranks_[request.rank]->awaited_;
}

Result<void> SimulatedRanks::finish(Rank& rank, std::span<const std::uint64_t> numbers) {
  for (const std::uint64_t number : numbers) {
    const auto found = requests_.find(number);
    if (found == requests_.end() || found->second.rank != rank.number_ || found->second.is_awaited) {
      check(false, "finish() was called for a request that does not exist");
      return fail(Errc::invalid_argument, "no such request");
    }
    found->second.is_awaited = true;
    if (!found->second.is_complete) ++rank.awaited_;
  }
  if (rank.awaited_ > 0) rank.fiber_->return_to(caller_);
  Result<void> result;
  for (const std::uint64_t number : numbers) {
    const Request& request = requests_.at(number);
    check(!request.is_send || std::ranges::equal(request.memory, request.sent),
          "the memory of a send was changed while it was in flight");
    if (request.error && result) result = std::unexpected(*request.error);
    rank.now_ = std::max(rank.now_, request.time);
    requests_.erase(number);
    --rank.in_flight_;
  }
  if (!result) {
    rank.has_seen_error_ = true;
    fail_rank(rank.number_);
  }
  return result;
}

/// All requests of the rank end with `cause`, and those of other ranks that need this rank end, too.
void SimulatedRanks::fail_rank(int number, const Error& cause) {
  Rank& rank = *ranks_[number];
  if (rank.failure_) return;
  rank.failure_ = cause;
  for (auto& [id, request] : requests_) {
    if (request.rank == number) complete(id, cause);
    const bool needs_it = request.peer == number && (request.is_send || !request.is_matched);
    if (needs_it) complete(id, Error{Errc::peer_failed, "the peer has failed"});
  }
  // Receives that have matched a message which the failed rank still has in its memory fail, too.
  for (const Delivery& delivery : deliveries_) {
    const auto& send = delivery.message.send;
    if (send && requests_.contains(*send) && requests_.at(*send).rank == number &&
        requests_.contains(delivery.receive))
      complete(delivery.receive, Error{Errc::peer_failed, "the peer has failed"});
  }
  std::erase_if(deliveries_, [&](const Delivery& delivery) {
    const auto receive = requests_.find(delivery.receive);
    return receive == requests_.end() || receive->second.is_complete;
  });
  for (auto& [ranks, waiting] : pairs_) {
    if (ranks.first != number && ranks.second != number) continue;
    std::erase_if(waiting.receives, [&](std::uint64_t id) { return requests_.at(id).is_complete; });
    waiting.messages.clear();
  }
}

}  // namespace rdmc::replica
