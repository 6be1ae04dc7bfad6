// Tests with real etcd servers. They fail if no server can be started.
#include <boost/test/unit_test.hpp>

#include "controlplane/store/etcd_store.hpp"
#include "tests/controlplane/store/etcd_servers.hpp"
#include "tests/controlplane/store/store_trials.hpp"

namespace rdmc::store::testing {
BOOST_AUTO_TEST_SUITE(etcd_store_test)
namespace {

StoreClient client_of(const std::vector<Address>& endpoints) {
  return StoreClient([&](control::ControlLoop& loop) -> std::unique_ptr<view::ViewStore> {
    return EtcdStore::create(loop, {.endpoints = endpoints}).value();
  });
}

BOOST_AUTO_TEST_CASE(one_server_keeps_one_view_of_each_epoch_and_says_what_stands) {
  EtcdServers servers(1);
  keeps_one_view_of_each_epoch_and_says_what_stands(servers, client_of);
}

BOOST_AUTO_TEST_CASE(a_server_that_dies_and_comes_back_is_found_again_by_requests_and_watches) {
  EtcdServers servers(1);
  is_found_again_after_its_death_by_requests_and_watches(servers, client_of);
}

BOOST_AUTO_TEST_CASE(endpoints_that_say_nothing_or_no_are_passed_over_at_once_and_not_asked_first_again) {
  EtcdServers servers(1);
  BOOST_TEST_REQUIRE(client_of(servers.endpoints()).wait_until_up());
  // Two endpoints that do not answer. At the first endpoint, the kernel accepts connections, but no answer is
  // ever sent. At the second endpoint, no process listens.
  const auto silent = control::listen_on(Address::ipv4(127, 0, 0, 1, 0)).value();
  const auto dead = control::reserve(Address::ipv4(127, 0, 0, 1, 0)).value();
  const EtcdOptions options{.endpoints = {control::local_address(silent.get()),
                                          control::local_address(dead.get()), servers.endpoints()[0]},
                            .attempt = seconds(600)};
  StoreClient client([&](control::ControlLoop& loop) -> std::unique_ptr<view::ViewStore> {
    return EtcdStore::create(loop, options).value();
  });
  // kPatience is shorter than the time limit `attempt`. So the client must not wait for the silent endpoint.
  for (std::uint64_t epoch = 1; epoch <= 3; ++epoch)
    BOOST_TEST(client.swap("g", view_of(epoch, 1)).value().swapped);
  std::size_t asked = 0;
  for (Address peer; control::accept_one(silent.get(), peer);) ++asked;
  BOOST_TEST(asked == 1u);
}

BOOST_AUTO_TEST_CASE(three_servers_killed_one_after_the_other_under_load_lose_and_split_nothing) {
  EtcdServers servers(3);
  three_killed_one_after_the_other_under_load_lose_and_split_nothing(servers, client_of);
  for (const Address& endpoint : servers.endpoints()) BOOST_TEST(client_of({endpoint}).wait_until_up());
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::store::testing
