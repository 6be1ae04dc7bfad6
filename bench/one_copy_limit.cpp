// rdmc_one_copy_limit: measures how fast a UDP socket can carry data between two processes if only the
// unavoidable copies are done. The result is the reference for the udp fabric. The program uses UDP_SEGMENT
// on one side and UDP_GRO on the other. Headers are scattered into separate memory, payload goes directly to
// its destination, and both sides compute the ICRC's CRC-32. There is no protocol.
#include <sys/prctl.h>
#include <sys/wait.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <exception>

#include "apps/units/option_values.hpp"
#include "bench/line_round_trip.hpp"
#include "bench/one_way.hpp"
#include "bench/one_way_links.hpp"

namespace {

using namespace rdmc::bench;

/// Measures one link. The receiver is a separate process. The figures are the sender's.
template <typename Link>
nlohmann::json measure(const OneWayOptions& options) {
  auto& shared = *new (map_memory(sizeof(Shared), MAP_SHARED, false)) Shared{};
  Receiver<Link> receiver(options);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) die("fork");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    try {
      receiver.run(shared);
    } catch (const std::exception& error) {
      fprintf(stderr, "rdmc_one_copy_limit: receiver: %s\n", error.what());
      kill(parent, SIGTERM);
      _exit(2);
    }
    _exit(0);
  }
  Sender<Link> sender(options, receiver.address());
  auto figures = sender.run(shared);
  waitpid(child, nullptr, 0);
  return figures;
}

}  // namespace

int main(int argc, char** argv) {
  OneWayOptions options;
  std::string through = "udp";
  CLI::App app{"What a UDP socket carries between two processes with one copy on each side and no protocol"};
  const auto on_off = CLI::CheckedTransformer(std::map<std::string, bool>{{"on", true}, {"off", false}});
  app.add_option("--payload", options.payload, "payload bytes of each datagram")
      ->check(CLI::Range(64, 65'400));
  app.add_option("--size", options.size, "bytes of memory on each side")->transform(rdmc::size_value());
  app.add_option("--iterations", options.iterations, "timed ones, after two warm-ups")
      ->check(CLI::Range(1, 1000));
  app.add_option("--icrc", options.icrc, "CRC-32 on both sides: on, off")->transform(on_off);
  app.add_option("--window", options.window, "bytes in flight at most")->transform(rdmc::size_value());
  app.add_option("--train-bytes", options.train_bytes, "bytes in one train at most")
      ->check(CLI::Range(100, 65'507));
  app.add_option("--batch", options.batch, "trains in one system call")->check(CLI::Range(1, 16));
  app.add_option("--block", options.block, "block in the kernel rather than spin: on, off")
      ->transform(on_off);
  app.add_option("--hugepages", options.hugepages, "for the two memories, if the kernel has some: on, off")
      ->transform(on_off);
  app.add_option("--receive-buffer", options.receive_buffer, "SO_RCVBUF bytes");
  app.add_option("--through", through,
                 "udp: bare system calls; driver: ours for udp; tcp: what the kernel's TCP does with it")
      ->check(CLI::IsMember({"udp", "driver", "tcp"}));
  CLI11_PARSE(app, argc, argv);
  options.window = std::max(options.window, options.batch * std::size_t{65'536});
  try {
    const double line_before = line_round_trip_ns();
    auto figures = through == "tcp"      ? measure<TcpLink>(options)
                   : through == "driver" ? measure<PortLink>(options)
                                         : measure<BareLink>(options);
    figures["through"] = through;
    figures["line_ns_before"] = line_before;
    figures["line_ns_after"] = line_round_trip_ns();
    printf("%s\n", figures.dump().c_str());
  } catch (const std::exception& error) {
    fprintf(stderr, "rdmc_one_copy_limit: %s\n", error.what());
    return 2;
  }
}
