// The communicators of the public header: checks of arguments, and collective operations over the messages
// of their own context.
#include <algorithm>
#include <rdmc/replica.hpp>
#include <string>
#include <utility>

#include "lib/replica/collectives.hpp"
#include "lib/replica/job_state.hpp"

namespace rdmc::replica {
namespace {

/// The messages of the collective operations of one communicator.
class CollectiveMessages final : public Exchange {
 public:
  CollectiveMessages(JobState& job, const CommunicatorState& communicator)
      : job_(job), communicator_(communicator) {}

  int rank() const override { return communicator_.rank; }
  int size() const override { return communicator_.size(); }
  Result<std::uint64_t> begin_send(std::span<const std::byte> bytes, int to, int tag) override {
    return number(job_.send(communicator_.collectives(), bytes, to, tag));
  }
  Result<std::uint64_t> begin_receive(std::span<std::byte> bytes, int from, int tag) override {
    return number(job_.receive(communicator_.collectives(), bytes, from, tag));
  }
  Result<void> finish(std::span<const std::uint64_t> requests) override {
    for (const std::uint64_t each : requests) {
      const RequestId request{each};
      if (failure_) {
        job_.cancel(request);
      } else if (auto done = job_.wait(request); !done) {
        failure_ = done.error();
      }
    }
    if (failure_) return std::unexpected(*failure_);
    return {};
  }

 private:
  Result<std::uint64_t> number(const Result<RequestId>& request) {
    if (request) return static_cast<std::uint64_t>(*request);
    failure_ = request.error();
    return std::unexpected(request.error());
  }

  JobState& job_;
  const CommunicatorState& communicator_;
  std::optional<Error> failure_;
};

std::unexpected<Error> bad(std::string what) {
  return fail(Errc::invalid_argument, std::move(what));
}

Result<JobState*> job_of(const CommunicatorState& communicator) {
  if (!*communicator.job) return fail(Errc::cancelled, "the Job of this communicator has ended");
  return *communicator.job;
}

Result<JobState*> check(const CommunicatorState& communicator, int rank, bool any_rank, int tag,
                        bool any_tag) {
  if (!(any_rank && rank == kAnySource) && (rank < 0 || rank >= communicator.size()))
    return bad("there is no rank " + std::to_string(rank) + " among " + std::to_string(communicator.size()));
  if (!(any_tag && tag == kAnyTag) && (tag < 0 || tag > kMostTag))
    return bad("the tag " + std::to_string(tag) + " is not from 0 to " + std::to_string(kMostTag));
  return job_of(communicator);
}

/// Runs `operation` with the messages of the communicator's collective operations.
template <typename Operation>
auto collectively(const CommunicatorState& communicator, Operation operation)
    -> std::invoke_result_t<Operation, Exchange&> {
  const auto job = job_of(communicator);
  if (!job) return std::unexpected(job.error());
  CollectiveMessages messages(**job, communicator);
  return operation(messages);
}

}  // namespace

int Communicator::rank() const {
  return state_->rank;
}
int Communicator::size() const {
  return state_->size();
}

// ---- Point to point

Result<Request> Communicator::isend(std::span<const std::byte> bytes, int to, int tag) {
  const auto job = check(*state_, to, false, tag, false);
  if (!job) return std::unexpected(job.error());
  return JobState::request_of((*job)->send(state_->context, bytes, to, tag));
}

Result<Request> Communicator::irecv(std::span<std::byte> bytes, int from, int tag) {
  const auto job = check(*state_, from, true, tag, true);
  if (!job) return std::unexpected(job.error());
  return JobState::request_of((*job)->receive(state_->context, bytes, from, tag));
}

Result<void> Communicator::send(std::span<const std::byte> bytes, int to, int tag) {
  const auto job = check(*state_, to, false, tag, false);
  if (!job) return std::unexpected(job.error());
  if (auto sent = (*job)->send_and_wait(state_->context, bytes, to, tag); !sent)
    return std::unexpected(sent.error());
  return {};
}

Result<MessageInfo> Communicator::recv(std::span<std::byte> bytes, int from, int tag) {
  const auto job = check(*state_, from, true, tag, true);
  if (!job) return std::unexpected(job.error());
  return info_of((*job)->receive_and_wait(state_->context, bytes, from, tag));
}

Result<MessageInfo> Communicator::sendrecv(std::span<const std::byte> bytes, int to, int tag,
                                           std::span<std::byte> into, int from, int from_tag) {
  const auto request = irecv(into, from, from_tag);
  if (!request) return std::unexpected(request.error());
  JobState& job = **state_->job;
  if (auto sent = send(bytes, to, tag); !sent) {
    job.cancel(JobState::id_of(*request));
    return std::unexpected(sent.error());
  }
  return info_of(job.wait(JobState::id_of(*request)));
}

Result<MessageInfo> Communicator::probe(int from, int tag) {
  const auto job = check(*state_, from, true, tag, true);
  if (!job) return std::unexpected(job.error());
  const auto found = (*job)->probe(state_->context, from, tag, true);
  if (!found) return std::unexpected(found.error());
  return info_of(**found);
}

Result<std::optional<MessageInfo>> Communicator::iprobe(int from, int tag) {
  const auto job = check(*state_, from, true, tag, true);
  if (!job) return std::unexpected(job.error());
  const auto found = (*job)->probe(state_->context, from, tag, false);
  if (!found) return std::unexpected(found.error());
  return *found ? std::optional(info_of(**found)) : std::nullopt;
}

// ---- Collective operations

Result<void> Communicator::barrier() {
  return collectively(*state_, [](Exchange& exchange) { return collectives::barrier(exchange); });
}

Result<void> Communicator::broadcast(std::span<std::byte> bytes, int root) {
  return collectively(*state_,
                      [&](Exchange& exchange) { return collectives::broadcast(exchange, bytes, root); });
}

Result<void> Communicator::gather(std::span<const std::byte> mine, std::span<std::byte> all, int root) {
  return collectively(*state_,
                      [&](Exchange& exchange) { return collectives::gather(exchange, mine, all, root); });
}

Result<void> Communicator::scatter(std::span<const std::byte> all, std::span<std::byte> mine, int root) {
  return collectively(*state_,
                      [&](Exchange& exchange) { return collectives::scatter(exchange, all, mine, root); });
}

Result<void> Communicator::all_gather(std::span<const std::byte> mine, std::span<std::byte> all) {
  return collectively(*state_,
                      [&](Exchange& exchange) { return collectives::all_gather(exchange, mine, all); });
}

Result<void> Communicator::all_to_all(std::span<const std::byte> to, std::span<std::byte> from) {
  return collectively(*state_,
                      [&](Exchange& exchange) { return collectives::all_to_all(exchange, to, from); });
}

Result<void> Communicator::gather(std::span<const std::byte> mine, std::span<std::byte> all,
                                  std::span<const std::size_t> bytes, int root) {
  return collectively(
      *state_, [&](Exchange& exchange) { return collectives::gather(exchange, mine, all, bytes, root); });
}

Result<void> Communicator::scatter(std::span<const std::byte> all, std::span<const std::size_t> bytes,
                                   std::span<std::byte> mine, int root) {
  return collectively(
      *state_, [&](Exchange& exchange) { return collectives::scatter(exchange, all, bytes, mine, root); });
}

Result<void> Communicator::all_gather(std::span<const std::byte> mine, std::span<std::byte> all,
                                      std::span<const std::size_t> bytes) {
  return collectively(
      *state_, [&](Exchange& exchange) { return collectives::all_gather(exchange, mine, all, bytes); });
}

Result<void> Communicator::all_to_all(std::span<const std::byte> to, std::span<const std::size_t> to_bytes,
                                      std::span<std::byte> from, std::span<const std::size_t> from_bytes) {
  return collectively(*state_, [&](Exchange& exchange) {
    return collectives::all_to_all(exchange, to, to_bytes, from, from_bytes);
  });
}

Result<void> Communicator::reduce(std::span<std::byte> values, std::size_t element, Combine combine,
                                  int root) {
  return collectively(*state_, [&](Exchange& exchange) {
    return collectives::reduce(exchange, values, element, combine, root);
  });
}

Result<void> Communicator::all_reduce(std::span<std::byte> values, std::size_t element, Combine combine) {
  return collectively(*state_, [&](Exchange& exchange) {
    return collectives::all_reduce(exchange, values, element, combine);
  });
}

Result<void> Communicator::scan(std::span<std::byte> values, std::size_t element, Combine combine) {
  return collectively(
      *state_, [&](Exchange& exchange) { return collectives::scan(exchange, values, element, combine); });
}

Result<void> Communicator::exclusive_scan(std::span<std::byte> values, std::size_t element, Combine combine) {
  return collectively(*state_, [&](Exchange& exchange) {
    return collectives::exclusive_scan(exchange, values, element, combine);
  });
}

Result<void> Communicator::reduce_scatter(std::span<std::byte> values, std::span<std::byte> mine,
                                          std::size_t element, Combine combine) {
  return collectively(*state_, [&](Exchange& exchange) {
    return collectives::reduce_scatter(exchange, values, mine, element, combine);
  });
}

// ---- New communicators

Result<Communicator> Communicator::dup() {
  const auto first = collectively(*state_, [&](Exchange& exchange) {
    return collectives::agree_on_maximum(exchange, (*state_->job)->next_context());
  });
  if (!first) return std::unexpected(first.error());
  return (*state_->job)->make_communicator(*first, state_->members, state_->rank);
}

Result<std::optional<Communicator>> Communicator::split(std::optional<int> color, int key) {
  const auto first = collectively(*state_, [&](Exchange& exchange) {
    return collectives::agree_on_maximum(exchange, (*state_->job)->next_context());
  });
  if (!first) return std::unexpected(first.error());
  const auto ranks = collectively(
      *state_, [&](Exchange& exchange) { return collectives::split_members(exchange, color, key); });
  if (!ranks) return std::unexpected(ranks.error());
  return (*state_->job)->make_communicator_of(*first, *state_, *ranks);
}

Result<std::optional<Communicator>> Communicator::create(std::span<const int> ranks) {
  std::vector<bool> seen(state_->members.size());
  for (const int rank : ranks) {
    if (rank < 0 || rank >= size() || seen[static_cast<std::size_t>(rank)])
      return bad("the list has a rank twice, or one that this communicator does not have");
    seen[static_cast<std::size_t>(rank)] = true;
  }
  const auto first = collectively(*state_, [&](Exchange& exchange) {
    return collectives::agree_on_maximum(exchange, (*state_->job)->next_context());
  });
  if (!first) return std::unexpected(first.error());
  return (*state_->job)->make_communicator_of(*first, *state_, ranks);
}

}  // namespace rdmc::replica
