#include "apps/bcast-cli/progress.hpp"

#include <fcntl.h>
#include <pty.h>
#include <stdlib.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include "apps/bcast-cli/file_io.hpp"

BOOST_AUTO_TEST_SUITE(progress_test)

using namespace rdmc;
using namespace rdmc::bcast;

namespace {

constexpr std::uint64_t kMiB = 1 << 20;

Time at(std::int64_t ms) {
  return Time{} + milliseconds(ms);
}

/// Returns the text that ProgressLine writes to a terminal of 60 columns.
std::string shown_on_a_terminal(const ProgressEvent& event) {
  int master = -1;
  int slave = -1;
  winsize size{};
  size.ws_row = 24;
  size.ws_col = 60;
  BOOST_REQUIRE(::openpty(&master, &slave, nullptr, nullptr, &size) == 0);
  const Descriptor ours(master);
  Descriptor theirs(slave);
  ProgressLine(slave).show(event);
  char text[1024];
  const auto count = ::read(master, text, sizeof text);
  BOOST_REQUIRE(count > 0);
  return {text, static_cast<std::size_t>(count)};
}

}  // namespace

BOOST_AUTO_TEST_CASE(news_is_told_at_once_and_then_at_most_four_times_a_second) {
  Progress progress({"a", "b"}, 10'000, at(0));
  std::vector<std::int64_t> told;
  for (std::int64_t ms = 0; ms <= 1000; ++ms) {
    progress.has(0, static_cast<std::uint64_t>(ms));
    if (progress.due(at(ms))) told.push_back(ms);
  }
  BOOST_TEST((told == std::vector<std::int64_t>{0, 250, 500, 750, 1000}));
}

BOOST_AUTO_TEST_CASE(nothing_new_is_told_once_a_second_and_news_without_delay) {
  Progress progress({"a", "b"}, 10'000, at(0));
  std::vector<std::int64_t> told;
  for (std::int64_t ms = 0; ms <= 2500; ++ms) {
    if (ms == 1600) progress.has(1, 1);
    if (progress.due(at(ms))) told.push_back(ms);
  }
  BOOST_TEST((told == std::vector<std::int64_t>{0, 1000, 1600}));
}

BOOST_AUTO_TEST_CASE(bytes_are_the_mean_of_those_still_in_the_transfer) {
  Progress progress({"a", "b", "c"}, 100, at(0));
  progress.has(0, 50);
  progress.has(1, 10);
  progress.has(2, 90);
  auto event = progress.due(at(1000)).value();
  BOOST_TEST(event.bytes == 50u);
  BOOST_TEST(event.slowest_host == "b");
  BOOST_TEST(event.slowest_bytes == 10u);
  progress.failed(1);
  progress.done(2);
  event = progress.due(at(2000)).value();
  BOOST_TEST(event.bytes == 75u);
  BOOST_TEST(event.receivers == 2u);
  BOOST_TEST(event.done == 1u);
  BOOST_TEST(event.slowest_host == "a");
}

BOOST_AUTO_TEST_CASE(a_receiver_that_says_less_or_more_than_can_be_is_not_believed) {
  Progress progress({"a"}, 100, at(0));
  progress.has(0, 60);
  progress.has(0, 20);
  BOOST_TEST(progress.due(at(0)).value().bytes == 60u);
  progress.has(0, 1'000'000);
  BOOST_TEST(progress.due(at(1000)).value().bytes == 100u);
}

BOOST_AUTO_TEST_CASE(the_rate_is_that_of_the_last_two_seconds) {
  Progress progress({"a"}, 1'000'000'000, at(0));
  for (std::int64_t ms = 0; ms <= 4000; ms += 250) {
    progress.has(0, static_cast<std::uint64_t>(ms) * 1000);
    (void)progress.due(at(ms));
  }
  for (std::int64_t ms = 4250; ms <= 7000; ms += 250) {
    progress.has(0, 4'000'000 + static_cast<std::uint64_t>(ms - 4000) * 2000);
    const auto event = progress.due(at(ms)).value();
    if (ms >= 6000) BOOST_TEST(event.bits_per_second == 16e6, boost::test_tools::tolerance(0.01));
  }
}

BOOST_AUTO_TEST_CASE(nobody_left_and_an_empty_file_divide_by_nothing) {
  Progress progress({"a"}, 0, at(0));
  progress.failed(0);
  const auto event = progress.due(at(0)).value();
  BOOST_TEST(event.receivers == 0u);
  BOOST_TEST(progress_text(event, 80).starts_with("100%"));
}

BOOST_AUTO_TEST_CASE(the_line_says_how_much_how_fast_how_long_and_who_is_slow) {
  const ProgressEvent event{256 * kMiB, 1024 * kMiB, 1, 8e9, 8, 2, "n7:7700", 128 * kMiB};
  BOOST_TEST(progress_text(event, 200) ==
             " 25% [=====               ]  256 MiB of 1.00 GiB  8.00 Gb/s  0.805 s left  2/8 done  slowest "
             "n7:7700 at 12%");
  BOOST_TEST(progress_text(event, 40).size() == 40u);
  BOOST_TEST(progress_text(event, 79) ==
             " 25%  256 MiB of 1.00 GiB  0.805 s left  2/8 done  slowest n7:7700 at 12%");
}

BOOST_AUTO_TEST_CASE(a_terminal_gets_one_line_in_its_width_with_colour_unless_told_otherwise) {
  const ProgressEvent event{256 * kMiB, 1024 * kMiB, 1, 8e9, 8, 2, "n7:7700", 128 * kMiB};
  ::setenv("TERM", "xterm", 1);
  ::unsetenv("NO_COLOR");
  auto text = shown_on_a_terminal(event);
  BOOST_TEST(text.starts_with("\r\x1b[K\x1b[36m 25%  256"));
  BOOST_TEST(text.size() < 60 + 20);
  BOOST_TEST(text.find('\n') == std::string::npos);
  ::setenv("NO_COLOR", "1", 1);
  text = shown_on_a_terminal(event);
  BOOST_TEST(text.starts_with("\r\x1b[K 25%  256"));
  BOOST_TEST(text.find("\x1b[36m") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(what_is_no_terminal_gets_no_line) {
  int ends[2];
  BOOST_REQUIRE(::pipe2(ends, O_NONBLOCK) == 0);
  const Descriptor reading(ends[0]);
  const Descriptor writing(ends[1]);
  { ProgressLine(writing.get()).show({1, 2, 1, 1, 1, 0, "a", 1}); }
  char byte = 0;
  BOOST_TEST(::read(reading.get(), &byte, 1) == -1);
}

BOOST_AUTO_TEST_SUITE_END()
