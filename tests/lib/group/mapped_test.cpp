// Tests mapped messages. Receivers on the root's host read them in the root's memory.
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <semaphore>

#include "dataplane/fabric/shm/shm_fabric.hpp"
#include "tests/lib/group/nodes.hpp"
#include "tests/lib/group/shm_members.hpp"

BOOST_AUTO_TEST_SUITE(mapped_test)

using namespace rdmc;
using namespace rdmc::group;
using rdmc::testing::Heard, rdmc::testing::kGroup;

namespace {

constexpr std::uint64_t kBytes = 4 << 20;

class Viewer final : public GroupEnd {
 public:
  void mapped(std::uint64_t message, const fabric::MappedMemory& memory) override {
    mapped_messages[message] = memory;
    delivered_messages.push_back(message);
  }
  std::map<std::uint64_t, fabric::MappedMemory> mapped_messages;
};

struct Viewers : ShmMembers<Viewer> {
  explicit Viewers(std::uint32_t count, bool read_only = true)
      : ShmMembers(count, {.confirms = true, .read_only = read_only}) {
    (void)ends[0].group().send_small({});
    BOOST_REQUIRE(run_until([&] { return ends[0].stable_count == 1; }));
    const auto probe = *fabrics[0]->make_arena(memory::kPageBytes);
    const auto is_introduced = [&](std::uint32_t member) {
      auto* const local = (*peers[0]->link_to(PeerId{member}))->local_peer();
      return local != nullptr && local->offer_mapping(probe.bytes()).has_value();
    };
    for (std::uint32_t i = 1; i < count && read_only; ++i)
      BOOST_REQUIRE(run_until([&] { return is_introduced(i); }));
  }
  std::span<std::byte> message(memory::Arena& arena) {
    arena = *fabrics[0]->make_arena(kBytes);
    for (std::size_t at = 0; at < kBytes; ++at) arena.bytes()[at] = static_cast<std::byte>(at * at / 7);
    return arena.bytes();
  }
  bool have_delivered(std::uint64_t count) const {
    return std::all_of(ends.begin() + 1, ends.end(),
                       [&](const Viewer& end) { return end.delivered_messages.size() == count; });
  }

  /// Gives `record` to member 1, as if it came from member `from`.
  void hear(const Record& record, std::uint32_t from = 0) {
    ends[1].group().on_record(**peers[1]->link_to(PeerId{from}), record);
  }
};

constexpr NodeId kChild{2};

Result<std::unique_ptr<Node>> node(NodeId id) {
  return Node::create(
      {.id = id, .address = Address::ipv4(127, 0, 3, static_cast<std::uint8_t>(value_of(id) + 1), 0)});
}

/// Node 2, in a separate process. It is in a group with nodes 0 and 1, which are in this process. The
/// destructor kills it.
class Child {
 public:
  explicit Child(NodeId root) {
    BOOST_REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets_) == 0);
    pid_ = fork();
    if (pid_ == 0) live(root);
    // This process closes its copy of the child's end. So receive() notices if the child ends early.
    close(std::exchange(sockets_[1], -1));
  }
  ~Child() {
    kill();
    close(sockets_[0]);
  }
  void connect(Node& other) {
    const auto offered = other.offer(kChild);
    BOOST_REQUIRE((offered && other.connect(kChild, receive(0)) && send(0, *offered)));
  }
  /// Waits until the child has got its mapped message.
  void wait_until_it_sees() { BOOST_TEST(!receive(0).empty()); }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    waitpid(std::exchange(pid_, 0), nullptr, 0);
  }

 private:
  std::vector<std::byte> receive(std::size_t end) const {
    std::vector<std::byte> bytes(65'536);
    const auto got = ::recv(sockets_[end], bytes.data(), bytes.size(), 0);
    bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    return bytes;
  }
  bool send(std::size_t end, std::span<const std::byte> bytes) const {
    return ::send(sockets_[end], bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  [[noreturn]] void live(NodeId root) const {
    close(sockets_[0]);  // If the parent dies, its end closes.
    const auto self = node(kChild);
    for (const NodeId other : {NodeId{0}, NodeId{1}}) {
      if (!self || !send(1, *(*self)->offer(other)) || !(*self)->connect(other, receive(1))) _exit(1);
    }
    GroupCallbacks on;
    // The only message that needs memory is an empty one.
    on.incoming = [](std::uint64_t, std::uint64_t) { return std::span<std::byte>(); };
    std::binary_semaphore is_introduced(0);
    on.stable = [&](std::uint64_t count) {
      if (count == 1) is_introduced.release();
    };
    on.mapped = [this](std::uint64_t, std::span<const std::byte> bytes) { (void)send(1, bytes.first(1)); };
    const std::vector<NodeId> members{NodeId{0}, NodeId{1}, kChild};
    if (!(*self)->create_group(kGroup, members, root, {.read_only = true}, on)) _exit(1);
    SharedMemory shared;
    if (root == kChild) {
      if (!(*self)->send(kGroup, {})) _exit(1);
      is_introduced.acquire();
      shared = *(*self)->allocate(kBytes);
      std::ranges::fill(shared.bytes, std::byte{9});
      if (!(*self)->send(kGroup, shared.bytes)) _exit(1);
    }
    (void)receive(1);
    _exit(0);
  }

  int sockets_[2] = {-1, -1};
  pid_t pid_ = -1;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_message_is_read_where_it_lies_and_no_byte_of_it_is_copied_until_all_have_released_it) {
  memory::Arena arena;
  Viewers group(11);  // With 11 members, the tree is not a star.
  const auto message = group.message(arena);
  const std::uint64_t before = group.bytes_copied();
  BOOST_REQUIRE((group.ends[0].group().try_show(message) == 1));
  BOOST_REQUIRE(group.run_until([&] { return group.have_delivered(2); }));
  BOOST_TEST(group.bytes_copied() - before < 16'384);  // Only records may have been copied.
  for (std::size_t i = 1; i < group.ends.size(); ++i) {
    const std::span<const std::byte> view = group.ends[i].mapped_messages.at(1).bytes;
    BOOST_TEST((view.data() != message.data() && std::ranges::equal(view, message)));
    void* const page = const_cast<std::byte*>(view.data());
    // It must be impossible to make the mapping writable.
    BOOST_TEST(mprotect(page, memory::kPageBytes, PROT_READ | PROT_WRITE) != 0);
  }
  const auto& completed = group.ends[0].completed_messages;
  for (std::size_t i = 1; i < group.ends.size(); ++i) {
    for (int turn = 0; turn < 100; ++turn) group.turn();
    BOOST_TEST(completed.size() == 1, i - 1 << " have released it");
    group.ends[i].group().release_mapped(1);
  }
  BOOST_TEST(group.run_until([&] { return completed.size() == 2; }));
}

BOOST_AUTO_TEST_CASE(what_is_shown_keeps_its_place_and_delays_nothing_behind_it) {
  memory::Arena arena;
  std::vector<std::byte> small(100, std::byte{5}), large(100'000, std::byte{6});
  MemoryStore store(large, large.size(), 256 * 1024);
  Viewers group(4);
  const auto message = group.message(arena);
  Group& root = group.ends[0].group();
  std::vector<std::uint64_t> in_order{0};
  for (std::uint64_t next = 1; next < 61; next += 3) {
    BOOST_REQUIRE((root.try_show(message) == next));
    BOOST_REQUIRE((root.send_small(small) == next + 1));
    BOOST_REQUIRE((next + 2 > 60 || root.send_small({}) == next + 2));
    for (std::uint64_t i = 0; i < 3; ++i) in_order.push_back(next + i);
  }
  BOOST_REQUIRE((root.send(store, large.size()) == in_order.size()));
  in_order.push_back(in_order.size());
  BOOST_REQUIRE(group.run_until([&] { return group.have_delivered(in_order.size()); }));
  for (std::size_t i = 1; i < group.ends.size(); ++i) {
    BOOST_TEST(group.ends[i].delivered_messages == in_order);
    for (const auto& [number, view] : group.ends[i].mapped_messages)
      group.ends[i].group().release_mapped(number);
  }
  const auto& completed = group.ends[0].completed_messages;
  BOOST_TEST(group.run_until([&] { return completed.size() == in_order.size(); }));
}

BOOST_AUTO_TEST_CASE(memory_that_nobody_can_map_is_not_shown) {
  Viewers group(3);
  const std::vector<std::byte> own(kBytes);
  BOOST_TEST(!group.ends[0].group().try_show(own).has_value());
  BOOST_TEST(!group.ends[1].group().try_show(own).has_value());
}

BOOST_AUTO_TEST_CASE(an_application_is_shown_what_was_allocated_and_given_the_rest_and_says_when_it_is_done) {
  std::vector<Heard> heard(2);
  std::vector<std::unique_ptr<Node>> nodes;
  for (std::uint32_t i = 0; i < 2; ++i) {
    auto made = node(NodeId{i});
    BOOST_REQUIRE(made);
    nodes.push_back(std::move(*made));
  }
  const auto first = nodes[0]->offer(NodeId{1}), second = nodes[1]->offer(NodeId{0});
  BOOST_REQUIRE(
      (first && second && nodes[0]->connect(NodeId{1}, *second) && nodes[1]->connect(NodeId{0}, *first)));
  const std::vector<NodeId> members{NodeId{0}, NodeId{1}};
  auto callbacks = heard[1].callbacks();
  BOOST_TEST(
      testing::failed_with(nodes[1]->create_group(kGroup, members, NodeId{0}, {.read_only = true}, callbacks),
                           Errc::invalid_argument));
  std::vector<std::byte> seen;
  callbacks.mapped = [&, delivered = callbacks.delivered](std::uint64_t message,
                                                          std::span<const std::byte> bytes) {
    seen.assign(bytes.begin(), bytes.end());
    delivered(message, {});
  };
  BOOST_REQUIRE(
      nodes[0]->create_group(kGroup, members, NodeId{0}, {.read_only = true}, heard[0].callbacks()));
  BOOST_REQUIRE(nodes[1]->create_group(kGroup, members, NodeId{0}, {.read_only = true}, callbacks));
  const std::vector<std::byte> own(kBytes, std::byte{3});
  BOOST_REQUIRE(nodes[0]->send(kGroup, own));
  BOOST_REQUIRE(heard[0].wait_until([&] { return heard[0].stable == 1; }));
  const auto shared = nodes[0]->allocate(kBytes);
  BOOST_REQUIRE(shared);
  std::ranges::fill(shared->bytes, std::byte{4});
  for (int i = 0; i < 2; ++i) BOOST_REQUIRE(nodes[0]->send(kGroup, shared->bytes));
  BOOST_REQUIRE(heard[1].wait_until([&] { return heard[1].delivered.size() == 3; }));
  BOOST_TEST((heard[1].delivered[0].second == own));
  BOOST_TEST((heard[1].delivered[1].second.empty() && seen.size() == kBytes));
  BOOST_TEST(std::ranges::equal(seen, shared->bytes));
  BOOST_REQUIRE(heard[0].wait_until([&] { return heard[0].stable == 3; }));
  BOOST_TEST(heard[0].reusable == 1u);
  BOOST_REQUIRE(nodes[1]->release(kGroup, 1));
  BOOST_TEST(heard[0].wait_until([&] { return heard[0].reusable == 2; }));
  for (std::uint32_t i = 0; i < 2; ++i)
    BOOST_REQUIRE(nodes[i]->destroy_group(kGroup, heard[i].on_destroyed()));
  for (Heard& one : heard) {
    BOOST_TEST(one.wait_until([&] { return one.destroyed.has_value(); }));
    BOOST_TEST(one.destroyed->has_value());
  }
  nodes.clear();
}

BOOST_DATA_TEST_CASE(whoever_dies_while_something_is_shown_all_others_know_it_and_can_read_on,
                     boost::unit_test::data::make({false, true}), root_dies) {
  Child child(root_dies ? kChild : NodeId{0});
  std::vector<std::unique_ptr<Node>> nodes;
  for (const NodeId id : {NodeId{0}, NodeId{1}}) {
    auto made = node(id);
    BOOST_REQUIRE(made);
    child.connect(**made);
    nodes.push_back(std::move(*made));
  }
  const auto first = nodes[0]->offer(NodeId{1}), second = nodes[1]->offer(NodeId{0});
  BOOST_REQUIRE((first && second));
  BOOST_REQUIRE((nodes[0]->connect(NodeId{1}, *second) && nodes[1]->connect(NodeId{0}, *first)));
  std::vector<Heard> heard(2);
  std::vector<std::span<const std::byte>> mapped_messages(2);
  for (std::size_t i = 0; i < 2; ++i) {
    auto callbacks = heard[i].callbacks();
    callbacks.mapped = [&view = mapped_messages[i], delivered = callbacks.delivered](
                           std::uint64_t message, std::span<const std::byte> bytes) {
      view = bytes;
      delivered(message, {});
    };
    BOOST_REQUIRE(nodes[i]->create_group(kGroup, {NodeId{0}, NodeId{1}, kChild},
                                         root_dies ? kChild : NodeId{0}, {.read_only = true}, callbacks));
  }
  std::optional<SharedMemory> shared;
  if (!root_dies) {
    BOOST_REQUIRE(nodes[0]->send(kGroup, {}));
    BOOST_REQUIRE(heard[0].wait_until([&] { return heard[0].stable == 1; }));
    shared = *nodes[0]->allocate(kBytes);
    std::ranges::fill(shared->bytes, std::byte{9});
    BOOST_REQUIRE(nodes[0]->send(kGroup, shared->bytes));
    child.wait_until_it_sees();
  }
  for (std::size_t i = root_dies ? 0 : 1; i < 2; ++i)
    BOOST_REQUIRE(heard[i].wait_until([&] { return heard[i].delivered.size() == 2; }));
  child.kill();
  for (Heard& one : heard) {
    BOOST_REQUIRE(one.wait_until([&] { return one.failures.size() == 1; }));
    BOOST_TEST((one.failures[0].node == kChild));
  }
  // The root's memory is unmapped, and the root is destroyed.
  if (!root_dies) {
    BOOST_REQUIRE(nodes[0]->destroy_group(kGroup, heard[0].on_destroyed()));
    BOOST_TEST(heard[0].wait_until([&] { return heard[0].destroyed.has_value(); }));
    BOOST_TEST(!heard[0].destroyed->has_value());
    shared.reset();
    nodes[0].reset();
  }
  for (std::size_t i = root_dies ? 0 : 1; i < 2; ++i) {
    BOOST_TEST((mapped_messages[i].size() == kBytes &&
                std::ranges::count(mapped_messages[i], std::byte{9}) == kBytes));
    BOOST_TEST(nodes[i]->release(kGroup, 1).has_value());
    BOOST_REQUIRE(nodes[i]->destroy_group(kGroup, heard[i].on_destroyed()));
    BOOST_TEST(heard[i].wait_until([&] { return heard[i].destroyed.has_value(); }));
    BOOST_TEST(!heard[i].destroyed->has_value());
  }
}

BOOST_AUTO_TEST_CASE(a_view_that_cannot_be_is_the_roots_fault_and_nothing_is_looked_at) {
  memory::Arena arena;
  const auto is_refused = [&](const char* what, bool read_only, std::uint32_t from, auto make) {
    Viewers group(3, read_only);
    const auto message = group.message(arena);
    MappedMessage mapped{.message = 1, .offer = {}, .bytes = kBytes};
    if (read_only)
      mapped.offer = *(*group.peers[0]->link_to(PeerId{1}))->local_peer()->offer_mapping(message);
    make(mapped);
    group.hear(mapped, from);
    const bool failed = group.run_until([&] { return group.ends[1].failures == 1; });
    BOOST_TEST((failed && group.ends[1].failed_peer == Rank{from}), what);
    BOOST_TEST((group.ends[1].failure.code == Errc::protocol_error), what);
    BOOST_TEST(group.ends[1].mapped_messages.empty(), what);
  };
  is_refused("unknown memory", true, 0, [](MappedMessage& mapped) { mapped.offer.arena += 1000; });
  is_refused("too long", true, 0, [](MappedMessage& mapped) { mapped.bytes = UINT64_MAX; });
  is_refused("beyond it", true, 0, [](MappedMessage& mapped) { mapped.offer.offset = UINT64_MAX - 1; });
  is_refused("long ago", true, 0, [](MappedMessage& mapped) { mapped.message = 0; });
  is_refused("far ahead", true, 0, [](MappedMessage& mapped) { mapped.message = 1 << 20; });
  is_refused("somebody else's", true, 2, [](MappedMessage&) {});
  is_refused("where none belongs", false, 0, [](MappedMessage&) {});
}

BOOST_AUTO_TEST_CASE(behind_what_is_not_released_63_numbers_are_sent_and_16384_small_ones) {
  memory::Arena arena;
  std::vector<std::byte> small(100, std::byte{5}), large(100'000, std::byte{6});
  std::vector<MemoryStore> stores(2, MemoryStore(large, large.size(), 256 * 1024));
  for (const std::uint64_t smalls : {std::uint64_t{62}, SmallWindow::kMostAhead + 10}) {
    Viewers group(3);
    Group& root = group.ends[0].group();
    BOOST_REQUIRE((root.try_show(group.message(arena)) == 1));
    for (std::uint64_t i = 0; i < smalls; ++i) BOOST_REQUIRE(root.send_small(small));
    if (smalls == 62)
      for (MemoryStore& store : stores) BOOST_REQUIRE(root.send(store, large.size()));
    const std::uint64_t all = smalls == 62 ? 66 : 2 + smalls,
                        before = smalls == 62 ? 65 : SmallWindow::kMostAhead + 1;
    BOOST_TEST(group.run_until([&] { return group.have_delivered(before); }));
    for (int turn = 0; turn < 100; ++turn) group.turn();
    BOOST_TEST(group.have_delivered(before));
    for (std::size_t i = 1; i < 3; ++i) group.ends[i].group().release_mapped(1);
    BOOST_TEST(group.run_until([&] { return group.have_delivered(all); }));
  }
}

BOOST_AUTO_TEST_CASE(what_a_lying_parent_makes_a_member_keep_is_bounded) {
  memory::Arena arena;
  Viewers group(3);
  BOOST_REQUIRE((group.ends[0].group().try_show(group.message(arena)) == 1));
  BOOST_REQUIRE(group.run_until([&] { return group.have_delivered(2); }));
  std::uint64_t next = 2;
  for (; next < 4 * SmallWindow::kMostUnfinished && group.ends[1].failures == 0; ++next) {
    group.hear(SmallMessage{.message = next, .bytes = {}});
    group.peers[1]->work(monotonic_now());
  }
  BOOST_TEST(next - 2 == SmallWindow::kMostUnfinished);
  BOOST_TEST((group.ends[1].failed_peer == Rank{0}));
}

BOOST_AUTO_TEST_SUITE_END()
