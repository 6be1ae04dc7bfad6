// One node in this process: what it keeps over a restart, what it answers when it ends, and what it refuses.
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <future>

#include "controlplane/store/raft_node.hpp"
#include "tests/controlplane/store/store_client.hpp"

namespace rdmc::store::testing {
BOOST_AUTO_TEST_SUITE(raft_node_test)
namespace {

struct Directory {
  Directory() {
    std::string name = (std::filesystem::temp_directory_path() / "rdmc-raft-XXXXXX").string();
    BOOST_TEST_REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Directory() { std::filesystem::remove_all(path); }
  RaftOptions options() const {
    return {.directory = path / "node", .nodes = {Address::ipv4(127, 0, 0, 1, 9)}};
  }
  std::filesystem::path path;
};

template <typename T, typename Ask>
Result<T> answer(Ask ask) {
  std::promise<Result<T>> promise;
  ask([&](Result<T> result) { promise.set_value(std::move(result)); });
  return promise.get_future().get();
}

Result<view::SwapResult> swap(RaftNode& node, const view::View& next) {
  return answer<view::SwapResult>([&](auto done) { node.swap({"g", next}, std::move(done)); });
}
/// A node that has just started does not lead yet.
view::View read(RaftNode& node) {
  for (;;) {
    const auto view = answer<view::View>([&](auto done) { node.read("g", std::move(done)); });
    if (view) return *view;
  }
}

BOOST_FIXTURE_TEST_CASE(what_was_swapped_is_there_after_a_restart_in_order, Directory) {
  std::uint64_t changes = 0;
  {
    const auto node = RaftNode::start(options(), [&](const std::string&, Epoch) { ++changes; }).value();
    BOOST_TEST((read(*node) == view::View{}));
    for (std::uint64_t epoch = 1; epoch <= 3; ++epoch)
      BOOST_TEST(swap(*node, view_of(epoch, 1)).value().swapped);
    BOOST_TEST(!swap(*node, view_of(3, 2)).value().swapped);
    BOOST_TEST(changes == 3u);
  }
  const auto node = RaftNode::start(options(), nullptr).value();
  BOOST_TEST((read(*node) == view_of(3, 1)));
}

BOOST_FIXTURE_TEST_CASE(so_many_swaps_that_a_snapshot_was_taken_are_there_after_a_restart, Directory) {
  constexpr std::uint64_t kMoreThanASnapshotIsTakenAfter = 1500;
  {
    const auto node = RaftNode::start(options(), nullptr).value();
    read(*node);
    // Fifty at once: each alone would wait for the disk.
    for (std::uint64_t epoch = 1; epoch <= kMoreThanASnapshotIsTakenAfter; ++epoch) {
      if (epoch % 50 != 0)
        node->swap({"g", view_of(epoch, 1)}, [](const Result<view::SwapResult>&) {});
      else
        BOOST_TEST_REQUIRE(swap(*node, view_of(epoch, 1)).value().swapped);
    }
  }
  bool snapshot = false;
  for (const auto& file : std::filesystem::directory_iterator(path / "node"))
    snapshot = snapshot || file.path().filename().string().starts_with("snapshot");
  BOOST_TEST(snapshot);
  const auto node = RaftNode::start(options(), nullptr).value();
  BOOST_TEST((read(*node) == view_of(kMoreThanASnapshotIsTakenAfter, 1)));
}

BOOST_FIXTURE_TEST_CASE(what_is_asked_of_a_node_that_ends_is_answered, Directory) {
  std::vector<std::future<bool>> answers;
  {
    const auto node = RaftNode::start(options(), nullptr).value();
    read(*node);
    for (std::uint64_t epoch = 1; epoch <= 50; ++epoch) {
      const auto promise = std::make_shared<std::promise<bool>>();
      answers.push_back(promise->get_future());
      node->swap({"g", view_of(epoch, 1)}, [promise](const Result<view::SwapResult>& result) {
        promise->set_value(result.has_value() || result.error().code == Errc::cancelled);
      });
    }
  }
  for (auto& one : answers) BOOST_TEST(one.get());
}

BOOST_FIXTURE_TEST_CASE(what_cannot_be_a_store_is_refused_by_name, Directory) {
  RaftOptions two = options();
  two.nodes.push_back(two.nodes.front());
  BOOST_TEST((RaftNode::start(two, nullptr).error().code == Errc::invalid_argument));
  RaftOptions nowhere = options();
  nowhere.directory = "/proc/nowhere";
  BOOST_TEST((RaftNode::start(nowhere, nullptr).error().code == Errc::invalid_argument));
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::store::testing
