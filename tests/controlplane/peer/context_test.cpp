#include "controlplane/peer/context.hpp"

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <future>
#include <thread>

#include "controlplane/auth/cluster_key.hpp"

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

BOOST_AUTO_TEST_CASE(a_key_file_that_is_named_in_another_way_is_the_same_identity) {
  const auto folder = std::filesystem::temp_directory_path() / ("rdmc-context-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  const auto file = folder / "key", link = folder / "link", other = folder / "other";
  for (const auto& path : {file, other})
    BOOST_TEST_REQUIRE(control::ClusterKey::generate()->write(path).has_value());
  std::filesystem::create_symlink("key", link);
  Context context;
  const auto peers_of = [&](const std::filesystem::path& path) {
    return context.peers({.key_file = path, .certificates = {}, .insecure = false}).value();
  };
  const auto peers = peers_of(file);
  for (const auto& path : {folder / "." / "key", folder / ".." / folder.filename() / "key", link})
    BOOST_TEST(peers_of(path) == peers);
  BOOST_TEST(peers_of(other) != peers);
  BOOST_TEST(context.peers(kInsecure).value() != peers);
  std::filesystem::remove_all(folder);
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
