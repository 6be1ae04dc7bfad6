#include "bench/perf/member.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>

#include "dataplane/base/bytes.hpp"
#include "dataplane/base/clock.hpp"
#include "dataplane/fabric/host_identity.hpp"

namespace rdmc::perf {
namespace {

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds_of = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

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
  return parse_address(place.substr(equals + 1), 4791);
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
  // A memif's client must find its server: DPDK turns away whoever comes while that one starts, for good.
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
  member->agent_ = std::make_unique<group::FabricAgent>(*fabric);
  member->engine_ = std::make_unique<engine::Engine>(
      *member->agent_, engine::IdleStrategy{.spin = options.spin, .busy_poll = options.busy_poll});
  member->engine_->add(*member->agent_);
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
  cpu_at_start_ = cpu_seconds();
}

void Member::end_account() {
  MemberFigures& figures = rendezvous_.figures[rank_];
  figures.cpu_seconds += cpu_seconds() - cpu_at_start_;
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

namespace {

constexpr std::size_t kBetweenTurns = 1 << 20;

XXH128_hash_t digest_of(Member& member, std::span<const std::byte> bytes) {
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                              XXH3_freeState);
  XXH3_128bits_reset(state.get());
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), kBetweenTurns));
    bytes = bytes.subspan(part.size());
    XXH3_128bits_update(state.get(), part.data(), part.size());
    member.engine().poll(monotonic_now());
  }
  return XXH3_128bits_digest(state.get());
}

}  // namespace

void stamp(Member& member, std::span<std::byte> bytes, std::uint32_t iteration, std::uint32_t sender) {
  const std::uint64_t mark = std::uint64_t{sender} << 32 | iteration;
  for (std::size_t at = 0; at + 8 <= bytes.size(); at += 4096) {
    store_be(bytes.data() + at, (at + 1) * 0x9E3779B97F4A7C15 ^ mark);
    if (at % kBetweenTurns == 0) member.engine().poll(monotonic_now());
  }
  if (!bytes.empty()) bytes.back() = static_cast<std::byte>(iteration);
  const XXH128_hash_t digest = digest_of(member, bytes);
  member.meet().digests[sender].low = digest.low64;
  member.meet().digests[sender].high = digest.high64;
}

bool matches_digest(Member& member, std::span<const std::byte> bytes, std::uint32_t sender) {
  const XXH128_hash_t digest = digest_of(member, bytes);
  const auto& sent = member.meet().digests[sender];
  return sent.low == digest.low64 && sent.high == digest.high64;
}

void record_start(Rendezvous& meet, std::uint32_t iteration) {
  const std::int64_t now = monotonic_now().ns;
  auto& first = meet.started_ns[iteration];
  for (std::int64_t seen = first.load();
       (seen == 0 || seen > now) && !first.compare_exchange_weak(seen, now);) {
  }
}

void record_finish(Rendezvous& meet, std::uint32_t iteration) {
  const std::int64_t now = monotonic_now().ns;
  auto& last = meet.finished_ns[iteration];
  for (std::int64_t seen = last.load(); seen < now && !last.compare_exchange_weak(seen, now);) {
  }
}

}  // namespace rdmc::perf
