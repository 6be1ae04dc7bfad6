// The receivers of this test are further processes of the test program. Its first argument makes a process a
// receiver. The name of the receiver's directory determines how the receiver behaves.
#define BOOST_TEST_NO_MAIN
#include "apps/bcast-cli/local_receivers.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <set>
#include <string_view>

#include "apps/bcast-cli/options.hpp"
#include "dataplane/base/clock.hpp"

using namespace rdmc;
using namespace rdmc::bcast;

namespace {

/// Waits until the sender has closed its end of the link.
void wait_for_the_sender_to_go() {
  char byte = 0;
  while (::read(kLinkDescriptor, &byte, 1) > 0) {
  }
}

int receiver_main(std::string_view address, std::string_view directory) {
  const auto listen = parse_address(address, 0);
  if (!listen) return 1;
  if (directory.starts_with("fails")) {
    (void)report_failure(kLinkDescriptor, {Errc::io_error, "no room here"});
    wait_for_the_sender_to_go();
    return 0;
  }
  if (directory.starts_with("dies")) ::raise(SIGKILL);
  if (directory.starts_with("ends")) return 7;
  if (directory.starts_with("silent")) {
    ::pause();
    return 0;
  }
  // From here on, the receiver behaves correctly. To prove that it has the key, it answers with a port number
  // that depends on the length of the key's text, and the test expects this number.
  const auto key = control::ClusterKey::load(kKeyDescriptor);
  int signal_at_death = 0;
  ::prctl(PR_GET_PDEATHSIG, &signal_at_death);
  struct sigaction interrupt {};
  // Ctrl-C must reach only the sender, which handles it. So a receiver must ignore SIGINT from its start.
  ::sigaction(SIGINT, nullptr, &interrupt);
  if (!key || signal_at_death != SIGTERM || interrupt.sa_handler != SIG_IGN) return 2;
  auto answer = *listen;
  answer.port = static_cast<std::uint16_t>(7000 + key->text().size());
  if (directory.starts_with("asks") && is_abandoned(kLinkDescriptor)) return 4;
  if (!report_address(kLinkDescriptor, answer)) return 3;
  if (directory.starts_with("stubborn")) {
    ::signal(SIGTERM, SIG_IGN);
    for (;;) ::pause();
  }
  if (directory.starts_with("asks")) {
    pollfd word{kLinkDescriptor, POLLIN, 0};
    ::poll(&word, 1, -1);
    return is_abandoned(kLinkDescriptor) ? 42 : 5;
  }
  wait_for_the_sender_to_go();
  return 0;
}

LocalReceivers started(std::uint32_t count, const std::string& destination, Duration patience = seconds(20)) {
  const auto key = control::ClusterKey::generate();
  BOOST_REQUIRE(key.has_value());
  auto receivers = LocalReceivers::start(count, destination, *key, -1, patience);
  BOOST_REQUIRE_MESSAGE(receivers.has_value(), (receivers ? "" : receivers.error().what));
  return std::move(*receivers);
}

bool is_alive(pid_t pid) {
  return ::kill(pid, 0) == 0;
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_receiver_gets_the_key_and_an_address_and_a_directory_of_its_own) {
  const auto receivers = started(3, "copies");
  BOOST_REQUIRE(receivers.receivers().size() == 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto& receiver = receivers.receivers()[i];
    BOOST_TEST(receiver.cause == "");
    BOOST_TEST(receiver.directory == "copies/" + std::to_string(i));
    BOOST_TEST(to_string(receiver.address) ==
               // The port number is 7000 plus 75, the length of the key's text.
               "127.0.1." + std::to_string(i + 1) + ":7075");
  }
}

BOOST_AUTO_TEST_CASE(addresses_are_loopback_and_all_different) {
  std::set<Address> seen;
  for (std::uint32_t index = 0; index < kMaxLocalReceivers; ++index) {
    const auto address = local_receiver_address(index);
    BOOST_TEST(address.bytes[0] == 127);
    BOOST_TEST((address.bytes[3] != 0 && address.bytes[3] != 255));
    BOOST_TEST(seen.insert(address).second);
  }
  BOOST_TEST(to_string(local_receiver_address(0)) == "127.0.1.1:0");
}

BOOST_AUTO_TEST_CASE(a_receiver_that_cannot_is_named_and_the_others_are_there) {
  BOOST_TEST(started(1, "fails").receivers()[0].cause == "no room here");
  BOOST_TEST(started(1, "dies").receivers()[0].cause == "was ended by signal 9");
  BOOST_TEST(started(1, "ends").receivers()[0].cause == "ended with exit code 7");
  BOOST_TEST(started(1, "silent", milliseconds(50)).receivers()[0].cause == "did not come up in time");
  const auto key = control::ClusterKey::generate();
  const auto missing = LocalReceivers::start(1, "x", *key, -1, seconds(20), "/no/such/program");
  BOOST_REQUIRE(missing.has_value());
  BOOST_TEST(missing->receivers()[0].cause == "could not be started");
}

BOOST_AUTO_TEST_CASE(the_wait_for_a_receiver_that_hangs_can_be_interrupted) {
  const auto key = control::ClusterKey::generate();
  const Descriptor interrupt(::eventfd(1, EFD_CLOEXEC));
  const auto before = monotonic_now();
  const auto receivers = LocalReceivers::start(2, "silent", *key, interrupt.get(), seconds(3600));
  BOOST_REQUIRE(!receivers.has_value());
  BOOST_TEST((receivers.error().code == Errc::cancelled));
  BOOST_TEST((monotonic_now() - before < seconds(60)));
  BOOST_TEST(::waitpid(-1, nullptr, WNOHANG) == -1);  // no child process is left
}

BOOST_AUTO_TEST_CASE(a_receiver_that_was_stopped_ends_by_itself_when_it_is_told_to) {
  auto receivers = started(1, "copies");
  const auto pid = receivers.receivers()[0].pid;
  ::kill(pid, SIGSTOP);
  siginfo_t state{};
  BOOST_REQUIRE(::waitid(P_PID, static_cast<id_t>(pid), &state, WSTOPPED) == 0);
  const auto before = monotonic_now();
  receivers.stop(seconds(3600));
  BOOST_TEST((monotonic_now() - before < seconds(60)));
  BOOST_TEST(!is_alive(pid));
}

BOOST_AUTO_TEST_CASE(a_receiver_hears_that_nobody_is_to_go_on_even_if_it_was_stopped) {
  const auto receivers = started(2, "asks");
  const auto pid = [&](std::size_t i) { return static_cast<id_t>(receivers.receivers()[i].pid); };
  siginfo_t state{};
  ::kill(receivers.receivers()[1].pid, SIGSTOP);
  BOOST_REQUIRE(::waitid(P_PID, pid(1), &state, WSTOPPED) == 0);
  receivers.abandon();
  for (std::size_t i = 0; i < 2; ++i) {
    BOOST_REQUIRE(::waitid(P_PID, pid(i), &state, WEXITED | WNOWAIT) == 0);
    BOOST_TEST(state.si_status == 42);
  }
}

BOOST_AUTO_TEST_CASE(stopping_leaves_no_process_not_even_a_stubborn_one) {
  std::vector<pid_t> pids;
  {
    const auto obedient = started(2, "copies");
    auto stubborn = started(1, "stubborn");
    for (const auto& receiver : obedient.receivers()) pids.push_back(receiver.pid);
    pids.push_back(stubborn.receivers()[0].pid);
    for (const auto pid : pids) BOOST_TEST(is_alive(pid));
    stubborn.stop(milliseconds(50));
  }
  for (const auto pid : pids) BOOST_TEST(!is_alive(pid));
}

BOOST_AUTO_TEST_CASE(receivers_end_when_their_sender_is_killed) {
  int news[2];
  BOOST_REQUIRE(::pipe(news) == 0);
  const auto sender = ::fork();
  if (sender == 0) {
    const auto receivers = started(2, "copies");
    for (const auto& receiver : receivers.receivers()) {
      if (::write(news[1], &receiver.pid, sizeof receiver.pid) < 0) ::_exit(1);
    }
    ::pause();
  }
  ::close(news[1]);
  pid_t pids[2] = {};
  for (auto& pid : pids) BOOST_REQUIRE(::read(news[0], &pid, sizeof pid) == sizeof pid);
  ::close(news[0]);
  // Makes this process the parent of the receivers when the sender has died.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::kill(sender, SIGKILL);
  BOOST_TEST(::waitpid(sender, nullptr, 0) == sender);
  for (const auto pid : pids) BOOST_TEST(::waitpid(pid, nullptr, 0) == pid);
}

int main(int argc, char** argv) {
  // _Exit skips the normal shutdown. LeakSanitizer's check during a normal shutdown hangs if the process gets
  // a SIGCONT.
  if (argc == 4 && std::string_view(argv[1]) == kLocalReceiverArgument)
    std::_Exit(receiver_main(argv[2], argv[3]));
  return boost::unit_test::unit_test_main([] { return true; }, argc, argv);
}
