// Tests that every kind of store must pass with real servers. `client_of(addresses)` returns a StoreClient
// for these addresses.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "tests/controlplane/store/server_processes.hpp"
#include "tests/controlplane/store/store_client.hpp"

namespace rdmc::store::testing {

/// The views that all clients have received. Each epoch must have only one view.
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

/// Counts the notifications of a watch, on the loop's thread.
class Hints {
 public:
  void add() {
    const std::scoped_lock lock(mutex_);
    ++count_;
    changed_.notify_all();
  }
  std::uint64_t count() {
    const std::scoped_lock lock(mutex_);
    return count_;
  }
  /// Waits until there are more than `before` notifications. Returns false if kPatience has passed.
  bool more_than(std::uint64_t before) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return count_ > before; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t count_ = 0;
};

template <typename ClientOf>
void keeps_one_view_of_each_epoch_and_says_what_stands(ServerProcesses& servers, ClientOf client_of) {
  StoreClient client = client_of(servers.endpoints());
  BOOST_TEST_REQUIRE(client.wait_until_up());
  BOOST_TEST((client.read("g").value() == view::View{}));
  BOOST_TEST(client.swap("g", view_of(1, 1)).value().swapped);
  const auto other = client.swap("g", view_of(1, 2)).value();
  BOOST_TEST(!other.swapped);
  BOOST_TEST((other.current == view_of(1, 1)));
  // The same proposal is sent twice, as a client does after a lost answer.
  BOOST_TEST(client.swap("g", view_of(1, 1)).value().swapped);
  BOOST_TEST(!client.swap("g", view_of(3, 1)).value().swapped);
  BOOST_TEST(client.swap("g", view_of(2, 1)).value().swapped);
  // The second client knows no view, and its swap must succeed. After that, the swap of the first client must
  // fail, because this client knows only an older view. The client gets the current view.
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

template <typename ClientOf>
void is_found_again_after_its_death_by_requests_and_watches(ServerProcesses& servers, ClientOf client_of) {
  StoreClient client = client_of(servers.endpoints());
  StoreClient watcher = client_of(servers.endpoints());
  BOOST_TEST_REQUIRE(client.wait_until_up());
  const auto hints = std::make_shared<Hints>();
  watcher.watch("g", [hints](std::optional<Epoch>) { hints->add(); });
  BOOST_TEST_REQUIRE(hints->more_than(0));  // the watch has started
  BOOST_TEST(client.swap("g", view_of(1, 1)).value().swapped);
  BOOST_TEST_REQUIRE(hints->more_than(1));
  servers.kill(0);
  const std::uint64_t before = hints->count();
  const auto refused = client.swap("g", view_of(2, 1));
  BOOST_TEST_REQUIRE(!refused.has_value());
  BOOST_TEST((refused.error().code == Errc::peer_failed));
  servers.start(0);
  BOOST_TEST_REQUIRE(client.wait_until_up());
  BOOST_TEST((client.read("g").value() == view_of(1, 1)));
  // The watch must start again by itself, and then notify.
  BOOST_TEST_REQUIRE(hints->more_than(before));
  BOOST_TEST(client.swap("g", view_of(2, 1)).value().swapped);
}

template <typename ClientOf>
void three_killed_one_after_the_other_under_load_lose_and_split_nothing(ServerProcesses& servers,
                                                                        ClientOf client_of) {
  StoreClient client = client_of(servers.endpoints());
  BOOST_TEST_REQUIRE(client.wait_until_up());
  History history;
  std::atomic<bool> done = false;
  std::atomic<std::uint64_t> won = 0, lost_patience = 0;
  std::vector<std::jthread> proposers;
  for (const std::uint64_t proposer : {1u, 2u})
    proposers.emplace_back([&, proposer] {
      StoreClient mine = client_of(servers.endpoints());
      const auto seen = [&](const view::View& view) { history.add(view); };
      while (!done) mine.advance("g", proposer, seen) ? ++won : ++lost_patience;
    });
  const auto advance = [&] {
    return client.advance("g", 3, [&](const view::View& view) { history.add(view); }).has_value();
  };
  bool went_on = true;
  for (std::size_t victim = 0; victim < servers.size() && went_on; ++victim) {
    servers.kill(victim);
    // First, two of three servers continue. Then the third server takes part again.
    for (int i = 0; i < 3; ++i) went_on = went_on && advance();
    servers.start(victim);
    for (int i = 0; i < 3; ++i) went_on = went_on && advance();
  }
  done = true;
  proposers.clear();
  BOOST_TEST(went_on);
  BOOST_TEST(won > 0u);
  BOOST_TEST(lost_patience == 0u);
  BOOST_TEST(history.disagreements() == 0u);
  // Every epoch must have been seen exactly once. None was skipped.
  BOOST_TEST_REQUIRE(client.wait_until_up());
  BOOST_TEST(history.size() == value_of(client.read("g").value().epoch));
}

}  // namespace rdmc::store::testing
