// The log of a server when its disk fails: what is refused, what is found when it is started again, and how
// it goes on.
#include <fcntl.h>

#include <boost/test/unit_test.hpp>

#include <fstream>

#include "tests/apps/replicated-kv/logging_server.hpp"

BOOST_AUTO_TEST_SUITE(state_log_faults_test)

using namespace rdmc;
using namespace rdmc::kv;

namespace {

/// A file that notes what is done with it, and that can refuse it.
class WatchedFile final : public AppendFile {
 public:
  struct Record {
    std::vector<std::string> synced;  // names, in order
    int sync_failures = 0;            // so many of the next synchronizations of a log fail
    bool hangs = false;               // no write ends
  };
  explicit WatchedFile(Record& record) : record_(record), ready_(::open("/dev/null", O_RDONLY | O_CLOEXEC)) {}

  int descriptor() const override { return ready_.get(); }  // always readable
  void begin(int file, std::uint64_t offset, std::span<const std::byte> bytes, bool syncs) override {
    is_busy_ = true;
    has_sync_failed_ = false;
    result_ = bytes.empty() ? Result<void>() : write_now(file, offset, bytes);
    if (!result_ || !syncs) return;
    const std::string name = fs::read_symlink("/proc/self/fd/" + std::to_string(file)).filename();
    if (record_.sync_failures > 0 && name.starts_with(kLogName)) {
      --record_.sync_failures;
      has_sync_failed_ = true;
      result_ = fail(Errc::io_error, "the disk refuses the log");
    } else {
      record_.synced.push_back(name);
    }
  }
  std::optional<Result<void>> finished() override {
    if (record_.hangs || !std::exchange(is_busy_, false)) return std::nullopt;
    return std::move(result_);
  }

 private:
  Record& record_;
  const Descriptor ready_;
  Result<void> result_;
};

std::uint64_t files_of(const fs::path& directory, const std::string& kind) {
  std::uint64_t count = 0;
  for (const auto& entry : fs::directory_iterator(directory))
    count += entry.path().filename().string().starts_with(kind + "-");
  return count;
}

void change_byte(const fs::path& path, std::uint64_t offset) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(offset));
  file.put('!');
}

std::string refusal(const fs::path& directory) {
  List list;
  const auto opened = StateLog::open({.directory = directory.string()}, list);
  return opened ? "" : opened.error().what;
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_was_read_is_made_durable_before_it_counts) {
  const Folder folder;
  {
    Server server(folder / "state", Syncs::always, true, 1);
    server.append(3, 10);
    server.log->request_copy();
    for (int i = 0; i < 1000 && !fs::exists(folder / "state" / "copy-2"); ++i) server.turn(20);
    server.append(3, 10);
    server.log->flush();
  }
  WatchedFile::Record record;
  List list;
  auto opened =
      StateLog::open({.directory = (folder / "state").string()}, list, std::make_unique<WatchedFile>(record));
  BOOST_REQUIRE(opened);
  BOOST_TEST(list.numbers.size() == 2u);
  BOOST_TEST(record.synced == (std::vector<std::string>{"copy-2", "log-2"}),
             boost::test_tools::per_element());
  opened->reset();
  record.sync_failures = 1;
  opened =
      StateLog::open({.directory = (folder / "state").string()}, list, std::make_unique<WatchedFile>(record));
  BOOST_REQUIRE(!opened);
  BOOST_TEST(opened.error().what.ends_with("state/log-2: the disk refuses the log"));
}

BOOST_AUTO_TEST_CASE(a_disk_that_hangs_is_reported_once_and_also_when_it_has_gone_on) {
  const Folder folder;
  WatchedFile::Record record;
  List list;
  auto log = StateLog::open({.directory = (folder / "state").string(), .syncs = Syncs::always}, list,
                            std::make_unique<WatchedFile>(record))
                 .value();
  const auto complaints_at = [&](Milliseconds now) {
    log->work(now);
    log->submit(now);
    return log->take_complaints();
  };
  BOOST_TEST(complaints_at(10'000).empty());  // the head of the log
  record.hangs = true;
  BOOST_TEST(complaints_at(11'999).empty());
  const auto complaints = complaints_at(12'000);
  BOOST_TEST_REQUIRE(complaints.size() == 1u);
  BOOST_TEST(complaints.front().ends_with(" has not finished a write for 2 s"));
  BOOST_TEST(complaints_at(30'000).empty());
  BOOST_TEST(log->hangs());
  record.hangs = false;
  const auto over = complaints_at(40'000);
  BOOST_TEST(!log->hangs());
  BOOST_TEST_REQUIRE(over.size() == 1u);
  BOOST_TEST(over.front().ends_with(" has finished the write after 30 s"));
  BOOST_TEST(complaints_at(40'001).empty());
}

BOOST_AUTO_TEST_CASE(a_log_without_its_head_is_refused_unless_it_is_empty) {
  const Folder folder;
  const fs::path log = folder / "state" / "log-1";
  const auto plant = [&](std::size_t zeros, std::size_t cut) {
    fs::remove_all(folder / "state");
    {
      Server server(folder / "state", Syncs::always, true, 1);
      server.append(3, 10);
      server.log->flush();
    }
    std::fstream file(log, std::ios::in | std::ios::out | std::ios::binary);
    file << std::string(zeros, '\0');
    file.close();
    if (cut != 0) fs::resize_file(log, cut);
  };
  plant(kFileHeadBytes, 0);
  BOOST_TEST(refusal(folder / "state").ends_with("log-1: the head at offset 0 is damaged"));
  plant(0, 10);
  BOOST_TEST(refusal(folder / "state").ends_with("log-1: the head at offset 0 is cut off"));
  BOOST_TEST(fs::exists(log));
  plant(kFileHeadBytes, kFileHeadBytes);
  BOOST_TEST(refusal(folder / "state") == "");
}

BOOST_AUTO_TEST_CASE(a_log_is_not_trusted_after_a_synchronization_has_failed) {
  for (const Syncs syncs : {Syncs::always, Syncs::every_second}) {
    const Folder folder;
    WatchedFile::Record record;
    Server server(folder / "state", syncs, std::make_unique<WatchedFile>(record));
    for (int i = 0; i < 4; ++i) server.turn(0);
    server.append(3, 10);
    for (int i = 0; i < 12; ++i) server.turn(0);
    BOOST_TEST(server.persisted() == 1u);
    server.append(3, 10);
    record.sync_failures = 1;
    for (int i = 0; i < 30 && !server.log->is_refused(); ++i) server.turn(0);
    BOOST_REQUIRE(server.log->is_refused());
    BOOST_REQUIRE(server.log->failure() != nullptr);
    BOOST_TEST(!server.log->is_written());
    BOOST_TEST(server.log->persisted() == 0u);
    server.append(3, 10);
    for (int i = 0; i < 100 && server.log->is_refused(); ++i) {
      server.log->submit(server.now);
      pollfd copier{.fd = server.log->descriptors().second, .events = POLLIN, .revents = 0};
      if (copier.fd >= 0) ::poll(&copier, 1, -1);
      server.turn(0);
    }
    BOOST_TEST(server.persisted() == 3u);
    BOOST_TEST(fs::exists(folder / "state" / "copy-2"));
    BOOST_TEST(!fs::exists(folder / "state" / "log-1"));
    BOOST_TEST(server.log->failure() == nullptr);
    BOOST_REQUIRE(server.log->end());
    BOOST_REQUIRE(recovered(folder / "state", folder / "copy") == server.list.numbers);
  }
}

BOOST_AUTO_TEST_CASE(a_state_that_was_loaded_waits_for_a_directory_that_takes_files) {
  const Folder folder;
  const fs::path state = folder / "state";
  Server server(state, Syncs::always, true, 1);
  server.append(3, 10);
  server.log->flush();
  server.log->load_begins();
  // A directory has the name of the next log.
  fs::create_directory(state / "log-2");
  server.list.numbers = {1, 2};
  server.positions = {1000, 1000};
  server.log->load_ended({.epoch = 3, .position = 1000, .time = 5}, server.now);
  BOOST_TEST(server.log->is_refused());
  server.append(3, 10);
  for (int i = 0; i < 100; ++i) server.turn(0);
  BOOST_TEST(server.log->is_refused());
  BOOST_TEST(!server.log->is_written());
  BOOST_TEST(server.log->persisted() == 0u);
  fs::remove(state / "log-2");
  for (int i = 0; i < 1000 && server.persisted() != 3; ++i) server.turn(20);
  server.append(3, 10);
  BOOST_REQUIRE(server.log->end());
  BOOST_TEST(server.persisted() == 4u);
  BOOST_REQUIRE(recovered(state, folder / "copy") == server.list.numbers);
}

BOOST_AUTO_TEST_CASE(a_state_that_cannot_be_restored_can_be_restored_later) {
  const Folder folder;
  const fs::path state = folder / "state";
  Server server(state, Syncs::always, true, 1);
  server.append(3, 10);
  server.log->flush();
  server.log->load_begins();
  fs::create_directory(state / "log-2");
  for (int i = 0; i < 2; ++i) BOOST_TEST(!server.log->restore());
  for (int i = 0; i < 20; ++i) server.turn(0);
  BOOST_TEST(server.log->persisted() == 0u);
  fs::remove(state / "log-2");
  BOOST_REQUIRE(server.log->restore());
  BOOST_TEST(server.persisted() == 1u);
}

BOOST_AUTO_TEST_CASE(damage_to_the_last_event_is_found_after_an_orderly_end_or_a_pause) {
  for (const bool has_end : {true, false}) {
    const Folder folder;
    {
      Server server(folder / "state", Syncs::always, true, 1);
      server.append(3, 10);
      server.log->flush();
      if (has_end) {
        BOOST_REQUIRE(server.log->end());
        BOOST_TEST(fs::file_size(folder / "state" / "log-1") < 1000u);
      } else {
        for (int i = 0; i < 20; ++i) server.turn(0);
        BOOST_TEST(server.log->next_deadline().value_or(INT64_MAX) > server.now + 1000);
      }
      // What follows is read, too.
      BOOST_REQUIRE(recovered(folder / "state", folder / "copy").size() == 1);
      if (!has_end) {
        server.append(3, 10);
        server.log->flush();
        BOOST_REQUIRE(recovered(folder / "state", folder / "copy").size() == 2);
      }
    }
    change_byte(folder / "state" / "log-1", kFileHeadBytes + kFrameHeadBytes + 3);
    BOOST_TEST(refusal(folder / "state").ends_with("state/log-1: damaged at offset 64"));
  }
}

BOOST_AUTO_TEST_CASE(what_is_left_out_is_said) {
  const Folder folder;
  {
    Server server(folder / "state", Syncs::always, true, 1);
    server.append(3, 10);
    server.log->flush();
  }
  change_byte(folder / "state" / "log-1", kFileHeadBytes + kFrameHeadBytes + 3);
  Server server(folder / "state", Syncs::always, true, 2);
  BOOST_TEST(server.list.numbers.empty());
  const auto complaints = server.log->take_complaints();
  BOOST_REQUIRE(complaints.size() == 1);
  BOOST_TEST(
      complaints.front().ends_with("bytes at offset 64 are left out, because a write was cut off there"));
}

BOOST_AUTO_TEST_CASE(a_log_whose_copy_is_gone_is_removed_and_named) {
  const Folder folder;
  const fs::path state = folder / "state";
  {
    Server server(state, Syncs::always, true, 1);
    server.log->load_begins();
    server.list.numbers = {7};
    server.log->load_ended({.epoch = 2, .position = 5, .time = 1}, server.now);
    for (int i = 0; i < 1000 && files_of(state, kCopyName) == 0; ++i) server.turn(20);
    server.append(3, 10);
    BOOST_REQUIRE(server.log->end());
  }
  BOOST_TEST(recovered(state, folder / "copy").size() == 2u);
  std::string name;
  for (const auto& file : fs::directory_iterator(state))
    if (file.path().filename().string().starts_with("copy-")) name = file.path().filename();
  fs::remove(state / name);
  Server server(state, Syncs::always, true, 2);
  BOOST_TEST(server.list.numbers.empty());
  const auto complaints = server.log->take_complaints();
  BOOST_REQUIRE(complaints.size() == 1);
  BOOST_TEST(complaints.front().contains("not in the directory: " + name + ". This"));
}

BOOST_AUTO_TEST_CASE(copies_that_fail_do_not_fill_the_disk) {
  const Folder folder;
  const fs::path state = folder / "state";
  Server server(state, Syncs::always, true, 1);
  server.append(3, 10);
  server.log->flush();
  server.log->request_copy();
  for (std::uint64_t number = 1; number < 20; ++number)
    fs::create_directory(state / ("new-copy-" + std::to_string(number)));
  std::size_t tries = 0;
  const Milliseconds begin = server.now;
  while (server.now < begin + 3'600'000) {
    server.now += 900;
    server.turn(0);
    tries += server.log->take_complaints().size();
  }
  BOOST_TEST(tries > 12u);
  BOOST_TEST(tries < 30u);
  BOOST_TEST(files_of(state, kLogName) <= 2u);
  BOOST_TEST(fs::file_size(state / "log-1") < 1000u);
  server.append(3, 10);
  server.log->flush();
  for (std::uint64_t number = 1; number < 20; ++number)
    fs::remove(state / ("new-copy-" + std::to_string(number)));
  server.log->request_copy();
  for (int i = 0; i < 1000 && files_of(state, kCopyName) == 0; ++i) server.turn(20);
  BOOST_REQUIRE(server.log->end());
  BOOST_REQUIRE(recovered(state, folder / "copy") == server.list.numbers);
}

BOOST_AUTO_TEST_SUITE_END()
