// The module librdmc_pmix.so, which contains a PmixClient that uses libpmix. PMIx servers may ignore
// PMIX_TIMEOUT, so this file implements the timeouts. For this, collective calls are started without
// blocking, and an answer that arrives too late is dropped.
#include <pmix.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <optional>
#include <string_view>

#include "controlplane/launch/pmix.hpp"

namespace rdmc::control {
namespace {

constexpr const char* kKey = "rdmc.address";

std::unexpected<Error> failed(std::string_view call, pmix_status_t status) {
  return fail(status == PMIX_ERR_TIMEOUT ? Errc::timed_out : Errc::peer_failed,
              std::string(call) + ": " + PMIx_Error_string(status));
}

/// The answer to a non-blocking call. The call and the waiting thread share it.
struct Answer {
  std::mutex mutex;
  std::condition_variable came;
  std::optional<pmix_status_t> status;
  std::string text;
};
using Shared = std::shared_ptr<Answer>;

void answered(const std::unique_ptr<Shared>& to, pmix_status_t status, const pmix_value_t* value) {
  const std::lock_guard lock((*to)->mutex);
  (*to)->status = status;
  if (status == PMIX_SUCCESS && value != nullptr) {
    if (value->type == PMIX_STRING && value->data.string != nullptr)
      (*to)->text = value->data.string;
    else
      (*to)->status = PMIX_ERR_BAD_PARAM;
  }
  (*to)->came.notify_all();
}

void fence_done(pmix_status_t status, void* to) {
  answered(std::unique_ptr<Shared>(static_cast<Shared*>(to)), status, nullptr);
}

void value_came(pmix_status_t status, pmix_value_t* value, void* to) {
  answered(std::unique_ptr<Shared>(static_cast<Shared*>(to)), status, value);
}

using Clock = std::chrono::steady_clock;

/// Starts `call` and waits for the answer. The argument of `call` is the pointer that `call` must pass to its
/// callback.
Result<std::string> await(std::string_view name, Clock::time_point deadline,
                          const std::function<pmix_status_t(void*)>& call) {
  const auto answer = std::make_shared<Answer>();
  auto to = std::make_unique<Shared>(answer);
  const pmix_status_t begun = call(to.get());
  if (begun == PMIX_OPERATION_SUCCEEDED) return {};  // In this case the callback is not called.
  if (begun != PMIX_SUCCESS) return failed(name, begun);
  (void)to.release();  // From now on the callback owns the pointer.
  std::unique_lock lock(answer->mutex);
  if (!answer->came.wait_until(lock, deadline, [&] { return answer->status.has_value(); }))
    return fail(Errc::timed_out, std::string(name) + ": no answer in time");
  if (*answer->status != PMIX_SUCCESS) return failed(name, *answer->status);
  return answer->text;
}

/// Returns a number from the server's information about the job.
Result<std::uint32_t> job_number(const pmix_proc_t& us, const char* key) {
  pmix_proc_t all;
  PMIX_LOAD_PROCID(&all, us.nspace, PMIX_RANK_WILDCARD);
  pmix_value_t* value = nullptr;
  const pmix_status_t status = PMIx_Get(&all, key, nullptr, 0, &value);
  if (status != PMIX_SUCCESS) return failed(std::string("PMIx_Get(") + key + ")", status);
  const bool is_number = value->type == PMIX_UINT32;
  const std::uint32_t number = is_number ? value->data.uint32 : 0;
  PMIX_VALUE_RELEASE(value);
  if (!is_number) return fail(Errc::peer_failed, std::string("the PMIx server's ") + key + " is no number");
  return number;
}

class Client final : public PmixClient {
 public:
  explicit Client(const pmix_proc_t& us) : us_(us) {}
  ~Client() override { PMIx_Finalize(nullptr, 0); }

  Result<void> ask_size() {
    const auto size = job_number(us_, PMIX_JOB_SIZE);
    if (!size) return std::unexpected(size.error());
    if (us_.rank >= *size)
      return fail(Errc::peer_failed, "the PMIx server counts " + std::to_string(*size) +
                                         " processes, but we are rank " + std::to_string(us_.rank));
    size_ = *size;
    return {};
  }

  std::uint32_t rank() const override { return us_.rank; }
  std::uint32_t size() const override { return size_; }

  std::string host() const override {
    pmix_value_t* value = nullptr;
    if (PMIx_Get(&us_, PMIX_HOSTNAME, nullptr, 0, &value) != PMIX_SUCCESS) return {};
    std::string name = value->type == PMIX_STRING ? value->data.string : "";
    PMIX_VALUE_RELEASE(value);
    return name;
  }

  std::vector<std::string> hosts() const override {
    char* list = nullptr;
    if (PMIx_Resolve_nodes(us_.nspace, &list) != PMIX_SUCCESS || list == nullptr) return {};
    std::vector<std::string> names;
    for (std::string_view rest = list; !rest.empty();) {
      const auto comma = rest.find(',');
      names.emplace_back(rest.substr(0, comma));
      rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
    }
    std::free(list);
    return names;
  }

  Result<std::vector<std::string>> exchange(const std::string& ours, Duration timeout) override {
    const auto deadline = Clock::now() + std::chrono::nanoseconds(timeout.ns);
    pmix_value_t value;
    PMIX_VALUE_LOAD(&value, ours.c_str(), PMIX_STRING);
    const pmix_status_t put = PMIx_Put(PMIX_GLOBAL, kKey, &value);
    PMIX_VALUE_DESTRUCT(&value);
    if (put != PMIX_SUCCESS) return failed("PMIx_Put", put);
    if (const pmix_status_t committed = PMIx_Commit(); committed != PMIX_SUCCESS)
      return failed("PMIx_Commit", committed);
    if (auto fenced = fence(deadline); !fenced) return std::unexpected(fenced.error());
    std::vector<std::string> told;
    for (std::uint32_t rank = 0; rank < size_; ++rank) {
      pmix_proc_t peer;
      PMIX_LOAD_PROCID(&peer, us_.nspace, rank);
      auto theirs = await("PMIx_Get of rank " + std::to_string(rank), deadline,
                          [&](void* to) { return PMIx_Get_nb(&peer, kKey, nullptr, 0, value_came, to); });
      if (!theirs) return std::unexpected(theirs.error());
      told.push_back(std::move(*theirs));
    }
    return told;
  }

 private:
  /// Waits until all processes have called fence() and the texts of all processes are available.
  Result<void> fence(Clock::time_point deadline) {
    bool yes = true;
    pmix_info_t collect;
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    pmix_proc_t all;
    PMIX_LOAD_PROCID(&all, us_.nspace, PMIX_RANK_WILDCARD);
    const auto done = await("PMIx_Fence", deadline,
                            [&](void* to) { return PMIx_Fence_nb(&all, 1, &collect, 1, fence_done, to); });
    PMIX_INFO_DESTRUCT(&collect);
    if (!done) return std::unexpected(done.error());
    return {};
  }

  pmix_proc_t us_;
  std::uint32_t size_ = 0;
};

}  // namespace
}  // namespace rdmc::control

extern "C" __attribute__((visibility("default"))) const char* rdmc_module_version() {
  return RDMC_VERSION;
}

extern "C" __attribute__((visibility("default"))) rdmc::Result<std::unique_ptr<rdmc::control::PmixClient>>
rdmc_open_pmix() {
  using namespace rdmc::control;
  pmix_proc_t us;
  if (const pmix_status_t status = PMIx_Init(&us, nullptr, 0); status != PMIX_SUCCESS)
    return failed("PMIx_Init", status);
  auto client = std::make_unique<Client>(us);
  if (auto known = client->ask_size(); !known) return std::unexpected(known.error());
  return client;
}
