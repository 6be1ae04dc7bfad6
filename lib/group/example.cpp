// example ID COUNT PORT KEY_FILE: COUNT processes, numbered from 0, whose control connections listen at
// 127.0.0.1, PORT and up. Process 0 sends a large and a small message to all others.
#include <cstdio>
#include <cstdlib>
#include <future>
#include <rdmc/mesh.hpp>
#include <string>

int main(int argc, char** argv) {
  if (argc != 5) return 1;
  const auto id = static_cast<rdmc::NodeId>(std::atoi(argv[1]));
  auto node = rdmc::Node::create({.id = id, .fabric = "udp"});
  std::vector<rdmc::MeshMember> mesh;
  std::vector<rdmc::NodeId> members;
  for (int i = 0; i < std::atoi(argv[2]); ++i) {
    members.push_back(static_cast<rdmc::NodeId>(i));
    mesh.push_back({members.back(), "127.0.0.1", static_cast<std::uint16_t>(std::atoi(argv[3]) + i)});
  }
  if (!node || !rdmc::connect_mesh(**node, mesh, {.key_file = argv[4]})) return 2;

  constexpr rdmc::GroupNumber kGroup{7};
  std::vector<std::byte> large(10'000'000, std::byte{'x'}), small(11, std::byte{'y'}), room(large.size());
  std::promise<bool> destroyed;
  rdmc::GroupCallbacks on;
  on.incoming = [&](std::uint64_t, std::uint64_t bytes) { return std::span(room).first(bytes); };
  on.delivered = [&](std::uint64_t message, std::span<std::byte> bytes) {
    std::printf("message %d: %zu times %c\n", static_cast<int>(message), bytes.size(),
                static_cast<char>(bytes[0]));
  };
  if (!(*node)->create_group(kGroup, members, rdmc::NodeId{0}, {}, on)) return 3;
  if (id == rdmc::NodeId{0} && (!(*node)->send(kGroup, large) || !(*node)->send(kGroup, small))) return 4;
  const auto done = [&](rdmc::Result<void> all_have_all) { destroyed.set_value(all_have_all.has_value()); };
  if (!(*node)->destroy_group(kGroup, done)) return 5;
  return destroyed.get_future().get() ? 0 : 6;
}
