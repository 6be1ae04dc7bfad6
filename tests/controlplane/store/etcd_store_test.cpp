// Against real etcd-servers. Where one cannot be started, this fails.
#define BOOST_TEST_MODULE etcd_store
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <map>
#include <mutex>
#include <thread>

#include "controlplane/store/etcd_store.hpp"
#include "tests/controlplane/store/etcd_servers.hpp"
#include "tests/controlplane/store/store_client.hpp"

namespace rdmc::store::testing {
namespace {

StoreClient client_of(const std::vector<Address>& endpoints) {
  return StoreClient([&](control::ControlLoop& loop) -> std::unique_ptr<view::ViewStore> {
    return EtcdStore::create(loop, {.endpoints = endpoints}).value();
  });
}

/// What all clients were told; one view of each epoch.
class History {
 public:
  void add(const view::View& view) {
    const std::scoped_lock lock(mutex_);
    const auto [found, fresh] = views_.emplace(view.epoch, view);
    if (!fresh && found->second != view) ++disagreements_;
  }
  std::size_t disagreements() const { return disagreements_; }
  std::size_t size() const { return views_.size(); }

 private:
  std::mutex mutex_;
  std::map<Epoch, view::View> views_;
  std::size_t disagreements_ = 0;
};

BOOST_AUTO_TEST_CASE(one_server_keeps_one_view_of_each_epoch_and_says_what_stands) {
  EtcdServers servers(1);
  StoreClient client = client_of(servers.endpoints());
  BOOST_TEST_REQUIRE(client.wait_until_up());
  BOOST_TEST((client.read("g").value() == view::View{}));
  BOOST_TEST(client.swap("g", view_of(1, 1)).value().swapped);
  const auto other = client.swap("g", view_of(1, 2)).value();
  BOOST_TEST(!other.swapped);
  BOOST_TEST((other.current == view_of(1, 1)));
  // Said twice, as after an answer that was lost.
  BOOST_TEST(client.swap("g", view_of(1, 1)).value().swapped);
  BOOST_TEST(!client.swap("g", view_of(3, 1)).value().swapped);
  BOOST_TEST(client.swap("g", view_of(2, 1)).value().swapped);
  // Another client knows nothing yet, and one that knows what stood before is told.
  StoreClient second = client_of(servers.endpoints());
  BOOST_TEST(second.swap("g", view_of(3, 2)).value().swapped);
  BOOST_TEST(!client.swap("g", view_of(3, 1)).value().swapped);
  BOOST_TEST((client.read("g").value() == view_of(3, 2)));
  BOOST_TEST(client.swap("a", view_of(1, 1)).value().swapped);
  const auto groups = client.list().value();
  BOOST_TEST_REQUIRE(groups.size() == 2u);
  BOOST_TEST(groups[0].group == "a");
  BOOST_TEST(groups[1].group == "g");
  BOOST_TEST((groups[1].view == view_of(3, 2)));
}

BOOST_AUTO_TEST_CASE(a_server_that_dies_and_comes_back_is_found_again_by_requests_and_watches) {
  EtcdServers servers(1);
  StoreClient client = client_of(servers.endpoints());
  StoreClient watcher = client_of(servers.endpoints());
  BOOST_TEST_REQUIRE(client.wait_until_up());
  std::atomic<std::uint64_t> hints = 0;
  watcher.watch("g", [&] {
    ++hints;
    hints.notify_all();
  });
  const auto wait_for_more_than = [&](std::uint64_t before) {
    for (std::uint64_t now = hints; now <= before; now = hints) hints.wait(now);
  };
  wait_for_more_than(0);  // it has begun
  BOOST_TEST(client.swap("g", view_of(1, 1)).value().swapped);
  wait_for_more_than(1);
  servers.kill(0);
  const std::uint64_t before = hints;
  const auto refused = client.swap("g", view_of(2, 1));
  BOOST_TEST_REQUIRE(!refused.has_value());
  BOOST_TEST((refused.error().code == Errc::peer_failed));
  servers.start(0);
  BOOST_TEST_REQUIRE(client.wait_until_up());
  BOOST_TEST((client.read("g").value() == view_of(1, 1)));
  // The watch comes back by itself, and then says so.
  wait_for_more_than(before);
  BOOST_TEST(client.swap("g", view_of(2, 1)).value().swapped);
}

BOOST_AUTO_TEST_CASE(three_servers_killed_one_after_the_other_under_load_lose_and_split_nothing) {
  EtcdServers servers(3);
  StoreClient client = client_of(servers.endpoints());
  BOOST_TEST_REQUIRE(client.wait_until_up());
  History history;
  std::atomic<bool> done = false;
  std::atomic<std::uint64_t> won = 0, lost_patience = 0;
  std::vector<std::jthread> proposers;
  for (const std::uint64_t proposer : {1u, 2u})
    proposers.emplace_back([&, proposer] {
      StoreClient mine = client_of(servers.endpoints());
      while (!done)
        mine.advance("g", proposer, [&](const view::View& view) { history.add(view); }) ? ++won
                                                                                        : ++lost_patience;
    });
  const auto advance = [&] {
    return client.advance("g", 3, [&](const view::View& view) { history.add(view); }).has_value();
  };
  for (std::size_t victim = 0; victim < 3; ++victim) {
    servers.kill(victim);
    // Two of three go on; then the third takes part again.
    for (int i = 0; i < 3; ++i) BOOST_TEST_REQUIRE(advance());
    servers.start(victim);
    for (int i = 0; i < 3; ++i) BOOST_TEST_REQUIRE(advance());
    BOOST_TEST_REQUIRE(client_of({servers.endpoints()[victim]}).wait_until_up());
  }
  done = true;
  proposers.clear();
  BOOST_TEST(won > 0u);
  BOOST_TEST(lost_patience == 0u);
  BOOST_TEST(history.disagreements() == 0u);
  // Every epoch was seen: none was skipped, none was made twice.
  const auto last = client.read("g").value();
  BOOST_TEST(history.size() == value_of(last.epoch));
}

}  // namespace
}  // namespace rdmc::store::testing
