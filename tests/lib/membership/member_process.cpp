// `member_process STORE COUNT` is a member of the named group "g", and runs until it is killed. If COUNT is
// not 0, it takes part in group 7, which begins with COUNT members. When it is the root, it sends one message
// after the other. Each message begins with its number. Short messages and messages that are longer than a
// block alternate.
#include <cstdlib>
#include <cstring>
#include <deque>
#include <semaphore>
#include <thread>
#include <utility>
#include <vector>

#include "lib/include/rdmc/membership.hpp"

int main(int argc, char** argv) {
  using namespace rdmc;
  if (argc != 3) return 2;
  const auto store = parse_address(argv[1], 0);
  const std::size_t count = std::strtoul(argv[2], nullptr, 10);
  if (!store) return 2;
  const auto membership = Membership::join(
      {.group = "g", .name = "killed", .store = {.nodes = {*store}}, .insecure = true, .fabric = "udp"}, {});
  if (!membership) return 3;
  constexpr std::ptrdiff_t kUnderWay = 16;
  std::counting_semaphore<kUnderWay> may_send(0);
  bool has_begun = false;
  std::deque<std::vector<std::byte>> received;
  MemberGroupCallbacks on;
  on.incoming = [&](std::uint64_t, std::uint64_t bytes) {
    if (received.size() > 4 * kUnderWay) received.pop_front();
    return std::span(received.emplace_back(bytes));
  };
  on.reusable = [&](std::uint64_t) { may_send.release(); };
  on.continued = [&](const GroupView& group) {
    if (group.root == (*membership)->id() && !std::exchange(has_begun, true)) may_send.release(kUnderWay);
  };
  std::unique_ptr<MemberGroup> group;
  if (count > 0) {
    auto made =
        (*membership)
            ->create_group(GroupNumber{7}, {.group = {.block_bytes = 4096}, .first_members = count}, on);
    if (!made) return 4;
    group = std::move(*made);
  }
  std::deque<std::vector<std::byte>> sent;
  for (std::uint64_t number = 0;; ++number) {
    may_send.acquire();
    if (sent.size() > 4 * kUnderWay) sent.pop_front();
    auto& bytes = sent.emplace_back(number % 2 == 0 ? 30'000 : 100);
    std::memcpy(bytes.data(), &number, sizeof number);
    for (auto accepted = group->send(bytes); !accepted; accepted = group->send(bytes)) {
      // would_block is no error here, because the group may be between two epochs.
      if (accepted.error().code != Errc::would_block) return 5;
      std::this_thread::yield();
    }
  }
}
