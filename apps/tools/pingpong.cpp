#include "apps/tools/pingpong.hpp"

#include <algorithm>
#include <vector>

#include "apps/tools/foreign_host.hpp"
#include "dataplane/base/clock.hpp"

namespace rdmc::tools {
namespace {

/// The byte with which ibv_rc_pingpong fills its buffer.
constexpr std::byte kFill{0x7B};
/// If ibv_rc_pingpong is asked to check, it puts a zero at the beginning of each page of this size.
constexpr std::size_t kPageBytes = 4096;
/// The time for which the program still answers after the last completion. The last acknowledgement of this
/// side may be lost, and the peer then asks for it again.
constexpr Duration kAnswersFor = milliseconds(500);
/// The longest turn of the engine while the program waits for the peer on TCP.
constexpr Duration kGlance = milliseconds(1);
/// The largest number of completions that one poll takes.
constexpr std::size_t kCompletionsPerPoll = 64;

std::vector<std::byte> message(const PingpongOptions& options) {
  std::vector<std::byte> bytes(options.size_bytes, kFill);
  for (std::size_t at = 0; options.check && at < bytes.size(); at += kPageBytes) bytes[at] = std::byte{0};
  return bytes;
}

/// The exchange of messages once the two queue pairs are connected.
class Rally {
 public:
  Rally(fabric::QueuePair& queue_pair, const PingpongOptions& options)
      : queue_pair_(queue_pair),
        options_(options),
        outgoing_(message(options)),
        incoming_(options.size_bytes) {}

  /// Registers the buffers, so that a NIC need not register them for each message.
  Result<void> register_memory(fabric::Fabric& fabric) {
    for (auto* const bytes : {&outgoing_, &incoming_}) {
      auto region = fabric.register_memory(*bytes, fabric::MemoryUse::general, RemoteAccess::none);
      if (!region) return std::unexpected(region.error());
      regions_.push_back(std::move(*region));
    }
    return {};
  }
  Result<void> post_receives() {
    for (std::uint32_t i = 0; i < options_.receive_depth; ++i) {
      if (auto posted = post_receive(); !posted) return posted;
    }
    return {};
  }
  Result<void> serve() { return post_send(); }

  /// True if all messages are exchanged. After its last message, the peer may end without acknowledging the
  /// last message of this side. A client needs no acknowledgement for its last message, because the server's
  /// last message answers it.
  bool finished() const {
    return received_ == options_.iterations && (sent_ == options_.iterations || options_.server);
  }
  std::uint64_t progress() const { return sent_ + std::uint64_t{received_}; }
  const CompletionGaps& gaps() const { return gaps_; }

  /// Takes completions, and posts the work requests that must follow these completions.
  Result<void> step() {
    std::array<fabric::Completion, kCompletionsPerPoll> completions;
    const std::size_t count = queue_pair_.poll_completions(completions);
    for (const fabric::Completion& completion : std::span(completions).first(count)) {
      if (completion.status == fabric::WorkStatus::retry_exceeded && only_the_last_answer_is_open()) {
        ++sent_;
        return {};
      }
      if (completion.status != fabric::WorkStatus::success)
        return fail(Errc::peer_failed,
                    std::string(fabric::name(completion.status)) + ": " + queue_pair_.error_cause());
      if (auto taken = completion.kind == fabric::WorkKind::send ? take_sent() : take_received(completion);
          !taken)
        return taken;
    }
    return {};
  }

 private:
  /// True on a server that waits only for the acknowledgement of its last message. No message answers the
  /// last message, and a client that has received it may have ended.
  bool only_the_last_answer_is_open() const {
    return !options_.server && received_ == options_.iterations && sent_ + 1 == options_.iterations;
  }
  Result<void> post_receive() { return queue_pair_.post_receive({.work_id = 0, .bytes = incoming_}); }
  Result<void> post_send() {
    sending_ = true;
    return queue_pair_.post_send({.work_id = 1, .bytes = outgoing_});
  }
  // The next SEND is posted when the last SEND was acknowledged and the answer to it has arrived.
  Result<void> answer() {
    if (sending_ || posted_for_ == received_ || sent_ == options_.iterations) return {};
    posted_for_ = received_;
    return post_send();
  }
  Result<void> take_sent() {
    ++sent_;
    sending_ = false;
    return answer();
  }
  Result<void> take_received(const fabric::Completion& completion) {
    if (options_.check && (completion.byte_count != outgoing_.size() || incoming_ != outgoing_))
      return fail(Errc::corrupt,
                  "message " + std::to_string(received_) + " is not what the peer was to send");
    ++received_;
    if (options_.timestamps) stamp(monotonic_now());
    if (auto posted = post_receive(); !posted) return posted;
    return answer();
  }

  void stamp(Time now) {
    if (latest_ != Time::never()) gaps_.add(now - latest_);
    latest_ = now;
  }

  fabric::QueuePair& queue_pair_;
  const PingpongOptions& options_;
  /// All receives use the same buffer, because the peer waits for the answer of this side.
  std::vector<std::byte> outgoing_, incoming_;
  std::vector<std::unique_ptr<fabric::MemoryRegion>> regions_;
  std::uint32_t sent_ = 0, received_ = 0;
  /// The number of received messages when the latest SEND was posted.
  std::uint32_t posted_for_ = 0;
  bool sending_ = false;
  Time latest_ = Time::never();  ///< The time of the latest completion of a received message.
  CompletionGaps gaps_;
};

Result<double> play(ForeignHost& host, Rally& rally, const PingpongOptions& options) {
  const Time start = monotonic_now();
  if (options.server) {
    if (auto served = rally.serve(); !served) return std::unexpected(served.error());
  }
  Result<void> step;
  while (!rally.finished()) {
    const std::uint64_t before = rally.progress();
    const auto moved = [&] {
      step = rally.step();
      return !step || rally.progress() != before;
    };
    if (!host.run_until(moved, monotonic_now() + options.patience))
      return fail(Errc::timed_out,
                  "the peer fell silent after " + std::to_string(before / 2) + " iterations");
    if (!step) return std::unexpected(step.error());
  }
  const double seconds = (monotonic_now() - start).seconds();
  host.run_until([] { return false; }, monotonic_now() + kAnswersFor);
  return seconds;
}

}  // namespace

void CompletionGaps::add(Duration gap) {
  least = count == 0 ? gap : std::min(least, gap);
  most = std::max(most, gap);
  total = total + gap;
  ++count;
}

Result<void> run_pingpong(const PingpongOptions& options, PingpongReport& report) {
  const Time deadline = monotonic_now() + options.patience;
  auto connection = options.server ? control::PingpongConnection::connect(*options.server, deadline)
                                   : control::PingpongConnection::accept(options.tcp_port, deadline);
  if (!connection) return std::unexpected(connection.error());
  auto host = ForeignHost::open(options.address.value_or(connection->local()), options);
  if (!host) return std::unexpected(host.error());
  if (const auto info = (*host)->fabric().info(); options.on_demand_paging && info.pins_memory)
    return fail(Errc::unsupported, "on-demand paging: " + std::string(info.name) + " pins what it registers");
  auto end = (*host)->create(options.path_mtu, options.receive_depth);
  if (!end) return std::unexpected(end.error());
  report.ours = {.address = end->info.shared, .qpn = end->info.qpn, .psn = end->info.first_psn};
  report.ours.address.port = 0;
  report.fabric = (*host)->fabric_name();

  Rally rally(*end->queue_pair, options);
  if (auto registered = rally.register_memory((*host)->fabric()); !registered)
    return std::unexpected(registered.error());
  if (auto posted = rally.post_receives(); !posted) return std::unexpected(posted.error());
  connection->while_waiting([&engine = (*host)->engine()] { engine.turn(kGlance); });
  const auto made_ready = [&](const control::PingpongEnd& peer) {
    report.theirs = peer;
    return ForeignHost::connect(*end, {.address = peer.address, .qpn = peer.qpn, .first_psn = peer.psn});
  };
  if (auto done = connection->exchange(report.ours, made_ready, deadline); !done)
    return std::unexpected(done.error());
  const auto seconds = play(**host, rally, options);
  report.wire = (*host)->wire();
  report.gaps = rally.gaps();
  if (!seconds) return std::unexpected(seconds.error());
  report.seconds = *seconds;
  return {};
}

}  // namespace rdmc::tools
