// Lets memory run out in a node, and in the thread that writes its journal. The node must fail with an error,
// and the process must continue. All changes that were reported as done must be on the disk.
#include <stdlib.h>

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <future>

#include "controlplane/store/caspaxos/view_register.hpp"
#include "controlplane/store/embedded_store.hpp"
#include "controlplane/store/journal_writer.hpp"
#include "controlplane/store/store_node.hpp"
#include "tests/controlplane/store/store_client.hpp"
#include "tests/failing_memory.hpp"

using namespace rdmc;
using namespace rdmc::store;
using namespace rdmc::store::testing;
using namespace rdmc::testing;

namespace {

struct Directory {
  Directory() {
    std::string name = (std::filesystem::temp_directory_path() / "rdmc-node-XXXXXX").string();
    BOOST_TEST_REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Directory() { std::filesystem::remove_all(path); }
  /// Returns the view that a node would find in the directory when it starts.
  view::View view_of_group() const {
    const Durable kept = JournalFile::open(path).value().recovered();
    const auto found = kept.registers.find("g");
    return found == kept.registers.end() ? view::View{} : view_in(found->second).value();
  }
  std::filesystem::path path;
};

/// A store with one node, and a client on another thread.
struct OneNode {
  explicit OneNode(const Directory& directory)
      : node(StoreNode::start(*loop, {.directory = directory.path,
                                      .nodes = {},
                                      .listen = Address::ipv4(127, 0, 0, 1, 0),
                                      .channel = {.channel = channel},
                                      .ended = [this](const Error&) { ++ended; }})
                 .value()),
        client([this](control::ControlLoop& own) -> std::unique_ptr<view::ViewStore> {
          return EmbeddedStore::create(
                     own,
                     {.nodes = {node->address()}, .channel = channel, .answer_within = milliseconds(100)})
              .value();
        }) {}

  const control::ChannelOptions channel{.security = control::Insecure{}};
  std::unique_ptr<control::ControlLoop> loop = control::ControlLoop::create().value();
  int ended = 0;  ///< Must be used on the loop's thread.
  std::unique_ptr<StoreNode> node;
  StoreClient client;
};

}  // namespace

BOOST_DATA_TEST_CASE(
    whichever_allocation_of_a_node_fails_what_it_said_is_on_its_disk_or_it_has_failed_by_name,
    boost::unit_test::data::make({1L, kAllOfThem}), failing) {
  std::size_t failures = 0;
  long failed = 1;
  for (long count = 0; failed > 0; ++count) BOOST_TEST_CONTEXT("allocation " << count) {
      const Directory directory;
      view::View stands = view_of(1, 1);
      {
        OneNode one(directory);
        BOOST_TEST_REQUIRE(one.client.wait_until_up());
        BOOST_TEST_REQUIRE(one.client.swaps("g", stands));
        one.loop->call([&] { fail_allocations(count, failing); });
        const auto swapped = one.client.swap("g", view_of(2, 1));
        // The swap is sent again, because the node may have dropped the first request when memory ran out.
        const auto again = one.client.swap("g", view_of(2, 1));
        failed = one.loop->call([] { return end_failures(); });
        for (const auto& answer : {swapped, again})
          if (answer && answer->swapped) stands = answer->current;
        const NodeStatus status = one.loop->call([&] { return one.node->status(); });
        const int ended = one.loop->call([&] { return one.ended; });
        const bool has_failed = status.stage == Stage::failed;
        BOOST_TEST(ended == (has_failed ? 1 : 0));
        BOOST_TEST(status.ending.has_value() == has_failed);
        if (has_failed) {
          ++failures;
          BOOST_TEST((status.ending->code == Errc::resource_limit));
          BOOST_TEST(status.text.contains("no memory"));
        } else {
          BOOST_TEST(one.client.wait_until_up());
        }
      }
      BOOST_TEST((directory.view_of_group().epoch >= stands.epoch));
    }
  BOOST_TEST(failures > 0U);
}

BOOST_AUTO_TEST_CASE(a_write_without_memory_is_an_error_by_name) {
  const Directory directory;
  const auto writer = JournalWriter::start(JournalFile::open(directory.path).value()).value();
  Acceptor acceptor(Durable{.id = {1, 1}});
  std::promise<bool> first;
  writer->write(*acceptor.take_write(), [&](const Result<void>& written) {
    // This runs on the writer's thread, so an allocation of this thread fails.
    fail_allocations(0, 1);
    first.set_value(written.has_value());
  });
  BOOST_TEST(first.get_future().get());
  acceptor.vote({.epoch = 1, .acceptors = {{1, 1}}, .from_epoch = 0, .from = {}});
  std::promise<Errc> second;
  writer->write(*acceptor.take_write(), [&](const Result<void>& written) {
    end_failures();
    second.set_value(written ? Errc{} : written.error().code);
  });
  BOOST_TEST((second.get_future().get() == Errc::resource_limit));
}

BOOST_AUTO_TEST_CASE(the_end_of_a_write_is_told_again_if_there_was_no_memory_to_hear_it) {
  const Directory directory;
  const auto writer = JournalWriter::start(JournalFile::open(directory.path).value()).value();
  Acceptor acceptor(Durable{.id = {1, 1}});
  std::promise<bool> heard;
  writer->write(*acceptor.take_write(), [&, told = 0](const Result<void>& written) mutable {
    if (++told < 3) throw std::bad_alloc();
    heard.set_value(written.has_value());
  });
  BOOST_TEST(heard.get_future().get());
}
