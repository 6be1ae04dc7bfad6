// Runs random programs of socket calls. Each program runs on the kernel's TCP and on this library's sockets
// at the same time. RDMC_SEED=N selects other programs. If a program fails, it is printed.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <cstdlib>
#include <random>

#include "tests/lib/socket/side_by_side.hpp"

BOOST_AUTO_TEST_SUITE(differential_test)

using namespace rdmc;
using namespace rdmc::sockets;
using namespace rdmc::sockets::testing;

namespace {

constexpr int kPrograms = 10'000, kProgramsOnTrunks = 300, kMostCalls = 26;
constexpr int kOneBlocksIn = 100;
constexpr std::size_t kMostInBuffers = 14 << 20;

/// The bytes that programs send. A send can begin at any of these bytes.
const std::vector<std::byte>& data() {
  static const auto all = [] {
    std::mt19937_64 random(1);
    std::vector<std::byte> bytes(kMostInBuffers);
    for (auto& byte : bytes) byte = static_cast<std::byte>(random());
    return bytes;
  }();
  return all;
}

class Program {
 public:
  Program(SideBySide& sockets, std::uint64_t seed) : sockets_(sockets), random_(seed) {}

  void run() {
    if (any(0, 1) == 0) begin_connected();
    for (int calls = any(4, kMostCalls); calls > 0 && !sockets_.has_failed(); --calls) {
      step();
      if (!sockets_.has_failed()) sockets_.settle();
    }
  }

 private:
  int any(int least, int most) { return std::uniform_int_distribution(least, most)(random_); }
  std::size_t any_bytes(int most) { return static_cast<std::size_t>(any(0, 3) == 0 ? 0 : any(1, most)); }
  template <std::size_t N>
  int any_of(const std::array<int, N>& all) {
    return all[static_cast<std::size_t>(any(0, N - 1))];
  }
  /// Returns a random slot. Slots 1 and 2 are chosen more often, because they are the ends of a connection in
  /// half of the programs.
  Slot& slot() { return sockets_.slot(any(0, 1) == 0 ? any(1, 2) : any(0, SideBySide::kSlots - 1)); }
  std::span<const std::byte> any_data(std::size_t bytes) {
    return std::span(data()).subspan(static_cast<std::size_t>(any(0, 1 << 20)), bytes);
  }
  std::vector<std::size_t> any_pieces(int most) {
    std::vector<std::size_t> sizes(static_cast<std::size_t>(any(0, 4)));
    for (auto& size : sizes) size = any_bytes(most);
    return sizes;
  }
  int any_receive_flags() {
    return any_of(std::array{0, int{MSG_PEEK}, int{MSG_DONTWAIT}, int{MSG_WAITALL}});
  }

  /// Makes slots 1 and 2 the ends of a connection. Half of the programs begin with this.
  void begin_connected() {
    Slot &listener = sockets_.slot(0), &near = sockets_.slot(1);
    sockets_.open(listener);
    sockets_.bind(listener);
    sockets_.listen(listener);
    sockets_.open(near);
    sockets_.connect(near, listener);
    sockets_.settle();
    sockets_.accept(listener, sockets_.slot(2));
    sockets_.settle();
  }

  void step() {
    Slot& at = slot();
    if (at.kernels < 0) return sockets_.open(at);
    switch (any(0, 26)) {
      case 0:
      case 1: return sockets_.bind(at);
      case 2:
      case 3: return sockets_.listen(at);
      case 4:
      case 5:
      case 6:
      case 7: return sockets_.connect(at, slot());
      case 8:
      case 9:
      case 10: return sockets_.accept(at, slot());
      case 11:
      case 12: return sockets_.send(at, any_data(any_bytes(3000)), any(0, 1) == 0 ? 0 : MSG_DONTWAIT);
      case 13:
      case 14: return sockets_.receive(at, any_bytes(5000), any_receive_flags());
      case 15: return sockets_.shutdown(at, any(0, 3));
      case 16: return sockets_.close(at);
      case 17: return sockets_.option(at, any_of(std::array{SO_ERROR, SO_ACCEPTCONN, SO_TYPE, SO_DOMAIN}));
      case 18: return sockets_.names(at);
      case 19: return sockets_.linger_for(at, {.l_onoff = any(0, 1), .l_linger = any(0, 1)});
      case 20:
      case 21: return sockets_.send_pieces(at, any_data(4 * 1500), any_pieces(1500));
      case 22:
      case 23: return sockets_.receive_pieces(at, any_pieces(2500), any_receive_flags());
      case 24: return poll(at);
      case 25: return large(at);
      default: return sockets_.send(at, any_data(any_bytes(3000)), 0);
    }
  }

  void poll(Slot& at) {
    std::array<short, SideBySide::kSlots> wanted;
    for (short& events : wanted)
      events = any(0, 3) == 0
                   ? short{-1}
                   : static_cast<short>(any(0, 1) * POLLIN | any(0, 1) * POLLOUT | any(0, 1) * POLLRDHUP);
    sockets_.poll(at, wanted);
  }

  void large(Slot& at) {
    if (sockets_.blocks() && any(0, 2) != 0) return sockets_.overfill(at, data());
    if (any(0, 2) != 0) return sockets_.send(at, any_data(any_bytes(3000)), 0);
    sockets_.pump(at, any_data(static_cast<std::size_t>(any(300'000, 900'000))));
  }

  SideBySide& sockets_;
  std::mt19937_64 random_;
};

std::uint64_t seed() {
  const char* const wanted = std::getenv("RDMC_SEED");
  return wanted == nullptr ? 1 : std::strtoull(wanted, nullptr, 10);
}

/// Runs programs on two stacks. Both may be the same stack. The programs use `hosts` addresses alternately.
/// If there are many addresses, a program is not affected by what an earlier one has left.
Met run_programs(Stack& near, Stack& far, int count, unsigned hosts) {
  Met met;
  BOOST_TEST_MESSAGE("RDMC_SEED=" << seed());
  for (int number = 0, failed = 0; number < count && failed < 3; ++number) {
    const in_addr_t host =
        htonl(INADDR_LOOPBACK + (hosts == 1 ? 0 : 0x1'00'00 + static_cast<unsigned>(number) % hosts));
    SideBySide sockets(near, far, host, number % kOneBlocksIn == 0, met);
    Program(sockets, seed() * 1'000'003 + static_cast<std::uint64_t>(number)).run();
    failed += sockets.has_failed();
    BOOST_CHECK_MESSAGE(!sockets.has_failed(), "RDMC_SEED=" << seed() << ", program " << number << ":\n"
                                                            << sockets.story());
  }
  return met;
}

}  // namespace

BOOST_AUTO_TEST_CASE(random_programs_do_the_same_on_the_kernels_tcp_and_on_ours) {
  Stack stack({.fabric = "udp", .insecure = true});
  Met met = run_programs(stack, stack, kPrograms, 60'000);
  for (const int error : {EAGAIN, ECONNREFUSED, ECONNRESET, EINPROGRESS, EINVAL, EISCONN, ENOTCONN, EPIPE})
    BOOST_CHECK_MESSAGE(met.results[-error] > 10,
                        "errno " << error << " was met " << met.results[-error] << " times");
  BOOST_TEST(met.results[1] > 2'000);
  BOOST_TEST((met.pumped > 100 && met.overfilled > 0),
             met.pumped << " pumped, " << met.overfilled << " overfilled");
}

BOOST_DATA_TEST_CASE(random_programs_do_the_same_between_two_processes,
                     boost::unit_test::data::make({"udp", "shm"}), fabric) {
  Stack near({.fabric = fabric, .insecure = true}), far({.fabric = fabric, .insecure = true});
  Met met = run_programs(near, far, kProgramsOnTrunks, 1);
  for (const int error : {EAGAIN, ECONNREFUSED, ECONNRESET, EINPROGRESS, EISCONN, ENOTCONN, EPIPE})
    BOOST_CHECK_MESSAGE(met.results[-error] > 0,
                        "errno " << error << " was met " << met.results[-error] << " times");
  BOOST_TEST((met.pumped > 3), met.pumped << " pumped, " << met.overfilled << " overfilled");
}

BOOST_AUTO_TEST_SUITE_END()
