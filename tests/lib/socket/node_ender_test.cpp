#include "lib/socket/node_ender.hpp"

#include <boost/test/unit_test.hpp>
#include <future>
#include <new>
#include <vector>

namespace rdmc::sockets::testing {
BOOST_AUTO_TEST_SUITE(node_ender_test)
namespace {

std::unique_ptr<Node> some_node() {
  auto node = Node::create({.address = Address::ipv4(127, 0, 0, 1, 0), .fabric = "udp"});
  BOOST_TEST_REQUIRE(node.has_value());
  return std::move(*node);
}

BOOST_AUTO_TEST_CASE(who_ends_a_node_does_not_wait_for_it) {
  NodeEnder ender;
  std::promise<void> may_go_on;
  std::vector<int> ended;
  ender.end(some_node(), [&] {
    may_go_on.get_future().wait();
    ended.push_back(1);
  });
  // This call must return although the end of the first node is not complete.
  ender.end(some_node(), [&] { ended.push_back(2); });
  may_go_on.set_value();
  ender.finish();
  BOOST_TEST(ended == (std::vector{1, 2}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(the_node_is_gone_when_that_is_told) {
  NodeEnder ender;
  auto kept = std::make_shared<int>(0);
  const std::weak_ptr<int> held_by_node = kept;
  auto node = some_node();
  GroupCallbacks on;
  on.stable = [kept = std::move(kept)](std::uint64_t) {};
  BOOST_TEST_REQUIRE(
      node->create_group(GroupNumber{1}, {NodeId{0}}, NodeId{0}, {}, std::move(on)).has_value());
  BOOST_TEST(!held_by_node.expired());
  bool was_gone = false;
  ender.end(std::move(node), [&] { was_gone = held_by_node.expired(); });
  ender.finish();
  BOOST_TEST(was_gone);
}

BOOST_AUTO_TEST_CASE(without_a_node_or_after_the_end_the_caller_is_told_at_once) {
  NodeEnder ender;
  int told = 0;
  ender.end(nullptr, [&] { ++told; });
  BOOST_TEST(told == 1);
  ender.finish();
  ender.end(some_node(), [&] { ++told; });
  BOOST_TEST(told == 2);
}

BOOST_AUTO_TEST_CASE(an_end_that_finds_no_memory_keeps_no_other_from_coming) {
  NodeEnder ender;
  bool told = false;
  ender.end(some_node(), [] { throw std::bad_alloc(); });
  ender.end(some_node(), [&] { told = true; });
  ender.finish();
  BOOST_TEST(told);
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::sockets::testing
