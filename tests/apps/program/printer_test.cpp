#include "apps/program/printer.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include "dataplane/base/descriptor.hpp"

BOOST_AUTO_TEST_SUITE(printer_test)

using namespace rdmc;

namespace {

struct Pipe {
  Pipe() {
    int ends[2];
    BOOST_REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    reader = Descriptor(ends[0]), writer = Descriptor(ends[1]);
  }
  std::string read(std::size_t bytes) const {
    std::string text(bytes, '\0');
    for (std::size_t at = 0; at < bytes;) {
      const auto n = ::read(reader.get(), &text[at], bytes - at);
      BOOST_REQUIRE(n > 0);
      at += static_cast<std::size_t>(n);
    }
    return text;
  }
  Descriptor reader, writer;
};

}  // namespace

BOOST_AUTO_TEST_CASE(texts_are_written_in_order_and_all_before_the_end) {
  const Pipe pipe;
  {
    const auto printer = Printer::start();
    BOOST_REQUIRE(printer.has_value());
    for (const auto* text : {"one\n", "two\n", "three\n"}) (*printer)->print(pipe.writer.get(), text);
  }
  BOOST_TEST(pipe.read(14) == "one\ntwo\nthree\n");
}

BOOST_AUTO_TEST_CASE(
    a_reader_that_stalls_delays_no_caller_and_what_exceeds_the_limit_is_dropped_and_counted) {
  const Pipe pipe;
  const std::string text(Printer::kMostBytes / 8, 'x');
  const auto printer = Printer::start();
  BOOST_REQUIRE(printer.has_value());
  for (int i = 0; i < 10; ++i) (*printer)->print(pipe.writer.get(), text);
  BOOST_TEST((*printer)->dropped() == 2U);
  BOOST_TEST((pipe.read(Printer::kMostBytes) == std::string(Printer::kMostBytes, 'x')));
}

BOOST_AUTO_TEST_CASE(a_reader_that_is_gone_ends_nothing) {
  Pipe gone, read;
  gone.reader = {};
  {
    const auto printer = Printer::start();
    BOOST_REQUIRE(printer.has_value());
    (*printer)->print(gone.writer.get(), "unread\n");
    (*printer)->print(read.writer.get(), "read\n");
  }
  BOOST_TEST(read.read(5) == "read\n");
}

BOOST_AUTO_TEST_SUITE_END()
