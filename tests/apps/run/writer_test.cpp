#include "apps/run/writer.hpp"

#include <sys/eventfd.h>
#include <unistd.h>
#include <boost/test/unit_test.hpp>

#include <csignal>

#include "dataplane/base/descriptor.hpp"

BOOST_AUTO_TEST_SUITE(writer_test)

using namespace rdmc;
using namespace rdmc::run;

namespace {

struct Pipe {
  Pipe() {
    int ends[2];
    BOOST_REQUIRE(::pipe(ends) == 0);
    read_end = Descriptor(ends[0]);
    write_end = Descriptor(ends[1]);
  }
  std::size_t read_some() {
    char bytes[4096];
    return static_cast<std::size_t>(::read(read_end.get(), bytes, sizeof bytes));
  }
  Descriptor read_end, write_end;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_writer_is_full_until_its_reader_reads_and_drops_nothing) {
  Pipe pipe;
  const Descriptor changed(::eventfd(0, EFD_CLOEXEC));
  std::size_t printed = 0, read = 0;
  {
    const auto writer = Writer::start(pipe.write_end.get(), [&] { ::eventfd_write(changed.get(), 1); });
    BOOST_REQUIRE(writer.has_value());
    for (; !(*writer)->is_full(); printed += 10'000) (*writer)->print(std::string(10'000, 'x'));
    BOOST_TEST(printed > Writer::kMostBytes);
    while (read < printed - Writer::kMostBytes / 4) read += pipe.read_some();
    eventfd_t calls = 0;
    ::eventfd_read(changed.get(), &calls);  // Waits for the call.
    BOOST_TEST(!(*writer)->is_full());
    while (read < printed) read += pipe.read_some();
  }
  BOOST_TEST(read == printed);
}

BOOST_AUTO_TEST_CASE(a_writer_without_reader_says_so) {
  const auto old = std::signal(SIGPIPE, SIG_IGN);
  Pipe pipe;
  pipe.read_end.reset();
  const Descriptor changed(::eventfd(0, EFD_CLOEXEC));
  const auto writer = Writer::start(pipe.write_end.get(), [&] { ::eventfd_write(changed.get(), 1); });
  BOOST_REQUIRE(writer.has_value());
  (*writer)->print("text");
  eventfd_t calls = 0;
  ::eventfd_read(changed.get(), &calls);
  BOOST_TEST((*writer)->is_broken());
  std::signal(SIGPIPE, old);
}

BOOST_AUTO_TEST_SUITE_END()
