#include "controlplane/connect/resolver.hpp"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <deque>
#include <mutex>

#include "controlplane/connect/loop_core.hpp"
#include "controlplane/connect/socket.hpp"
#include "dataplane/base/no_memory.hpp"
#include "dataplane/base/signal_masked_thread.hpp"

namespace rdmc::control {
namespace {

/// The largest number of threads, and so of names that are looked up at the same time. A thread ends when no
/// query waits.
constexpr unsigned kMaxThreads = 4;

}  // namespace

Result<std::vector<Address>> look_up(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &list);
  if (error != 0) {
    const bool system = error == EAI_SYSTEM;
    const Errc code = error == EAI_AGAIN                           ? Errc::timed_out
                      : error == EAI_NONAME || error == EAI_NODATA ? Errc::not_found
                                                                   : Errc::io_error;
    if (system) return fail_errno("resolving '" + host + "'", errno);
    return fail(code, "resolving '" + host + "': " + ::gai_strerror(error));
  }
  std::vector<Address> addresses;
  for (const addrinfo* each = list; each != nullptr; each = each->ai_next) {
    if (each->ai_family != AF_INET && each->ai_family != AF_INET6) continue;
    sockaddr_storage storage{};
    std::memcpy(&storage, each->ai_addr, std::min<std::size_t>(each->ai_addrlen, sizeof storage));
    Address address = from_sockaddr(storage);
    address.port = port;
    if (std::ranges::find(addresses, address) == addresses.end()) addresses.push_back(address);
  }
  ::freeaddrinfo(list);
  if (addresses.empty()) return fail(Errc::not_found, "resolving '" + host + "': no address");
  return addresses;
}

struct Resolver::Shared {
  struct Query {
    std::uint64_t number;
    std::string host;
    std::uint16_t port;
  };

  void work() {
    for (;;) {
      Query query;
      {
        const std::lock_guard lock(mutex);
        if (queries.empty()) {
          --threads;
          return;
        }
        query = std::move(queries.front());
        queries.pop_front();
      }
      const auto result = or_no_memory([&] { return look_up(query.host, query.port); });
      when_there_is_memory([&] { answer(query.number, result); });
    }
  }

  void answer(std::uint64_t number, const Result<std::vector<Address>>& result) {
    const auto loop = core.lock();
    if (!loop) return;
    // Before the loop runs this task, it may have stopped and destroyed its resolver. Then nothing waits for
    // the answer.
    loop->post([weak = core, number, result]() mutable {
      if (const auto here = weak.lock()) here->resolved(number, std::move(result));
    });
  }

  std::weak_ptr<LoopCore> core;
  std::mutex mutex;
  std::deque<Query> queries;
  unsigned threads = 0;
};

Resolver::Resolver(std::weak_ptr<LoopCore> core) : shared_(std::make_shared<Shared>()) {
  shared_->core = std::move(core);
}

void Resolver::resolve(std::string host, std::uint16_t port, Done done) {
  const std::uint64_t number = next_query_++;
  const std::string purpose = "to resolve '" + host + "'";
  waiting_.emplace(number, std::move(done));
  const std::lock_guard lock(shared_->mutex);
  shared_->queries.push_back({number, std::move(host), port});
  if (shared_->threads == kMaxThreads) return;
  ++shared_->threads;
  auto thread = start_signal_masked_thread(purpose.c_str(), [shared = shared_] { shared->work(); });
  if (thread) return thread->detach();
  if (--shared_->threads != 0) return;  // One of the other threads will take this query.
  shared_->queries.pop_back();
  shared_->answer(number, std::unexpected(thread.error()));
}

void Resolver::finish(std::uint64_t query, Result<std::vector<Address>> result) {
  auto node = waiting_.extract(query);
  if (!node.empty()) node.mapped()(std::move(result));
}

}  // namespace rdmc::control
