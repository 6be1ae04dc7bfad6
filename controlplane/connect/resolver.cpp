#include "controlplane/connect/resolver.hpp"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>

#include "controlplane/connect/loop_core.hpp"
#include "controlplane/connect/socket.hpp"

namespace rdmc::control {
namespace {

/// At most this many names are looked up at a time, each on a thread that ends when no name is left.
constexpr unsigned kMaxThreads = 4;

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

}  // namespace

struct Resolver::Shared {
  struct Query {
    std::string host;
    std::uint16_t port;
    Done done;
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
      auto addresses = look_up(query.host, query.port);
      if (const auto loop = core.lock())
        loop->post([done = std::move(query.done), result = std::move(addresses)]() mutable {
          done(std::move(result));
        });
    }
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
  const std::lock_guard lock(shared_->mutex);
  shared_->queries.push_back({std::move(host), port, std::move(done)});
  if (shared_->threads == kMaxThreads) return;
  ++shared_->threads;
  try {
    std::thread([shared = shared_] { shared->work(); }).detach();
  } catch (const std::system_error&) {
    if (--shared_->threads != 0) return;  // another thread will come to it
    auto query = std::move(shared_->queries.back());
    shared_->queries.pop_back();
    if (const auto loop = shared_->core.lock())
      loop->post([refused = std::move(query.done), name = std::move(query.host)]() mutable {
        refused(fail(Errc::resource_limit, "resolving '" + name + "': no thread"));
      });
  }
}

}  // namespace rdmc::control
