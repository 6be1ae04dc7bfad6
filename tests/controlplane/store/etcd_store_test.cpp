// Against real etcd-servers. Where one cannot be started, this fails.
#include <boost/test/unit_test.hpp>

#include "controlplane/store/etcd_store.hpp"
#include "tests/controlplane/store/etcd_servers.hpp"
#include "tests/controlplane/store/store_trials.hpp"

namespace rdmc::store::testing {
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

BOOST_AUTO_TEST_CASE(three_servers_killed_one_after_the_other_under_load_lose_and_split_nothing) {
  EtcdServers servers(3);
  three_killed_one_after_the_other_under_load_lose_and_split_nothing(servers, client_of);
  for (const Address& endpoint : servers.endpoints()) BOOST_TEST(client_of({endpoint}).wait_until_up());
}

}  // namespace
}  // namespace rdmc::store::testing
