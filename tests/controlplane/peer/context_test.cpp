#include "controlplane/peer/context.hpp"

#include <boost/test/unit_test.hpp>
#include <future>
#include <thread>

namespace rdmc::peer::testing {
BOOST_AUTO_TEST_SUITE(context_test)
namespace {

const control::Identity kInsecure{.insecure = true};

BOOST_AUTO_TEST_CASE(who_asks_with_the_same_identity_shares_the_peers_and_the_loop) {
  Context context;
  const auto loop = context.loop().value();
  const auto peers = context.peers(kInsecure).value();
  BOOST_TEST(context.peers(kInsecure).value() == peers);
  BOOST_TEST(&peers->loop() == loop.get());
}

BOOST_AUTO_TEST_CASE(a_handler_may_let_go_of_the_last_reference_and_the_loop_ends_all_the_same) {
  Context context;
  auto peers = context.peers(kInsecure).value();
  const std::weak_ptr<control::ControlLoop> loop = context.loop().value();
  std::promise<void> let_go;
  peers->loop().post([&, last = std::move(peers)]() mutable {
    last.reset();
    let_go.set_value();
  });
  let_go.get_future().wait();
  while (!loop.expired()) std::this_thread::yield();
  BOOST_TEST(context.peers(kInsecure).has_value());
}

}  // namespace
BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::peer::testing
