#include "apps/bcast-cli/file_sink.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <rapidcheck.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <boost/test/unit_test.hpp>
#include <csignal>
#include <future>
#include <set>
#include <stop_token>

#include "apps/bcast-cli/file_source.hpp"
#include "tests/apps/bcast-cli/scratch_directory.hpp"
#include "tests/apps/bcast-cli/store_harness.hpp"
#include "tests/skipped_cases.hpp"

BOOST_AUTO_TEST_SUITE(file_sink_test)

namespace fs = std::filesystem;
using namespace rdmc;
using namespace rdmc::bcast;

namespace {

constexpr std::uint32_t kBlock = 4096;

Result<ReceivedFile> receive(const fs::path& directory, const std::string& name, FileShape shape,
                             std::optional<std::uint64_t> allocated = {}) {
  const auto root = ReceiveDirectory::open(directory);
  if (!root) return std::unexpected(root.error());
  auto placement = resolve_destination(*root, {name, "unused", false});
  if (!placement) return std::unexpected(placement.error());
  auto file = PartialFile::claim(std::move(*placement), false, 0600);
  if (!file) return std::unexpected(file.error());
  return ReceivedFile::create(std::move(*file), shape, allocated.value_or(shape.size));
}

ReceivedFile received(const fs::path& directory, const std::string& name, FileShape shape) {
  auto file = receive(directory, name, shape);
  BOOST_REQUIRE_MESSAGE(file.has_value(), (file ? "" : file.error().what));
  return std::move(*file);
}

/// One epoch at a receiver. The test takes the part of the network: it writes blocks of `content` into the
/// ring buffer.
struct Epoch {
  Bell bell;
  std::vector<std::byte> ring;
  std::unique_ptr<FileSink> sink;
  std::set<std::uint64_t> consumed;
  std::uint64_t limit = 0;  ///< all blocks below it are consumed

  Epoch(ReceivedFile& file, BlockMap map, std::size_t slots) : ring(slots * file.shape().block_size) {
    auto started = FileSink::start(file, std::move(map), ring, [this] { bell.ring(); });
    BOOST_REQUIRE_MESSAGE(started.has_value(), (started ? "" : started.error().what));
    sink = std::move(*started);
  }

  std::uint64_t window_end() const { return std::min(sink->blocks().count(), limit + sink->slots()); }

  void deliver(std::uint64_t index, std::string_view content) {
    const auto bytes = sink->blocks().bytes(index);
    const auto block_size = sink->blocks().shape().block_size;
    const auto from = content.substr(sink->blocks().shape().offset(sink->blocks().real(index)), bytes);
    std::memcpy(sink->memory().data() + index % sink->slots() * block_size, from.data(), bytes);
    sink->arrived(index, bytes);
  }
  Result<void> poll() {
    std::vector<std::uint64_t> blocks;
    auto polled = sink->poll_consumed(blocks);
    for (const auto block : blocks) BOOST_REQUIRE_MESSAGE(consumed.insert(block).second, "consumed twice");
    while (consumed.contains(limit)) ++limit;
    return polled;
  }
  /// Waits until block `index` and all blocks before it are consumed. Returns the error if there is one.
  Result<void> wait_for(std::uint64_t index) {
    Result<void> polled;
    bell.wait_until([&] {
      polled = poll();
      return !polled || limit > index;
    });
    return polled;
  }
  /// Delivers all blocks of the message in a random order within the window. The order comes from `random`.
  Result<void> deliver_all(std::string_view content, Random& random) {
    std::set<std::uint64_t> waiting;
    for (std::uint64_t next = 0; limit < sink->blocks().count();) {
      while (next < window_end()) waiting.insert(next++);
      if (waiting.empty()) {
        if (auto done = wait_for(limit); !done) return done;
        continue;
      }
      const auto picked =
          std::next(waiting.begin(), static_cast<std::ptrdiff_t>(random.below(waiting.size())));
      deliver(*picked, content);
      waiting.erase(picked);
      if (auto done = poll(); !done) return done;
    }
    return {};
  }
};

std::string content_digest(const fs::path& scratch, std::string_view content) {
  write_file(scratch / "oracle", content);
  return xxh128sum(scratch / "oracle");
}

std::uint64_t allocated(const fs::path& path) {
  struct stat status {};
  BOOST_REQUIRE(::stat(path.c_str(), &status) == 0);
  return static_cast<std::uint64_t>(status.st_blocks) * 512;
}

bool mentions(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_not_wanted_any_more_is_not_written) {
  const ScratchDirectory scratch;
  const auto content = random_text(8 * kBlock, 1);
  auto file = received(scratch.path(), "copy", {content.size(), kBlock});
  std::vector<std::byte> ring(content.size());
  std::memcpy(ring.data(), content.data(), content.size());
  // The wake-up function blocks the writer's thread after the writer has written the first block.
  std::promise<void> written, go_on;
  std::stop_source unwanted;
  auto sink = FileSink::start(
      file, BlockMap::full(8), ring,
      [&] {
        written.set_value();
        go_on.get_future().wait();
      },
      unwanted.get_token());
  BOOST_REQUIRE(sink.has_value());
  (*sink)->arrived(0, kBlock);
  written.get_future().wait();
  for (std::uint64_t block = 1; block < 8; ++block) (*sink)->arrived(block, kBlock);
  unwanted.request_stop();
  go_on.set_value();
  sink->reset();
  BOOST_TEST(file.held().count() == 1u);
}

BOOST_AUTO_TEST_CASE(blocks_in_any_order_within_the_window_become_the_file) {
  const ScratchDirectory scratch;
  BOOST_TEST(rc::check([&] {
    const auto size = *rc::gen::inRange<std::size_t>(0, 30 * kBlock);
    const auto slots = *rc::gen::inRange<std::size_t>(1, 12);
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    const auto content = random_text(size, seed);
    Random random(seed);
    const FileShape shape{size, kBlock};
    auto file = received(scratch.path(), "copy", shape);
    {
      Epoch epoch(file, BlockMap::full(shape.blocks()), slots);
      RC_ASSERT(epoch.deliver_all(content, random).has_value());
      RC_ASSERT(epoch.sink->bytes_held() == size);
    }
    RC_ASSERT(file.held().is_full());
    const auto digest = file.digest();
    RC_ASSERT(digest.has_value());
    RC_ASSERT(file.commit().has_value());
    RC_ASSERT(file_content(scratch / "copy") == content);
    RC_ASSERT(to_hex(*digest) == xxh128sum(scratch / "copy"));
    fs::remove(scratch / "copy");
  }));
}

BOOST_AUTO_TEST_CASE(what_is_omitted_is_the_matter_of_the_next_epoch_and_the_digest_is_right) {
  const ScratchDirectory scratch;
  BOOST_TEST(rc::check([&] {
    const auto size = *rc::gen::inRange<std::size_t>(1, 40 * kBlock);
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    const auto slots = *rc::gen::inRange<std::size_t>(1, 12);
    const auto content = random_text(size, seed);
    Random random(seed);
    const FileShape shape{size, kBlock};
    auto file = received(scratch.path(), "copy", shape);
    std::uint64_t omitted = 0;
    while (!file.held().is_full()) {
      // The epoch sends all blocks that this receiver lacks, and one random block. If this receiver already
      // holds the random block, only another member can lack it.
      auto map = file.held().complement();
      map.insert(random.below(shape.blocks()));
      Epoch epoch(file, map, slots);
      std::set<std::uint64_t> waiting;
      for (std::uint64_t next = 0; epoch.limit < epoch.sink->blocks().count();) {
        while (next < epoch.window_end()) waiting.insert(next++);
        if (waiting.empty()) {
          RC_ASSERT(epoch.wait_for(epoch.limit).has_value());
          continue;
        }
        const auto picked =
            std::next(waiting.begin(), static_cast<std::ptrdiff_t>(random.below(waiting.size())));
        const auto index = *picked;
        waiting.erase(picked);
        if (random.below(3) == 0) {
          std::memset(epoch.ring.data() + index % epoch.sink->slots() * kBlock, 0xEE, kBlock);
          epoch.sink->omitted(index);
          ++omitted;
        } else {
          epoch.deliver(index, content);
        }
        RC_ASSERT(epoch.poll().has_value());
      }
    }
    const auto digest = file.whole_digest();
    RC_ASSERT(digest.has_value() && digest->has_value());
    RC_ASSERT(file.commit().has_value());
    RC_ASSERT(to_hex(**digest) == xxh128sum(scratch / "copy"));
    RC_ASSERT(file_content(scratch / "copy") == content);
    fs::remove(scratch / "copy");
    RC_CLASSIFY(omitted > 0);
  }));
}

/// The other blocks arrive while the writer is blocked after its first block. The writer then writes at most
/// an eighth of the ring.
BOOST_AUTO_TEST_CASE(a_stragglers_disk_takes_what_it_can_and_consumes_the_rest) {
  const ScratchDirectory scratch;
  const auto content = random_text(65 * kBlock, 1);
  auto file = received(scratch.path(), "copy", {content.size(), kBlock});
  std::vector<std::byte> ring(content.size());
  std::memcpy(ring.data(), content.data(), content.size());
  std::promise<void> written, go_on;
  std::atomic<bool> is_first = true;
  Bell bell;
  auto sink = FileSink::start(
      file, BlockMap::full(65), ring,
      [&] {
        if (is_first.exchange(false)) {
          written.set_value();
          go_on.get_future().wait();
        }
        bell.ring();
      },
      {}, true);
  BOOST_REQUIRE(sink.has_value());
  (*sink)->arrived(0, kBlock);
  written.get_future().wait();
  for (std::uint64_t block = 1; block < 65; ++block) (*sink)->arrived(block, kBlock);
  go_on.set_value();
  std::vector<std::uint64_t> consumed;
  bell.wait_until([&] { return (*sink)->poll_consumed(consumed).has_value() && consumed.size() == 65; });
  sink->reset();
  BOOST_TEST(file.held().count() == 9u);
}

BOOST_AUTO_TEST_CASE(epochs_that_end_early_are_continued_by_successors_that_send_only_the_rest) {
  const ScratchDirectory scratch;
  BOOST_TEST(rc::check([&] {
    const auto size = *rc::gen::inRange<std::size_t>(1, 40 * kBlock);
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    const auto content = random_text(size, seed);
    Random random(seed);
    const FileShape shape{size, kBlock};
    auto file = received(scratch.path(), "copy", shape);
    for (int round = 0; round < 3; ++round) {
      // The epoch sends all blocks that this receiver lacks, and some that only other members lack.
      auto map = file.held().complement();
      for (int i = 0; i < 5; ++i) map.insert(random.below(shape.blocks()));
      Epoch epoch(file, map, 1 + random.below(8));
      // Delivers a random part of the blocks. Then the epoch ends.
      for (auto steps = random.below(6); steps > 0; --steps) {
        std::vector<std::uint64_t> order;
        for (auto index = epoch.limit; index < epoch.window_end(); ++index) order.push_back(index);
        for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
        const bool last = steps == 1;
        if (last) order.resize(random.below(order.size() + 1));
        for (const auto index : order) epoch.deliver(index, content);
        if (last) break;
        RC_ASSERT(epoch.wait_for(epoch.window_end() - 1).has_value());
        if (epoch.limit == epoch.sink->blocks().count()) break;
      }
    }
    auto map = file.held().complement();
    map.insert(random.below(shape.blocks()));
    {
      Epoch epoch(file, map, 1 + random.below(8));
      RC_ASSERT(epoch.deliver_all(content, random).has_value());
    }
    RC_ASSERT(to_hex(file.digest().value()) == content_digest(scratch.path(), content));
    RC_ASSERT(file.commit().has_value());
    RC_ASSERT(file_content(scratch / "copy") == content);
    fs::remove(scratch / "copy");
  }));
}

BOOST_AUTO_TEST_CASE(what_arrived_before_an_epoch_ended_is_held_and_what_did_not_is_not) {
  const ScratchDirectory scratch;
  const auto content = random_text(10 * kBlock, 1);
  auto file = received(scratch.path(), "copy", {content.size(), kBlock});
  {
    Epoch epoch(file, BlockMap::full(10), 8);
    for (const std::uint64_t block : {0, 1, 4, 7}) epoch.deliver(block, content);
  }
  BlockMap expected(10);
  for (const std::uint64_t block : {0, 1, 4, 7}) expected.insert(block);
  BOOST_TEST((file.held() == expected));
  BOOST_TEST(!file.digest().has_value());
}

BOOST_AUTO_TEST_CASE(a_block_is_not_consumed_before_those_in_front_of_it) {
  const ScratchDirectory scratch;
  const auto content = random_text(3 * kBlock, 2);
  auto file = received(scratch.path(), "copy", {content.size(), kBlock});
  Epoch epoch(file, BlockMap::full(3), 3);
  epoch.deliver(2, content);
  epoch.deliver(0, content);
  BOOST_REQUIRE(epoch.wait_for(0).has_value());
  BOOST_TEST(epoch.consumed.size() == 1u);
  epoch.deliver(1, content);
  BOOST_REQUIRE(epoch.wait_for(2).has_value());
}

BOOST_AUTO_TEST_CASE(an_epoch_without_blocks_is_refused) {
  const ScratchDirectory scratch;
  auto file = received(scratch.path(), "copy", {10 * kBlock, kBlock});
  std::vector<std::byte> ring(kBlock);
  const auto sink = FileSink::start(file, BlockMap(10), ring, [] {});
  BOOST_REQUIRE(!sink.has_value());
  BOOST_TEST((sink.error().code == Errc::protocol_error));
}

BOOST_AUTO_TEST_CASE(epochs_that_each_send_a_part_make_a_whole_in_any_order) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const ScratchDirectory scratch;
    Random random(seed);
    const auto content = random_text(random.between(19 * kBlock + 1, 20 * kBlock), seed);
    auto file = received(scratch.path(), "copy", {content.size(), kBlock});
    BlockMap lacking = BlockMap::full(20);
    while (lacking.count() > 0) {
      BlockMap part(20);
      for (std::uint64_t block = 0; block < 20; ++block)
        if (lacking.contains(block) && random.below(2) == 0) part.insert(block);
      if (part.count() == 0) continue;
      BOOST_TEST(!file.digest().has_value());
      Epoch epoch(file, part, 3);
      BOOST_REQUIRE(epoch.deliver_all(content, random).has_value());
      lacking = lacking & part.complement();
    }
    BOOST_TEST(to_hex(file.whole_digest().value().value()) == content_digest(scratch.path(), content));
    BOOST_TEST(file.held().is_full());
  }
}

BOOST_AUTO_TEST_CASE(holes_stay_holes_and_hash_as_zeros) {
  const ScratchDirectory scratch;
  constexpr std::uint32_t kLarge = 1 << 20;
  std::string content(16 * kLarge + 5000, '\0');
  content.replace(3 * kLarge + 100'000, 6, "inside");
  content.replace(8 * kLarge, kLarge, random_text(kLarge, 3));
  const FileShape shape{content.size(), kLarge};
  auto file = received(scratch.path(), "copy", shape);
  Random random(4);
  {
    Epoch epoch(file, BlockMap::full(shape.blocks()), 4);
    BOOST_REQUIRE(epoch.deliver_all(content, random).has_value());
  }
  BOOST_TEST(to_hex(file.digest().value()) == content_digest(scratch.path(), content));
  BOOST_REQUIRE(file.commit().has_value());
  BOOST_TEST((file_content(scratch / "copy") == content));
  BOOST_TEST(allocated(scratch / "copy") < 2 * kLarge);
}

BOOST_AUTO_TEST_CASE(a_size_past_every_limit_is_refused_and_leaves_nothing) {
  const ScratchDirectory scratch;
  ::signal(SIGXFSZ, SIG_IGN);
  const auto file = receive(scratch.path(), "copy", {std::uint64_t{1} << 62, kBlock}, 0);
  BOOST_REQUIRE(!file.has_value());
  BOOST_TEST(mentions(file.error().what, (scratch / "copy").string()));
  BOOST_TEST(entries(scratch.path()) == 0u);
}

BOOST_AUTO_TEST_CASE(a_disk_that_is_clearly_too_small_is_named_before_a_byte_is_sent) {
  const ScratchDirectory scratch;
  const auto file = receive(scratch.path(), "copy", {std::uint64_t{1} << 60, kBlock});
  BOOST_REQUIRE(!file.has_value());
  BOOST_TEST((file.error().code == Errc::no_space));
  BOOST_TEST(mentions(file.error().what, "no space for " + (scratch / "copy").string()));
  BOOST_TEST(entries(scratch.path()) == 0u);
}

BOOST_AUTO_TEST_CASE(a_disk_that_fills_up_meanwhile_is_named_and_the_sink_still_ends) {
  const ScratchDirectory scratch;
  if (::mount("tmpfs", scratch.path().c_str(), "tmpfs", 0, "size=64k") != 0) {
    rdmc::testing::SkippedCases::reason() =
        "a small file system, which fills up, can be mounted by root only";
    return;
  }
  {
    const auto content = random_text(40 * kBlock, 5);
    auto file = receive(scratch.path(), "copy", {content.size(), kBlock}, 0);
    BOOST_REQUIRE(file.has_value());
    Epoch epoch(*file, BlockMap::full(40), 4);
    Random random(6);
    const auto done = epoch.deliver_all(content, random);
    BOOST_REQUIRE(!done.has_value());
    BOOST_TEST((done.error().code == Errc::no_space));
    BOOST_TEST(mentions(done.error().what, (scratch / "copy").string()));
    BOOST_TEST(!epoch.poll().has_value(), "the error stays");
  }
  BOOST_TEST(entries(scratch.path()) == 0u);
  BOOST_TEST(::umount(scratch.path().c_str()) == 0);
}

BOOST_AUTO_TEST_CASE(a_directory_that_cannot_be_written_is_named) {
  const ScratchDirectory scratch;
  fs::permissions(scratch.path(), fs::perms::owner_read | fs::perms::owner_exec);
  // The user root may write to every directory. In /proc a failure shows only when a file is made.
  const auto directory = ::geteuid() == 0 ? fs::path("/proc") : scratch.path();
  const auto file = receive(directory, "copy", {1, kBlock});
  fs::permissions(scratch.path(), fs::perms::owner_all);
  BOOST_REQUIRE(!file.has_value());
  BOOST_TEST(mentions(file.error().what, directory.string()));
}

BOOST_AUTO_TEST_CASE(a_gigabyte_flows_from_source_to_sink_in_constant_memory) {
  const ScratchDirectory scratch;
  constexpr std::uint32_t kLarge = 1 << 20;
  { write_file(scratch / "source", "begin"); }
  fs::resize_file(scratch / "source", (std::uint64_t{1} << 30) + 3);
  auto source_file = SourceFile::open(scratch / "source", kLarge);
  BOOST_REQUIRE(source_file.has_value());
  BOOST_TEST(source_file->allocated_bytes() < kLarge);
  const auto shape = source_file->shape();
  auto file = receive(scratch.path(), "copy", shape, source_file->allocated_bytes());
  BOOST_REQUIRE(file.has_value());

  Bell bell;
  std::vector<std::byte> source_ring(ring_bytes(shape, Address::ipv4(10, 0, 0, 1, 0)));
  std::vector<std::byte> sink_ring(ring_bytes(shape, Address::ipv4(10, 0, 0, 1, 0)));
  auto source = FileSource::start(*source_file, BlockMap::full(shape.blocks()), source_ring,
                                  {{}, [&] { bell.ring(); }});
  auto sink = FileSink::start(*file, BlockMap::full(shape.blocks()), sink_ring, [&] { bell.ring(); });
  BOOST_REQUIRE((source.has_value() && sink.has_value()));
  rusage before{};
  ::getrusage(RUSAGE_SELF, &before);
  std::uint64_t sent = 0;
  std::uint64_t consumed = 0;
  std::vector<std::uint64_t> blocks;
  bell.wait_until([&] {
    const auto available = (*source)->available();
    BOOST_REQUIRE(available.has_value());
    blocks.clear();
    BOOST_REQUIRE((*sink)->poll_consumed(blocks).has_value());
    consumed += blocks.size();
    for (; sent < *available && sent < consumed + (*sink)->slots(); ++sent) {
      const auto bytes = shape.bytes(sent);
      std::memcpy((*sink)->memory().data() + sent % (*sink)->slots() * kLarge,
                  (*source)->memory().data() + sent % (*source)->slots() * kLarge, bytes);
      (*sink)->arrived(sent, bytes);
      (*source)->released(sent + 1);
    }
    return consumed == shape.blocks();
  });
  rusage after{};
  ::getrusage(RUSAGE_SELF, &after);
  BOOST_TEST(after.ru_maxrss - before.ru_maxrss < 16 * 1024,
             "grew by " << after.ru_maxrss - before.ru_maxrss << " KB");
  const auto digest = (*source)->digest();
  sink->reset();
  BOOST_REQUIRE(digest.has_value());
  BOOST_TEST(to_hex(*digest) == to_hex(file->digest().value()));
  BOOST_TEST(to_hex(*digest) == xxh128sum(scratch / "source"));
  BOOST_REQUIRE(file->commit().has_value());
  BOOST_TEST(allocated(scratch / "copy") < kLarge);
}

BOOST_AUTO_TEST_SUITE_END()
