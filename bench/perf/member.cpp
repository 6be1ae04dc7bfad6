#include "bench/perf/member.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>

#include "dataplane/base/clock.hpp"
#include "dataplane/fabric/host_identity.hpp"

namespace rdmc::perf {
namespace {

std::uint32_t os_random() {
  std::uint32_t value = 0;
  while (getrandom(&value, sizeof value, 0) != sizeof value) {
  }
  return value;
}

Result<Address> enter_place(const std::string& place) {
  const auto equals = place.find('=');
  if (equals == std::string::npos)
    return fail(Errc::invalid_argument, "not NAMESPACE=ADDRESS: '" + place + "'");
  const std::string path = "/run/netns/" + place.substr(0, equals);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return fail_errno(path, errno);
  const int entered = setns(fd, CLONE_NEWNET);
  const int error = errno;
  close(fd);
  if (entered != 0) return fail_errno("setns " + path, error);
  return parse_address(place.substr(equals + 1), kRocePort);
}

}  // namespace

Result<std::unique_ptr<Member>> Member::open(const Options& options, Rendezvous& rendezvous,
                                             std::uint32_t rank) {
  std::unique_ptr<Member> member(new Member(options, rendezvous, rank));
  Address address = Address::ipv4(127, 0, 1, static_cast<std::uint8_t>(rank + 1), 0);
  if (!options.places.empty()) {
    const auto place = enter_place(options.places[rank]);
    if (!place) return std::unexpected(place.error());
    address = *place;
  }
  port::PortRequest request{.address = address, .dscp = options.dscp};
  if (options.fabric == "dpdk")
    request = {.address = {},
               .device = rank < options.devices.size() ? options.devices[rank] : "",
               .dscp = options.dscp};
  // A memif's client must find its server running. If a client connects while the server starts, DPDK refuses
  // this client from then on.
  const auto nap = [] { usleep(1000); };
  if (options.fabric == "dpdk" && rank != 0) rendezvous.barrier(nap);
  auto opened = fabric::open_fabric(options.fabric, request,
                                    {.entropy = os_random,
                                     .host_id = fabric::host_identity(),
                                     .icrc_on_loopback = options.icrc_on_loopback,
                                     .encrypt = options.encrypt});
  if (options.fabric == "dpdk" && rank == 0) rendezvous.barrier(nap);
  if (!opened) return std::unexpected(opened.error());
  member->opened_ = std::move(*opened);
  const auto& [port, fabric, software, name, reason] = member->opened_;
  name.copy(rendezvous.figures[rank].driver.data(), rendezvous.figures[rank].driver.size() - 1);
  if (rank == 0) fmt::print(stderr, "fabric: {} ({})\n", name, reason);
  rendezvous.figures[rank].icrc = fabric->info().icrc;
  rendezvous.figures[rank].encrypted = fabric->info().encrypted;
  member->poller_ = std::make_unique<fabric::FabricPoller>(*fabric);
  member->engine_ = std::make_unique<engine::Engine>(
      *member->poller_, engine::IdleStrategy{.spin = options.spin, .busy_poll = options.busy_poll});
  member->engine_->add(*member->poller_);
  return member;
}

bool Member::run_until(const std::function<bool()>& done) {
  while (!done()) {
    if (rendezvous_.failed()) return false;
    engine_->turn(milliseconds(10));
  }
  return true;
}

bool Member::barrier() {
  return rendezvous_.barrier([this] { engine_->turn(microseconds(200)); });
}

void Member::start_account() {
  account_.start();
}

void Member::end_account() {
  MemberFigures& figures = rendezvous_.figures[rank_];
  account_.end();
  figures.bytes_copied = opened_.fabric->bytes_copied();
  figures.carrier_copies_per_byte = opened_.fabric->info().carrier_copies_per_byte;
  if (opened_.software == nullptr) return;
  const auto& counters = opened_.software->counters();
  figures.packets_in_place = counters.packets_in_place;
  figures.packets_repaired = counters.packets_repaired;
  figures.retransmitted = opened_.software->connection_counters().retransmitted;
  figures.timeouts = opened_.software->connection_counters().timeouts;
  figures.receive_dropped = opened_.port->counters().receive_dropped;
  figures.system_calls = opened_.port->counters().system_calls;
}

Meanwhile Member::meanwhile() {
  return [this] { engine_->poll(monotonic_now()); };
}

void stamp(Member& member, std::span<std::byte> bytes, std::uint32_t iteration, std::uint32_t sender) {
  stamp(member.meet(), bytes, iteration, sender, member.meanwhile());
}

bool matches_digest(Member& member, std::span<const std::byte> bytes, std::uint32_t sender) {
  return matches_digest(member.meet(), bytes, sender, member.meanwhile());
}

}  // namespace rdmc::perf
