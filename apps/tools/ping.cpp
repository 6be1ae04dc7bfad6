#include "apps/tools/ping.hpp"

#include <algorithm>
#include <bit>
#include <memory>

#include "apps/tools/connection_manager.hpp"
#include "apps/tools/ping_link.hpp"
#include "dataplane/base/clock.hpp"
#include "dataplane/port/network_interface.hpp"

namespace rdmc::tools {
namespace {

/// The time that a server waits for its client to disconnect, after it has served the requested number of
/// texts.
constexpr Duration kLinger = seconds(3);

/// Serves one text. The client sends the position of the text, and the server reads the text from there. Then
/// the client sends the destination, and the server writes the text there. The server confirms each of the
/// two steps.
Result<void> serve_one(PingLink& link, std::span<std::byte> text, std::uint32_t number, bool validate) {
  const auto source = link.receive_buffer();
  if (!source) return std::unexpected(source.error());
  if (source->bytes < kLeastPingBytes || source->bytes > text.size())
    return fail(Errc::protocol_error, "the client's text of " + std::to_string(source->bytes) +
                                          " bytes; this server takes up to " + std::to_string(text.size()));
  text = text.first(source->bytes);
  if (auto read = link.read(text, *source); !read) return read;
  if (validate) {
    std::vector<std::byte> expected(text.size());
    fill_ping(expected, number);
    if (!std::ranges::equal(text, expected))
      return fail(Errc::corrupt, "text " + std::to_string(number) + " is not what the client was to send");
  }
  if (auto told = link.tell({}); !told) return told;
  const auto sink = link.receive_buffer();
  if (!sink) return std::unexpected(sink.error());
  if (auto written = link.write(text.first(ping_length(text)), *sink); !written) return written;
  return link.tell({});
}

Result<void> ask_one(PingLink& link, PingMemory& source, PingMemory& sink, std::uint32_t number,
                     bool validate) {
  fill_ping(source.bytes, number);
  for (const PingMemory* memory : {&source, &sink}) {
    if (auto told = link.tell(memory->buffer()); !told) return told;
    if (const auto answer = link.receive_buffer(); !answer) return std::unexpected(answer.error());
  }
  if (validate && source.bytes != sink.bytes)
    return fail(Errc::corrupt, "text " + std::to_string(number) + " came back changed");
  return {};
}

Result<std::uint32_t> run_server(PingLink& link, const PingOptions& options) {
  auto text = PingMemory::make(link.host(), options.size_bytes, RemoteAccess::none);
  if (!text) return std::unexpected(text.error());
  std::uint32_t number = 0;
  for (; options.iterations == 0 || number < options.iterations; ++number) {
    const auto more = link.wait_for_message();
    if (!more) return std::unexpected(more.error());
    if (!*more) return number;  // The client has disconnected between two texts.
    if (auto served = serve_one(link, text->bytes, number, options.validate); !served)
      return std::unexpected(served.error());
  }
  // A client that has finished sends one disconnect request and may then end. After the program's end,
  // rdma_cm does not repeat the request. Therefore silence also counts as the end.
  if (auto ended = link.wait_for_end(kLinger); !ended && ended.error().code != Errc::timed_out)
    return std::unexpected(ended.error());
  link.abandon();
  return number;
}

Result<std::uint32_t> run_client(PingLink& link, const PingOptions& options) {
  auto source = PingMemory::make(link.host(), options.size_bytes, RemoteAccess::read);
  auto sink = PingMemory::make(link.host(), options.size_bytes, RemoteAccess::write);
  if (!source || !sink) return std::unexpected(source ? sink.error() : source.error());
  for (std::uint32_t number = 0; number < options.iterations; ++number) {
    if (auto asked = ask_one(link, *source, *sink, number, options.validate); !asked)
      return std::unexpected(asked.error());
  }
  if (auto ended = link.end(); !ended) return std::unexpected(ended.error());
  return options.iterations;
}

/// The objects that all connections of a run share.
struct Station {
  Address address;
  std::unique_ptr<ForeignHost> host;
  std::unique_ptr<ConnectionManager> connections;

  static Result<Station> open(const PingOptions& options) {
    if (!options.server && !options.address)
      return fail(Errc::invalid_argument, "a server needs the address that its clients reach");
    const auto address =
        options.address ? Result<Address>(*options.address) : port::local_address_towards(*options.server);
    if (!address) return std::unexpected(address.error());
    auto host = ForeignHost::open(*address, options);
    if (!host) return std::unexpected(host.error());
    if ((*host)->software() == nullptr)
      return fail(Errc::unsupported,
                  "the RDMA device that has " + host_string(*address) +
                      " answers rdma_cm itself: use rping, or --fabric udp and another address");
    Station station{*address, std::move(*host), nullptr};
    station.connections = std::make_unique<ConnectionManager>(*station.host);
    if (options.server) return station;
    if (auto listening = station.connections->manager().listen(options.port); !listening)
      return std::unexpected(listening.error());
    return station;
  }
  Result<PingLink> connect(const PingOptions& options) const {
    const std::uint32_t largest = std::min(4096U, std::bit_floor(host->fabric().info().path_mtu));
    return PingLink::connect(*host, *connections, *options.server,
                             options.path_mtu == 0 ? largest : options.path_mtu, options.patience);
  }
  void count(PingReport& report) const {
    report.local = address;
    report.fabric = host->fabric_name();
    report.wire = host->wire();
    report.management = connections->manager().counters();
  }
};

Result<void> use(PingLink& link, const PingOptions& options, const Station& station, PingReport& report) {
  report.remote = link.peer();
  report.path_mtu = link.path_mtu();
  const Time start = monotonic_now();
  const auto iterations = options.server ? run_client(link, options) : run_server(link, options);
  station.count(report);
  if (!iterations) {
    link.abandon();
    return std::unexpected(iterations.error());
  }
  report.iterations = *iterations;
  report.seconds = (monotonic_now() - start).seconds();
  return {};
}

}  // namespace

Result<void> run_ping(const PingOptions& options, PingReport& report) {
  const auto station = Station::open(options);
  if (!station) return std::unexpected(station.error());
  auto link = options.server ? station->connect(options)
                             : PingLink::accept(*station->host, *station->connections,
                                                PingLink::Others::refuse, options.patience);
  station->count(report);
  if (!link) return std::unexpected(link.error());
  return use(*link, options, *station, report);
}

Result<void> serve_pings(const PingOptions& options,
                         const std::function<void(const Result<void>&, const PingReport&)>& after_each) {
  const auto station = Station::open(options);
  if (!station) return std::unexpected(station.error());
  for (;;) {
    auto link =
        PingLink::accept(*station->host, *station->connections, PingLink::Others::wait, options.patience);
    if (!link) continue;  // No client has connected in this time.
    PingReport report;
    const auto used = use(*link, options, *station, report);
    after_each(used, report);
  }
}

}  // namespace rdmc::tools
