// The Job of the public header: checks of arguments, and the translation of requests.
#include <rdmc/replica.hpp>
#include <utility>

#include "lib/replica/job_state.hpp"

namespace rdmc::replica {
namespace {

/// The requests that are not empty, and their indices.
struct Pending {
  explicit Pending(std::span<const Request> requests) {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (requests[i].is_empty()) continue;
      ids.push_back(JobState::id_of(requests[i]));
      indices.push_back(i);
    }
  }
  std::vector<RequestId> ids;
  std::vector<std::size_t> indices;
};

Result<Job::Completed> completed(std::span<Request> requests, const Pending& pending,
                                 JobState::Completion completion) {
  const std::size_t index = pending.indices[completion.index];
  requests[index] = Request();
  if (!completion.result) return std::unexpected(std::move(completion.result.error()));
  return Job::Completed{.index = index, .info = info_of(*completion.result)};
}

}  // namespace

Job::Job(std::unique_ptr<JobState> state) : state_(std::move(state)) {}
Job::~Job() = default;

Result<std::unique_ptr<Job>> Job::start() {
  auto state = JobState::start();
  if (!state) return std::unexpected(state.error());
  return std::unique_ptr<Job>(new Job(std::move(*state)));
}

Communicator& Job::world() {
  return state_->world();
}
Communicator& Job::self() {
  return state_->self();
}
int Job::replica() const {
  return state_->replica();
}

Result<MessageInfo> Job::wait(Request& request) {
  if (request.is_empty()) return MessageInfo{};
  const RequestId id = JobState::id_of(std::exchange(request, Request()));
  return info_of(state_->wait(id));
}

Result<void> Job::wait_all(std::span<Request> requests) {
  Result<void> all;
  for (Request& request : requests)
    if (auto done = wait(request); !done && all) all = std::unexpected(done.error());
  return all;
}

Result<std::optional<Job::Completed>> Job::wait_any(std::span<Request> requests) {
  const Pending pending(requests);
  if (pending.ids.empty()) return std::nullopt;
  auto complete = state_->wait_any(pending.ids);
  if (!complete) return std::unexpected(complete.error());
  return completed(requests, pending, std::move(*complete));
}

Result<std::optional<Job::Completed>> Job::test_any(std::span<Request> requests) {
  const Pending pending(requests);
  if (pending.ids.empty()) return std::nullopt;
  auto complete = state_->test_any(pending.ids);
  if (!complete) return std::unexpected(complete.error());
  if (!*complete) return std::nullopt;
  return completed(requests, pending, std::move(**complete));
}

Result<std::optional<MessageInfo>> Job::test(Request& request) {
  if (request.is_empty()) return MessageInfo{};
  const auto complete = test_any(std::span(&request, 1));
  if (!complete) return std::unexpected(complete.error());
  if (!*complete) return std::nullopt;
  return (*complete)->info;
}

void Job::progress() {
  state_->progress();
}

Result<void> Job::finish() {
  return state_->finish();
}

void Job::abort(int code) {
  state_->abort(code);
}

JobCounters Job::counters() const {
  return state_->counters();
}

}  // namespace rdmc::replica
