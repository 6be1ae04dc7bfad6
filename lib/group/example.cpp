// Usage: example [LAUNCHER]. The program runs in each of the processes that mpirun, srun or RDMC_HOSTS names.
// The first process sends a large and a small message to all others.
#include <cstdio>
#include <future>
#include <rdmc/launch.hpp>

int main(int argc, char** argv) {
  const auto job = rdmc::launched_job({.launcher = argc > 1 ? argv[1] : "auto"});
  if (!job) return std::fprintf(stderr, "%s\n", job.error().what.c_str()), 1;
  auto node = rdmc::Node::create({.id = job->id, .address = job->address, .fabric = "udp"});
  if (!node) return 2;
  const auto connected = rdmc::connect_mesh(**node, job->members, job->mesh);
  if (!connected) return std::fprintf(stderr, "%s\n", connected.error().what.c_str()), 2;

  constexpr rdmc::GroupNumber kGroup{7};
  std::vector<std::byte> large(10'000'000, std::byte{'x'}), small(11, std::byte{'y'}), room(large.size());
  std::promise<bool> destroyed;
  rdmc::GroupCallbacks on;
  on.incoming = [&](std::uint64_t, std::uint64_t bytes) { return std::span(room).first(bytes); };
  on.delivered = [&](std::uint64_t message, std::span<std::byte> bytes) {
    std::printf("message %d: %zu times %c\n", static_cast<int>(message), bytes.size(),
                static_cast<char>(bytes[0]));
  };
  if (!(*node)->create_group(kGroup, job->nodes(), rdmc::NodeId{0}, {}, on)) return 3;
  const bool is_root = job->id == rdmc::NodeId{0};
  if (is_root && (!(*node)->send(kGroup, large) || !(*node)->send(kGroup, small))) return 4;
  const auto done = [&](rdmc::Result<void> all_have_all) { destroyed.set_value(all_have_all.has_value()); };
  if (!(*node)->destroy_group(kGroup, done)) return 5;
  return destroyed.get_future().get() ? 0 : 6;
}
