#include "apps/bcast-cli/file_source.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <atomic>
#include <boost/test/unit_test.hpp>

#include "tests/apps/bcast-cli/scratch_directory.hpp"
#include "tests/apps/bcast-cli/store_harness.hpp"

BOOST_AUTO_TEST_SUITE(file_source_test)

namespace fs = std::filesystem;
using namespace rdmc;
using namespace rdmc::bcast;

namespace {

bool mentions(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

SourceFile opened(const fs::path& path, std::uint32_t block_size) {
  auto file = SourceFile::open(path, block_size);
  BOOST_REQUIRE_MESSAGE(file.has_value(), (file ? "" : file.error().what));
  return std::move(*file);
}

/// A running source. The test can wait for the source's reader thread.
struct Running {
  Bell bell;
  std::vector<std::byte> ring;
  std::unique_ptr<FileSource> source;

  Running(SourceFile& file, BlockMap map, std::size_t slots, std::optional<std::uint64_t> rate = {})
      : ring(slots * file.shape().block_size) {
    auto started = FileSource::start(file, std::move(map), ring, {rate, [this] { bell.ring(); }, {}});
    BOOST_REQUIRE(started.has_value());
    source = std::move(*started);
  }

  /// Waits until block `index` can be sent. Returns the error if there is one.
  Result<void> wait_for(std::uint64_t index) {
    Result<std::uint64_t> available;
    bell.wait_until([&] {
      available = source->available();
      return !available || *available > index;
    });
    if (!available) return std::unexpected(available.error());
    return {};
  }
  /// Returns the bytes of all blocks of the message. Releases each slot when its block has been copied.
  Result<std::string> drain() {
    std::string content;
    for (std::uint64_t index = 0; index < source->blocks().count(); ++index) {
      if (auto there = wait_for(index); !there) return std::unexpected(there.error());
      const auto slot = source->memory().subspan(
          index % source->slots() * source->blocks().shape().block_size, source->blocks().bytes(index));
      content.append(reinterpret_cast<const char*>(slot.data()), slot.size());
      source->released(index + 1);
    }
    return content;
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(files_of_every_size_come_out_whole_through_small_rings) {
  const ScratchDirectory scratch;
  for (const std::size_t size : {0, 1, 4095, 4096, 4097, 40'960, 100'000}) {
    const auto path = scratch / fmt::format("{}", size);
    write_file(path, random_text(size, size));
    for (const std::size_t slots : {1, 3, 100}) {
      auto file = opened(path, 4096);
      BOOST_TEST(!file.digest().has_value());
      {
        Running running(file, BlockMap::full(file.shape().blocks()), slots);
        BOOST_TEST((running.drain().value() == file_content(path)));
        BOOST_TEST(to_hex(running.source->digest().value()) == xxh128sum(path));
      }
      BOOST_TEST(to_hex(file.digest().value()) == xxh128sum(path));
    }
  }
}

BOOST_AUTO_TEST_CASE(the_reader_never_runs_further_ahead_than_the_ring_is_long) {
  const ScratchDirectory scratch;
  write_file(scratch / "f", random_text(20 * 4096, 1));
  auto file = opened(scratch / "f", 4096);
  Running running(file, BlockMap::full(20), 4);
  BOOST_REQUIRE(running.wait_for(3).has_value());
  const std::string first(reinterpret_cast<const char*>(running.source->memory().data()), 4096);
  BOOST_TEST((first == file_content(scratch / "f").substr(0, 4096)));
  BOOST_TEST(running.source->available().value() == 4u);
  running.source->released(1);
  BOOST_REQUIRE(running.wait_for(4).has_value());
  BOOST_TEST(running.source->available().value() == 5u);
}

BOOST_AUTO_TEST_CASE(a_successor_epoch_reads_only_what_is_lacking_and_still_knows_the_digest_of_the_whole) {
  const ScratchDirectory scratch;
  const auto content = random_text(20 * 4096 - 100, 2);
  write_file(scratch / "f", content);
  auto file = opened(scratch / "f", 4096);
  {  // the first epoch ends after its seventh block
    Running first(file, BlockMap::full(20), 7);
    BOOST_REQUIRE(first.wait_for(6).has_value());
    BOOST_TEST(!first.source->digest().has_value());
  }
  BlockMap lacking(20);
  lacking.insert({2, 4});
  lacking.insert({10, 12});
  lacking.insert({19, 20});
  Running second(file, lacking, 2);
  BOOST_TEST((second.drain().value() == content.substr(2 * 4096, 2 * 4096) +
                                            content.substr(10 * 4096, 2 * 4096) + content.substr(19 * 4096)));
  BOOST_TEST(to_hex(second.source->digest().value()) == xxh128sum(scratch / "f"));
}

BOOST_AUTO_TEST_CASE(a_file_that_is_truncated_while_it_is_read_is_named) {
  const ScratchDirectory scratch;
  write_file(scratch / "f", random_text(20 * 4096, 3));
  auto file = opened(scratch / "f", 4096);
  Running running(file, BlockMap::full(20), 4);
  BOOST_REQUIRE(running.wait_for(3).has_value());
  fs::resize_file(scratch / "f", 5 * 4096);
  const auto content = running.drain();
  BOOST_REQUIRE(!content.has_value());
  BOOST_TEST((content.error().code == Errc::io_error));
  BOOST_TEST(mentions(content.error().what, (scratch / "f").string() + " was truncated"));
  BOOST_TEST(!running.source->available().has_value(), "the error stays");
}

BOOST_AUTO_TEST_CASE(a_file_that_grows_or_is_written_to_is_named_before_anybody_has_it_whole) {
  const ScratchDirectory scratch;
  for (const bool grows : {true, false}) {
    const auto path = scratch / fmt::format("f{}", grows);
    write_file(path, random_text(20 * 4096, 4));
    auto file = opened(path, 4096);
    Running running(file, BlockMap::full(20), 4);
    BOOST_REQUIRE(running.wait_for(3).has_value());
    if (grows)
      fs::resize_file(path, 21 * 4096);
    else
      fs::last_write_time(path, fs::file_time_type::clock::now() + std::chrono::seconds(1));
    const auto content = running.drain();
    BOOST_REQUIRE(!content.has_value());
    BOOST_TEST(mentions(content.error().what, grows ? "changed its size" : "was written to"));
    BOOST_TEST(!running.source->digest().has_value());
  }
}

BOOST_AUTO_TEST_CASE(what_is_not_a_readable_regular_file_is_named) {
  const ScratchDirectory scratch;
  BOOST_REQUIRE(::mkfifo((scratch / "fifo").c_str(), 0600) == 0);
  fs::create_symlink("nowhere", scratch / "dangling");
  const auto complaint = [&](const fs::path& path) {
    const auto file = SourceFile::open(path, 4096);
    BOOST_REQUIRE(!file.has_value());
    BOOST_TEST(mentions(file.error().what, path.string()));
    return file.error().what;
  };
  BOOST_TEST(mentions(complaint(scratch / "none"), "No such file"));
  BOOST_TEST(mentions(complaint(scratch / "dangling"), "No such file"));
  BOOST_TEST(mentions(complaint(scratch.path()), "is a directory"));
  BOOST_TEST(mentions(complaint(scratch / "fifo"), "is a fifo"));
  BOOST_TEST(mentions(complaint("/dev/null"), "is a device"));
}

BOOST_AUTO_TEST_CASE(a_limited_source_takes_its_time) {
  const ScratchDirectory scratch;
  write_file(scratch / "f", random_text(10 * 4096, 5));
  auto file = opened(scratch / "f", 4096);
  const auto start = std::chrono::steady_clock::now();
  Running running(file, BlockMap::full(10), 10, 40'960 * 8 * 5);  // the whole file takes a fifth of a second
  BOOST_REQUIRE(running.drain().has_value());
  BOOST_TEST((std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(200)));
}

BOOST_AUTO_TEST_CASE(the_last_block_waits_until_the_digest_has_been_announced) {
  const ScratchDirectory scratch;
  write_file(scratch / "source", random_text(5 * 4096, 4));
  auto file = opened(scratch / "source", 4096);
  std::vector<std::byte> ring(8 * 4096);
  Bell bell;
  std::atomic<bool> told = false;
  Digest digest{};
  const auto source = FileSource::start(file, BlockMap::full(5), ring,
                                        {.limit_rate = {},
                                         .wake = [&] { bell.ring(); },
                                         .announce =
                                             [&](const Digest& announced) {
                                               digest = announced;
                                               told = true;
                                               bell.ring();
                                             }})
                          .value();
  bell.wait_until([&] { return told.load(); });
  BOOST_TEST(to_hex(digest) == xxh128sum(scratch / "source"));
  BOOST_TEST(source->available().value() == 4u);
  source->announced();
  bell.wait_until([&] { return source->available().value() == 5; });
}

BOOST_AUTO_TEST_CASE(a_store_that_ends_does_not_wait_for_the_announcement) {
  const ScratchDirectory scratch;
  write_file(scratch / "source", random_text(4096, 5));
  auto file = opened(scratch / "source", 4096);
  std::vector<std::byte> ring(4096);
  (void)FileSource::start(file, BlockMap::full(1), ring,
                          {.limit_rate = {}, .wake = {}, .announce = [](const Digest&) {}});
}

BOOST_AUTO_TEST_CASE(a_store_that_ends_does_not_wait_for_its_rate) {
  const ScratchDirectory scratch;
  write_file(scratch / "f", random_text(4096, 6));
  auto file = opened(scratch / "f", 4096);
  const Running running(file, BlockMap::full(1), 1, 1);  // at 1 bit/s the block would take nine hours
  BOOST_TEST(running.source->available().value() == 0u);
}

BOOST_AUTO_TEST_CASE(a_ring_is_as_long_as_the_file_or_the_window_and_never_too_short_for_the_pipeline) {
  const auto far = Address::ipv4(10, 0, 0, 1, 0);
  const auto near = Address::ipv4(127, 0, 1, 1, 0);
  constexpr std::uint64_t kLarge = std::uint64_t{1} << 40;
  BOOST_TEST(ring_bytes({0, 4096}, far) == 4096u);
  BOOST_TEST(ring_bytes({10'000, 4096}, far) == 3u * 4096);
  BOOST_TEST(ring_bytes({kLarge, 1 << 20}, far) == 32u << 20);
  BOOST_TEST(ring_bytes({kLarge, 256 << 10}, near) == 8u << 20);
  BOOST_TEST(ring_bytes({kLarge, 2 << 20}, near) == 32u << 20);
}

BOOST_AUTO_TEST_SUITE_END()
