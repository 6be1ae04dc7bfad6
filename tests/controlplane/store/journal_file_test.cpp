#include "controlplane/store/journal_file.hpp"

#include <stdlib.h>
#include <sys/stat.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>

#include "tests/controlplane/store/caspaxos/values.hpp"

namespace rdmc::store::testing {
BOOST_AUTO_TEST_SUITE(journal_file_test)
namespace {

struct Directory {
  Directory() {
    std::string name = (std::filesystem::temp_directory_path() / "rdmc-journal-XXXXXX").string();
    BOOST_TEST_REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~Directory() { std::filesystem::remove_all(path); }
  std::string node() const { return path / "node"; }
  std::filesystem::path journal() const { return path / "node" / "journal"; }

  /// Writes the state of a node with one view of the group "g" and one of the group "h". Returns this state.
  Durable write_two_views() {
    JournalFile file = JournalFile::open(node()).value();
    Acceptor acceptor(first_state(0));
    const auto write = [&] { BOOST_TEST_REQUIRE(file.write(*acceptor.take_write()).has_value()); };
    write();
    acceptor.accept({"g", {ballot(1, 1), value(1)}});
    write();
    before_last = std::filesystem::file_size(journal());
    acceptor.accept({"h", {ballot(1, 2), value(2)}});
    write();
    return acceptor.kept();
  }
  std::filesystem::path path;
  std::uintmax_t before_last = 0;
};

BOOST_FIXTURE_TEST_CASE(what_was_written_is_there_when_the_journal_is_opened_again, Directory) {
  const Durable kept = write_two_views();
  BOOST_TEST((JournalFile::open(node()).value().recovered() == kept));
}

BOOST_FIXTURE_TEST_CASE(a_journal_is_written_anew_and_goes_on, Directory) {
  Durable kept = write_two_views();
  {
    JournalFile file = JournalFile::open(node()).value();
    Acceptor acceptor(file.recovered());
    BOOST_TEST(file.write(*acceptor.take_write()).has_value());
    acceptor.accept({"g", {ballot(1, Acceptor::kCeilingStep * 2), value(7)}});
    BOOST_TEST(file.write(*acceptor.take_write()).has_value());
    kept = acceptor.kept();
  }
  BOOST_TEST((JournalFile::open(node()).value().recovered() == kept));
}

BOOST_FIXTURE_TEST_CASE(a_torn_end_is_as_if_it_had_never_been_written, Directory) {
  const Durable kept = write_two_views();
  std::filesystem::resize_file(journal(), std::filesystem::file_size(journal()) - 3);
  const Durable recovered = JournalFile::open(node()).value().recovered();
  BOOST_TEST(recovered.registers.contains("g"));
  BOOST_TEST(!recovered.registers.contains("h"));
}

BOOST_FIXTURE_TEST_CASE(a_flipped_bit_before_the_end_is_refused, Directory) {
  write_two_views();
  {
    std::fstream file(journal(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(before_last) - 9);
    const char before = static_cast<char>(file.peek());
    file.seekp(static_cast<std::streamoff>(before_last) - 9);
    file.put(static_cast<char>(before ^ 1));
  }
  const auto opened = JournalFile::open(node());
  BOOST_TEST_REQUIRE(!opened.has_value());
  BOOST_TEST((opened.error().code == Errc::corrupt));
  BOOST_TEST(opened.error().what.contains(node()));
}

BOOST_FIXTURE_TEST_CASE(one_journal_has_one_user_at_a_time, Directory) {
  {
    const JournalFile first = JournalFile::open(node()).value();
    const auto second = JournalFile::open(node());
    BOOST_TEST_REQUIRE(!second.has_value());
    BOOST_TEST((second.error().code == Errc::already_exists));
  }
  BOOST_TEST(JournalFile::open(node()).has_value());
}

BOOST_FIXTURE_TEST_CASE(nobody_else_can_read_a_journal, Directory) {
  write_two_views();
  struct stat about {};
  BOOST_TEST_REQUIRE(::stat(node().c_str(), &about) == 0);
  BOOST_TEST((about.st_mode & 0777) == 0700u);
  BOOST_TEST_REQUIRE(::stat(journal().c_str(), &about) == 0);
  BOOST_TEST((about.st_mode & 0777) == 0600u);
}

BOOST_FIXTURE_TEST_CASE(a_directory_that_cannot_be_made_is_refused_by_name, Directory) {
  std::ofstream(path / "file") << "in the way";
  BOOST_TEST(JournalFile::open(path / "file" / "node").error().what.contains("file/node"));
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::store::testing
