// Tests that the parts of one process share one fabric thread, one control loop, and one connection to each
// other process. The parts are its groups, sockets, group sockets, membership, group of that membership, and
// unicast. The test gets the numbers from the operating system and from the fabric.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "dataplane/base/clock.hpp"
#include "lib/include/rdmc/membership.hpp"
#include "lib/include/rdmc/mesh.hpp"
#include "lib/include/rdmc/socket.h"
#include "lib/include/rdmc/unicast.hpp"
#include "tests/lib/membership/one_store.hpp"
#include "tests/lib/socket/two_stacks.hpp"

BOOST_AUTO_TEST_SUITE(one_connection_test)

using namespace rdmc;
using namespace rdmc::sockets;
using namespace rdmc::sockets::testing;

namespace {

const Address kLoopback = Address::ipv4(127, 0, 0, 1, 0);
constexpr GroupNumber kGroup{7};
/// The number of queue pairs of one process (docs/decisions/0098). There is one each for the node, the
/// sockets, the group socket, the membership, the membership's group, and unicast.
constexpr std::size_t kQueuePairs = 6;

/// All these parts in one object, which acts as one process.
class Process {
 public:
  Process(const rdmc::testing::OneStore& store, std::uint32_t id)
      : node(Node::create({.id = NodeId{id}, .address = kLoopback, .fabric = "udp", .context = context})
                 .value()),
        stack({.fabric = "udp", .insecure = true, .context = context}),
        endpoint(
            rdmc::Endpoint::create({.name = "unicast", .fabric = "udp", .insecure = true, .context = context})
                .value()),
        store_(store.address()) {
    BOOST_REQUIRE(endpoint->listen());
  }

  void join() {
    MembershipCallbacks on;
    on.installed = [this](const View& view) { members_ = view.members.size(); };
    membership_ = rdmc::Membership::join({.group = "g",
                                          .name = "a member",
                                          .store = {.nodes = {store_}},
                                          .insecure = true,
                                          .fabric = "udp",
                                          .context = context},
                                         on)
                      .value();
  }
  void make_group() {
    MemberGroupCallbacks on;
    on.continued = [this](const GroupView& view) { in_group_ = view.members.size(); };
    group_ = membership_->create_group(kGroup, {.first_members = 2}, on).value();
  }
  bool sees(std::size_t members) const { return members_ == members; }
  bool is_in_group_of(std::size_t members) const { return in_group_ == members; }
  /// Returns the number of queue pairs that the fabric counts.
  std::size_t queue_pairs() const {
    const auto thread = context->fabric_thread({.fabric = "udp"}).value();
    return thread->call([&] { return thread->software()->queue_pairs(); });
  }

  const std::shared_ptr<peer::Context> context = std::make_shared<peer::Context>();
  const std::shared_ptr<peer::Peers> peers = context->peers({.insecure = true}).value();
  const std::unique_ptr<Node> node;
  Stack stack;
  const std::unique_ptr<rdmc::Endpoint> endpoint;

 private:
  const Address store_;
  std::atomic<std::size_t> members_ = 0, in_group_ = 0;
  std::unique_ptr<rdmc::Membership> membership_;
  std::unique_ptr<MemberGroup> group_;
};

/// Returns the established TCP connections of this process, except those to the store. For each socket,
/// returns the local port number and the port number of the other end. This process acts as both processes of
/// the test. So a connection between the two counts twice, once for each end.
std::set<std::pair<std::uint16_t, std::uint16_t>> established(std::uint16_t store) {
  std::set<std::string> ours;
  std::error_code gone;
  for (const auto& one : std::filesystem::directory_iterator("/proc/self/fd"))
    ours.insert(std::filesystem::read_symlink(one, gone).string());
  std::set<std::pair<std::uint16_t, std::uint16_t>> ends;
  std::ifstream table("/proc/self/net/tcp");
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    std::istringstream fields(line);
    std::string number, local, remote, state, skipped, inode;
    fields >> number >> local >> remote >> state;
    for (int i = 0; i < 5; ++i) fields >> skipped;
    fields >> inode;
    if (state != "01" || !ours.contains("socket:[" + inode + "]")) continue;
    const auto port = [](const std::string& end) {
      return static_cast<std::uint16_t>(std::stoul(end.substr(end.find(':') + 1), nullptr, 16));
    };
    if (port(local) != store && port(remote) != store) ends.emplace(port(local), port(remote));
  }
  return ends;
}

/// Waits until `condition` returns true. Only a failing test reaches the time limit.
bool becomes(const std::function<bool()>& condition) {
  const Time latest = monotonic_now() + seconds(60);
  while (!condition()) {
    if (monotonic_now() > latest) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

sockaddr_in listen_on(Stack& stack, int fd) {
  sockaddr_in at = loopback();
  socklen_t length = sizeof at;
  BOOST_REQUIRE(stack.bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at));
  BOOST_REQUIRE(stack.listen(fd, 16));
  BOOST_REQUIRE(stack.get_name(fd, reinterpret_cast<sockaddr*>(&at), &length, false));
  return at;
}

Answer connect(Stack& stack, int fd, const sockaddr_in& to) {
  return stack.connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to);
}

int group_socket(Stack& stack) {
  const int fd = TwoStacks::new_socket(stack, 0, RDMC_GROUP);
  BOOST_REQUIRE(stack.set_option(fd, RDMC_SOL_SOCKET, RDMC_SO_GROUP, "news", 4));
  return fd;
}

}  // namespace

BOOST_AUTO_TEST_CASE(all_that_two_processes_have_to_do_with_each_other_shares_one_connection_and_one_thread) {
  const rdmc::testing::OneStore store;
  Process one(store, 0), other(store, 1);

  // Both processes dial each other at the same time and at several addresses.
  const int listener = TwoStacks::new_socket(one.stack), back = TwoStacks::new_socket(other.stack);
  const auto at_one = listen_on(one.stack, listener), at_other = listen_on(other.stack, back);
  const auto at_root = listen_on(one.stack, group_socket(one.stack));
  const std::vector<MeshMember> members{{NodeId{0}, "127.0.0.1", 7808}, {NodeId{1}, "127.0.0.1", 7809}};
  const auto meet = [&](Process& self, const sockaddr_in& to) {
    const auto met = connect_mesh(*self.node, members, {.insecure = true});
    BOOST_TEST(met.has_value());
    for (int i = 0; i < 5; ++i)
      BOOST_TEST((connect(self.stack, TwoStacks::new_socket(self.stack), to) == Answer(0)));
    self.join();
    BOOST_TEST(becomes([&] { return self.sees(2); }));
    self.make_group();
    BOOST_TEST(becomes([&] { return self.is_in_group_of(2); }));
  };
  std::jthread meeting([&] { meet(other, at_one); });
  meet(one, at_other);
  meeting.join();
  BOOST_TEST((connect(other.stack, group_socket(other.stack), at_root) == Answer(0)));
  const auto unicast =
      other.endpoint->connect({.host = "127.0.0.1", .port = one.endpoint->address().port}, seconds(60));
  BOOST_TEST(unicast.has_value());

  // The connections that were dialed and are not needed must have ended on both sides.
  BOOST_TEST(becomes([&] { return established(store.address().port).size() == 2; }));
  const auto ends = established(store.address().port);
  BOOST_TEST_REQUIRE(ends.size() == 2U);
  BOOST_TEST((ends.begin()->first == ends.rbegin()->second && ends.begin()->second == ends.rbegin()->first));
  for (Process* const process : {&one, &other}) {
    BOOST_TEST(process->peers->connections() == 1U);
    BOOST_TEST(process->peers->counters().shared >= 1U);
    BOOST_TEST(process->context->threads() == 1U);
    BOOST_TEST(process->stack.trunks() == 1U);
    becomes([&] { return process->queue_pairs() == kQueuePairs; });
    BOOST_TEST(process->queue_pairs() == kQueuePairs);
  }
}

BOOST_AUTO_TEST_SUITE_END()
