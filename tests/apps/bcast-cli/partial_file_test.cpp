#include "apps/bcast-cli/partial_file.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <array>
#include <atomic>
#include <boost/test/unit_test.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "tests/apps/bcast-cli/scratch_directory.hpp"

BOOST_AUTO_TEST_SUITE(partial_file_test)

namespace fs = std::filesystem;
using namespace rdmc;
using namespace rdmc::bcast;

namespace {

struct Fixture {
  ScratchDirectory root;

  Result<PartialFile> claim(const std::string& name, bool overwrite = false, mode_t mode = 0644) const {
    const auto directory = ReceiveDirectory::open(root.path());
    auto placement = resolve_destination(*directory, {name, "src.bin", overwrite});
    if (!placement) return std::unexpected(placement.error());
    return PartialFile::claim(std::move(*placement), overwrite, mode);
  }
  PartialFile claimed(const std::string& name, bool overwrite = false, mode_t mode = 0644) const {
    auto file = claim(name, overwrite, mode);
    BOOST_REQUIRE_MESSAGE(file.has_value(), (file ? "" : file.error().what));
    return std::move(*file);
  }
};

mode_t mode_of(const fs::path& path) {
  struct stat status {};
  BOOST_REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

void put(const PartialFile& file, std::string_view text) {
  BOOST_REQUIRE(write_at(file.fd(), std::as_bytes(std::span(text)), 0, file.path()).has_value());
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(nothing_stands_under_the_final_name_until_the_commit, Fixture) {
  auto file = claimed("copy");
  put(file, "new");
  BOOST_TEST(fs::exists(root / ".copy.rdmc-partial"));
  BOOST_TEST(!fs::exists(root / "copy"));
  BOOST_REQUIRE(file.commit().has_value());
  BOOST_TEST(file_content(root / "copy") == "new");
  BOOST_TEST(entries(root.path()) == 1u);
}

BOOST_FIXTURE_TEST_CASE(a_file_that_is_not_committed_leaves_no_trace, Fixture) {
  { put(claimed("copy"), "half"); }
  BOOST_TEST(entries(root.path()) == 0u);
}

BOOST_FIXTURE_TEST_CASE(a_file_is_its_owners_alone_until_it_gets_its_permissions_with_its_name, Fixture) {
  for (const mode_t umask : {0, 022, 077}) {
    for (const mode_t mode : {0600, 0644, 0666, 0755, 0400, 0}) {
      const auto before = ::umask(umask);
      auto file = claimed("copy", true, mode);
      BOOST_TEST(mode_of(root / ".copy.rdmc-partial") == 0600u);
      put(file, "new");
      BOOST_TEST(mode_of(root / ".copy.rdmc-partial") == 0600u);
      BOOST_REQUIRE(file.commit().has_value());
      ::umask(before);
      BOOST_TEST(mode_of(root / "copy") == mode);
    }
  }
}

BOOST_FIXTURE_TEST_CASE(a_partial_file_that_a_dead_transfer_left_open_to_others_is_not_filled, Fixture) {
  write_file(root / ".copy.rdmc-partial", "left");
  fs::permissions(root / ".copy.rdmc-partial", fs::perms(0666));
  const Descriptor reader(::open((root / ".copy.rdmc-partial").c_str(), O_RDONLY | O_CLOEXEC));
  auto file = claimed("copy");
  put(file, "secret");
  BOOST_TEST(mode_of(root / ".copy.rdmc-partial") == 0600u);
  std::array<char, 16> seen{};
  // The reader has the old file open. It reads only the old content, and no byte of the new file.
  BOOST_TEST(::read(reader.get(), seen.data(), seen.size()) == 4);
}

BOOST_FIXTURE_TEST_CASE(the_second_of_two_transfers_to_one_name_is_refused_by_name, Fixture) {
  auto first = claimed("copy");
  put(first, "first");
  const auto second = claim("copy");
  BOOST_REQUIRE(!second.has_value());
  BOOST_TEST((second.error().code == Errc::already_exists));
  BOOST_TEST(second.error().what == (root / "copy").string() + " is in use by another transfer");
  BOOST_TEST(claim("other").has_value());
  BOOST_REQUIRE(first.commit().has_value());
  BOOST_TEST(file_content(root / "copy") == "first");
}

BOOST_FIXTURE_TEST_CASE(the_partial_file_of_a_dead_process_is_taken_over, Fixture) {
  int ready[2];
  BOOST_REQUIRE(::pipe(ready) == 0);
  const auto child = ::fork();
  if (child == 0) {  // claims the file, reports the result, and waits until it is killed
    auto file = claim("copy");
    const char answer = file ? 'y' : 'n';
    if (::write(ready[1], &answer, 1) == 1) ::pause();
    ::_exit(1);
  }
  char answer = 0;
  BOOST_REQUIRE(::read(ready[0], &answer, 1) == 1);
  BOOST_REQUIRE(answer == 'y');
  BOOST_TEST(!claim("copy").has_value());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
  BOOST_REQUIRE(fs::exists(root / ".copy.rdmc-partial"));
  auto again = claimed("copy");
  put(again, "second");
  BOOST_REQUIRE(again.commit().has_value());
  BOOST_TEST(file_content(root / "copy") == "second");
  BOOST_TEST(entries(root.path()) == 1u);
}

BOOST_FIXTURE_TEST_CASE(a_stale_partial_file_with_another_name_elsewhere_keeps_its_bytes_there, Fixture) {
  write_file(root / "precious", "bytes");
  fs::create_hard_link(root / "precious", root / ".copy.rdmc-partial");
  { put(claimed("copy"), "overwritten"); }
  BOOST_TEST(file_content(root / "precious") == "bytes");
  fs::create_symlink("precious", root / ".copy.rdmc-partial");
  BOOST_TEST(!claim("copy").has_value());
  BOOST_TEST(file_content(root / "precious") == "bytes");
}

BOOST_FIXTURE_TEST_CASE(a_file_that_appeared_meanwhile_is_not_replaced_unless_asked, Fixture) {
  {
    auto file = claimed("copy");
    put(file, "new");
    write_file(root / "copy", "somebody else's");
    const auto committed = file.commit();
    BOOST_REQUIRE(!committed.has_value());
    BOOST_TEST((committed.error().code == Errc::already_exists));
    BOOST_TEST(file_content(root / "copy") == "somebody else's");
  }
  BOOST_TEST(entries(root.path()) == 1u);
  auto file = claimed("copy", true);
  put(file, "new");
  BOOST_REQUIRE(file.commit().has_value());
  BOOST_TEST(file_content(root / "copy") == "new");
}

BOOST_FIXTURE_TEST_CASE(the_partial_file_of_another_transfer_never_gets_the_final_name, Fixture) {
  for (const bool overwrite : {false, true}) {
    auto first = claimed("copy", overwrite);
    put(first, "first");
    fs::remove(root / ".copy.rdmc-partial");
    auto second = claimed("copy", overwrite);
    put(second, "half");
    const auto committed = first.commit();
    BOOST_REQUIRE(!committed.has_value());
    BOOST_TEST((committed.error().code == Errc::not_found));
    BOOST_TEST(committed.error().what.contains((root / "copy").string()));
    BOOST_TEST(!fs::exists(root / "copy"));
    put(second, "second");
    BOOST_REQUIRE(second.commit().has_value());
    BOOST_TEST(file_content(root / "copy") == "second");
    fs::remove(root / "copy");
  }
}

BOOST_FIXTURE_TEST_CASE(a_partial_file_that_was_removed_is_not_committed, Fixture) {
  for (const bool overwrite : {false, true}) {
    write_file(root / "copy", "old");
    if (!overwrite) fs::remove(root / "copy");
    auto file = claimed("copy", overwrite);
    fs::remove(root / ".copy.rdmc-partial");
    const auto committed = file.commit();
    BOOST_REQUIRE(!committed.has_value());
    BOOST_TEST((committed.error().code == Errc::not_found));
    BOOST_TEST(fs::exists(root / "copy") == overwrite);
  }
}

BOOST_FIXTURE_TEST_CASE(who_reads_the_old_file_while_it_is_replaced_keeps_reading_it, Fixture) {
  write_file(root / "copy", "old");
  const Descriptor reader(::open((root / "copy").c_str(), O_RDONLY));
  auto file = claimed("copy", true);
  put(file, "new");
  BOOST_REQUIRE(file.commit().has_value());
  std::byte bytes[3];
  BOOST_REQUIRE(read_at(reader.get(), bytes, 0, "copy").value() == 3u);
  BOOST_TEST(std::memcmp(bytes, "old", 3) == 0);
}

BOOST_FIXTURE_TEST_CASE(of_many_that_claim_a_stale_file_at_once_exactly_one_gets_it, Fixture) {
  for (int round = 0; round < 50; ++round) {
    write_file(root / ".copy.rdmc-partial", "stale");
    constexpr int kClaimants = 8;
    std::vector<std::optional<Result<PartialFile>>> results(kClaimants);
    std::atomic<bool> go = false;
    std::vector<std::thread> threads;
    for (int i = 0; i < kClaimants; ++i) {
      threads.emplace_back([&, i] {
        while (!go) std::this_thread::yield();
        results[static_cast<std::size_t>(i)].emplace(claim("copy"));
      });
    }
    go = true;
    for (auto& thread : threads) thread.join();
    int winners = 0;
    for (const auto& result : results) winners += result->has_value();
    BOOST_TEST(winners == 1);
    results.clear();
    BOOST_TEST(entries(root.path()) == 0u);
  }
}

BOOST_FIXTURE_TEST_CASE(a_name_as_long_as_names_can_be_is_written_and_committed, Fixture) {
  const std::string name(255, 'n');
  auto file = claimed(name);
  put(file, "x");
  BOOST_REQUIRE(file.commit().has_value());
  BOOST_TEST(file_content(root / name) == "x");
  BOOST_TEST(entries(root.path()) == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
