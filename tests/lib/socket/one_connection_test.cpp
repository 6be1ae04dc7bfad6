// What a process shares: groups, sockets, group sockets and a membership run on one fabric thread, one
// control loop, and one connection to each other process.
#include <boost/test/unit_test.hpp>
#include <map>
#include <mutex>
#include <thread>

#include "controlplane/membership/membership.hpp"
#include "lib/include/rdmc/mesh.hpp"
#include "lib/include/rdmc/socket.h"
#include "tests/lib/socket/two_stacks.hpp"

BOOST_AUTO_TEST_SUITE(one_connection_test)

using namespace rdmc;
using namespace rdmc::sockets;
using namespace rdmc::sockets::testing;

namespace {

/// The views that both processes agree in.
struct Agreed {
  std::mutex mutex;
  std::map<std::string, view::View> views;
};

class MemoryStore final : public view::ViewStore {
 public:
  MemoryStore(Agreed& agreed, control::ControlLoop& loop) : agreed_(agreed), loop_(loop) {}
  void read(const std::string& group, ReadDone done) override {
    const std::lock_guard lock(agreed_.mutex);
    loop_.post([view = agreed_.views[group], done = std::move(done)]() mutable { done(view); });
  }
  void compare_and_swap(const std::string& group, const view::View& next, SwapDone done) override {
    const std::lock_guard lock(agreed_.mutex);
    view::View& stands = agreed_.views[group];
    const bool swaps = next.epoch == view::next(stands.epoch);
    if (swaps) stands = next;
    loop_.post(
        [result = view::SwapResult{swaps, stands}, done = std::move(done)]() mutable { done(result); });
  }
  void watch(const std::string&, Hint) override {}
  void list(ListDone) override {}

 private:
  Agreed& agreed_;
  control::ControlLoop& loop_;
};

const Address kLoopback = Address::ipv4(127, 0, 0, 1, 0);

/// As one process has them.
struct Process {
  Process(Agreed& agreed, std::uint32_t id)
      : node(Node::create({.id = NodeId{id}, .address = kLoopback, .fabric = "udp", .context = context})
                 .value()),
        stack({.fabric = "udp", .insecure = true, .context = context}),
        store(agreed, peers->loop()) {}

  void join() {
    membership =
        membership::Membership::join(
            peers, store, {.group = "g", .listen = kLoopback, .fabric = "udp", .context = context}, {})
            .value();
  }
  std::size_t members() {
    return peers->loop().call([&] { return membership->view().view().members.size(); });
  }

  std::shared_ptr<peer::Context> context = std::make_shared<peer::Context>();
  std::shared_ptr<peer::Peers> peers = context->peers({.insecure = true}).value();
  std::unique_ptr<Node> node;
  Stack stack;
  MemoryStore store;
  std::unique_ptr<membership::Membership> membership;
};

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

BOOST_AUTO_TEST_CASE(groups_sockets_and_a_membership_of_two_processes_share_one_connection_and_one_thread) {
  Agreed agreed;
  Process one(agreed, 0), other(agreed, 1);

  const std::vector<MeshMember> members{{NodeId{0}, "127.0.0.1", 7808}, {NodeId{1}, "127.0.0.1", 7809}};
  Result<void> met;
  std::jthread meeting([&] { met = connect_mesh(*other.node, members, {.insecure = true}); });
  BOOST_TEST(connect_mesh(*one.node, members, {.insecure = true}).has_value());
  meeting.join();
  BOOST_TEST(met.has_value());

  const int listener = TwoStacks::new_socket(one.stack), back = TwoStacks::new_socket(other.stack);
  const auto at_one = listen_on(one.stack, listener), at_other = listen_on(other.stack, back);
  std::vector<int> connected;
  for (int i = 0; i < 5; ++i) {
    for (auto* const stack : {&one.stack, &other.stack}) {
      connected.push_back(TwoStacks::new_socket(*stack));
      BOOST_TEST((connect(*stack, connected.back(), stack == &one.stack ? at_other : at_one) == Answer(0)));
    }
  }
  const auto at_root = listen_on(one.stack, group_socket(one.stack));
  BOOST_TEST((connect(other.stack, group_socket(other.stack), at_root) == Answer(0)));

  one.join();
  other.join();
  while (one.members() != 2 || other.members() != 2) std::this_thread::yield();
  while (other.peers->loop().call([&] { return other.membership->counters().connected; }) == 0)
    std::this_thread::yield();

  for (Process* const process : {&one, &other}) {
    BOOST_TEST(process->context->threads() == 1U);
    // Each has asked who listens at several addresses; what it asked with ends when it has the answer.
    while (process->peers->connections() != 1U) std::this_thread::yield();
    BOOST_TEST(process->peers->counters().shared >= 1U);
  }
}

BOOST_AUTO_TEST_SUITE_END()
