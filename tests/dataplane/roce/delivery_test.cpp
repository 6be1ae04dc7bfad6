// Tests these properties, whatever the network does:
// - Every message arrives intact, every READ returns the peer's bytes, and every atomic is executed once.
// - No work request waits for ever.
// - Every work request has one completion. The completions are in order, except those of unordered WRITEs.
// The tests use both modes, every path MTU, both directions at the same time, and the wrap of the PSN.
#include <boost/test/unit_test.hpp>

#include <algorithm>

#include "tests/dataplane/roce/pair.hpp"

namespace rdmc::roce::testing {
BOOST_AUTO_TEST_SUITE(delivery_test)
namespace {

constexpr std::array kSizes{0, 1, 255, 256, 257, 1023, 1024, 1025, 4095, 4096, 4097, 65536, 1 << 20};

struct Message {
  SendOpcode opcode;
  std::vector<std::byte> bytes;
  std::uint32_t immediate;
  std::size_t place;                    ///< For a WRITE or READ: the offset in the receiver's memory.
  std::vector<std::byte> read_bytes;    ///< The bytes that a READ has read.
  std::uint64_t add = 0, original = 0;  ///< For an atomic: the change, and the value before it.
  bool has_completed = false;           ///< The message has completed at the receiver.

  bool write() const { return opcode == SendOpcode::write || opcode == SendOpcode::write_immediate; }
  bool read() const { return opcode == SendOpcode::read; }
  bool atomic() const { return opcode == SendOpcode::fetch_add || opcode == SendOpcode::compare_swap; }
  bool receives() const { return opcode != SendOpcode::write && !read() && !atomic(); }
};
constexpr std::array kOpcodes{
    SendOpcode::send, SendOpcode::send_immediate, SendOpcode::write,     SendOpcode::write_immediate,
    SendOpcode::read, SendOpcode::read,           SendOpcode::fetch_add, SendOpcode::compare_swap};

// One direction: its messages, the memory into which they are written, and the receives that they use.
struct Stream {
  std::vector<Message> messages;
  std::vector<std::byte> memory;
  alignas(8) std::array<std::byte, 8> counter{};  ///< The 8 bytes that atomics change.
  std::vector<std::vector<std::byte>> receives;   ///< One for each message that needs a receive.
  std::size_t posted_sends = 0, posted_receives = 0, sent = 0, received = 0;
  std::size_t next = 0;    ///< The first message that may still need a receive.
  bool unordered = false;  ///< If true, WRITEs with immediate are unordered.
  std::size_t overtook = 0;

  Stream(Random& random, std::size_t count, bool without_order) : unordered(without_order) {
    std::size_t used = 0;
    std::uint64_t count_to = 0;
    for (std::size_t i = 0; i < count; ++i) {
      // Long messages are less frequent, so that a run has many messages of all kinds.
      const auto size =
          static_cast<std::size_t>(kSizes[random.below(random.chance(60'000) ? kSizes.size() : 11)]);
      Message m{kOpcodes[random.below(kOpcodes.size())], std::vector<std::byte>(size),
                static_cast<std::uint32_t>(random.next()), used};
      for (auto& byte : m.bytes) byte = static_cast<std::byte>(random.next());
      if (m.write() || m.read()) used += size;
      if (m.read()) m.read_bytes.resize(size);
      if (m.atomic()) {
        m.add = random.next();
        m.original = count_to;
        count_to += m.add;
      }
      if (m.receives()) receives.emplace_back(m.write() ? 0 : size);
      messages.push_back(std::move(m));
    }
    // Any message may use any receive, so all receives get the largest size.
    if (unordered) {
      std::size_t largest = 0;
      for (const Message& m : messages) largest = std::max(largest, m.bytes.size());
      for (auto& bytes : receives) bytes.resize(largest);
    }
    memory.resize(used + 1);
    for (const Message& m : messages)
      if (m.read()) std::ranges::copy(m.bytes, memory.begin() + static_cast<std::ptrdiff_t>(m.place));
  }
  bool done() const { return sent == messages.size() && received == receives.size(); }

  /// Returns the message that has completed with this receive.
  const Message& completed(const WorkCompletion& c) {
    const auto is_open = [&](const Message& m) { return m.receives() && !m.has_completed; };
    while (next < messages.size() && !is_open(messages[next])) ++next;
    auto found = messages.begin() + static_cast<std::ptrdiff_t>(next);
    if (unordered && c.kind == CompletionKind::receive_write_immediate) {
      found = std::ranges::find_if(
          messages, [&](const Message& m) { return m.write() && is_open(m) && m.immediate == c.immediate; });
    } else if (unordered) {
      found = std::find_if(found, messages.end(), [&](const Message& m) { return is_open(m) && !m.write(); });
    }
    BOOST_REQUIRE(found != messages.end());
    if (found != messages.begin() + static_cast<std::ptrdiff_t>(next)) ++overtook;
    found->has_completed = true;
    return *found;
  }
};

constexpr RemoteKey kKey{0xBEEF}, kCounterKey{0xCAFE};
constexpr std::uint64_t kBase = 0x7000'0000'0000;

void post(Pair& pair, int from, Stream& stream, Random& random) {
  while (stream.posted_sends < stream.messages.size()) {
    Message& m = stream.messages[stream.posted_sends];
    if (m.read()) {
      if (!pair.connection(from).post_read({.work_id = stream.posted_sends,
                                            .bytes = m.read_bytes,
                                            .remote_address = kBase + m.place,
                                            .remote_key = kKey}))
        break;
    } else if (m.atomic()) {
      const bool swap = m.opcode == SendOpcode::compare_swap;
      if (!pair.connection(from).post_atomic({.work_id = stream.posted_sends,
                                              .opcode = m.opcode,
                                              .remote_address = 0,
                                              .remote_key = kCounterKey,
                                              .swap_or_add = swap ? m.original + m.add : m.add,
                                              .compare = m.original}))
        break;
    } else if (!pair.connection(from).post_send({.work_id = stream.posted_sends,
                                                 .opcode = m.opcode,
                                                 .bytes = m.bytes,
                                                 .remote_address = kBase + m.place,
                                                 .remote_key = kKey,
                                                 .immediate = m.immediate,
                                                 .unordered = stream.unordered}))
      break;
    ++stream.posted_sends;
  }
  // Some receives are posted late, so that RNR NAKs happen.
  if (!random.chance(500'000)) return;
  while (stream.posted_receives < stream.receives.size()) {
    auto& bytes = stream.receives[stream.posted_receives];
    if (!pair.connection(1 - from).post_receive({.work_id = stream.posted_receives, .bytes = bytes})) break;
    ++stream.posted_receives;
    if (random.chance(100'000)) break;
  }
}

// Checks that each completion is the next one of its kind, and that the bytes of its message have arrived.
void check(Pair& pair, int end, Stream& out, Stream& in) {
  for (const WorkCompletion& c : std::exchange(pair.completions(end), {})) {
    BOOST_REQUIRE(c.cause == FailureCause::none);
    if (c.kind != CompletionKind::receive && c.kind != CompletionKind::receive_write_immediate) {
      const Message& m = out.messages.at(c.work_id);
      BOOST_REQUIRE_EQUAL(c.work_id, out.sent++);
      BOOST_REQUIRE((c.kind == CompletionKind::write) == m.write());
      BOOST_REQUIRE((c.kind == CompletionKind::read) == m.read());
      BOOST_REQUIRE((c.kind == CompletionKind::atomic) == m.atomic());
      BOOST_REQUIRE_EQUAL(c.byte_count, m.atomic() ? 8 : m.bytes.size());
      if (m.atomic()) BOOST_REQUIRE_EQUAL(c.original, m.original);
      if (m.read()) BOOST_REQUIRE(m.read_bytes == m.bytes);
      if (m.write())
        BOOST_REQUIRE(std::ranges::equal(m.bytes, std::span(out.memory).subspan(m.place, m.bytes.size())));
      continue;
    }
    const Message& m = in.completed(c);
    BOOST_REQUIRE_EQUAL(c.work_id, in.received++);
    BOOST_REQUIRE((c.kind == CompletionKind::receive_write_immediate) == m.write());
    BOOST_REQUIRE_EQUAL(c.byte_count, m.bytes.size());
    const bool immediate = m.opcode == SendOpcode::send_immediate || m.opcode == SendOpcode::write_immediate;
    BOOST_REQUIRE(c.immediate == (immediate ? std::optional(m.immediate) : std::nullopt));
    const auto arrived = m.write() ? std::span(in.memory).subspan(m.place, m.bytes.size())
                                   : std::span(in.receives[c.work_id]).first(m.bytes.size());
    BOOST_REQUIRE(std::ranges::equal(m.bytes, arrived));
  }
}

struct Case {
  bool selective;
  std::uint32_t mtu;
  std::uint64_t seed;
  Faults faults;
  bool unordered = false;
};

struct Totals {
  Struck struck;
  ConnectionCounters counters;
  std::size_t overtook = 0;
};

void deliver(const Case& c, Totals& totals) {
  BOOST_TEST_CONTEXT("selective " << c.selective << " mtu " << c.mtu << " seed " << c.seed) {
    Random random(c.seed);
    const ConnectionConfig common{
        .path_mtu = c.mtu,
        .selective_repeat = c.selective,
        .congestion_control = random.chance(500'000),
        .window_bytes = static_cast<std::uint32_t>(random.between(2 * c.mtu, 1 << 20)),
        .send_depth = static_cast<std::uint32_t>(random.between(1, 64)),
        .receive_depth = static_cast<std::uint32_t>(random.between(1, 64)),
        .max_rd_atomic = static_cast<std::uint8_t>(random.between(1, 8)),
        .max_dest_rd_atomic = 8,
        .read_window_bytes = static_cast<std::uint32_t>(random.between(4 * c.mtu, 1 << 20)),
        .end_to_end_credits = random.chance(500'000),
        // The timeout is long, because the peer is alive and only many packets are lost.
        .ack_timeout = milliseconds(200),
        .retry_limit = 30,
        .rnr_timer = static_cast<std::uint8_t>(random.between(1, 14))};
    const auto configs = mirrored(common, 0xFFFFF0);
    Pair pair(configs[0], configs[1], {.bits_per_second = 10e9, .faults = c.faults}, random.next());
    std::array<Stream, 2> streams{Stream(random, 120, c.unordered), Stream(random, 60, c.unordered)};
    for (int end : {0, 1}) {
      RegionTable& regions = pair.regions(1 - end);
      BOOST_REQUIRE(regions.add(kKey, kBase, streams[end].memory, RemoteAccess::write | RemoteAccess::read));
      BOOST_REQUIRE(regions.add(kCounterKey, 0, streams[end].counter, RemoteAccess::atomic));
    }
    const bool done = pair.run(Time{} + seconds(100), [&] {
      for (int end : {0, 1}) {
        check(pair, end, streams[end], streams[1 - end]);
        post(pair, end, streams[end], random);
      }
      return streams[0].done() && streams[1].done();
    });
    BOOST_REQUIRE_MESSAGE(done, "hangs at " << streams[0].sent << " " << streams[0].received << " and "
                                            << streams[1].sent << " " << streams[1].received);
    pair.run_for(seconds(1));
    for (int end : {0, 1}) {
      totals.overtook += streams[end].overtook;
      BOOST_TEST(pair.completions(end).empty());
      BOOST_TEST((pair.connection(end).next_deadline() == Time::never()));
      const ConnectionCounters& counters = pair.connection(end).counters();
      totals.counters.retransmitted += counters.retransmitted;
      totals.counters.timeouts += counters.timeouts;
      totals.counters.duplicates += counters.duplicates;
      totals.counters.out_of_order += counters.out_of_order;
      totals.counters.sequence_naks_received += counters.sequence_naks_received;
      totals.counters.rnr_naks_received += counters.rnr_naks_received;
      totals.counters.implied_naks += counters.implied_naks;
      BOOST_TEST(counters.ghosts == 0);
      BOOST_TEST(counters.refused == 0);
    }
    totals.struck.lost += pair.struck().lost;
    totals.struck.duplicated += pair.struck().duplicated;
    totals.struck.reordered += pair.struck().reordered;
    totals.struck.corrupted += pair.struck().corrupted;
  }
}

constexpr Faults kModest{.lose = 10'000, .duplicate = 5'000, .reorder = 10'000, .corrupt = 5'000};
constexpr Faults kHeavy{.lose = 100'000, .duplicate = 50'000, .reorder = 100'000, .corrupt = 20'000};

void deliver_in_all_ways(bool selective, bool unordered = false) {
  Totals totals;
  std::uint64_t seed = 1;
  for (std::uint32_t mtu : {256, 512, 1024, 2048, 4096, 8192}) {
    if (!selective && mtu > 4096) continue;
    for (const Faults& faults : {Faults{}, kModest, kModest, kHeavy})
      deliver({selective, mtu, seed++, faults, unordered}, totals);
  }
  BOOST_TEST((totals.overtook > 0) == (selective && unordered));
  BOOST_TEST(totals.struck.lost > 100);
  BOOST_TEST(totals.struck.duplicated > 100);
  BOOST_TEST(totals.struck.reordered > 100);
  BOOST_TEST(totals.struck.corrupted > 100);
  BOOST_TEST(totals.counters.retransmitted > 1000);
  BOOST_TEST(totals.counters.timeouts > 0);
  BOOST_TEST(totals.counters.duplicates > 0);
  BOOST_TEST(totals.counters.out_of_order > 0);
  BOOST_TEST(totals.counters.rnr_naks_received > 0);
  BOOST_TEST(totals.counters.implied_naks > 0);
  if (!selective) BOOST_TEST(totals.counters.sequence_naks_received > 0);
}

}  // namespace

BOOST_AUTO_TEST_CASE(everything_arrives_once_and_in_order_between_foreign_endpoints) {
  deliver_in_all_ways(false);
}

BOOST_AUTO_TEST_CASE(everything_arrives_once_and_in_order_with_selective_repeat) {
  deliver_in_all_ways(true);
}

BOOST_AUTO_TEST_CASE(everything_arrives_once_where_writes_are_unordered) {
  deliver_in_all_ways(true, true);
  deliver_in_all_ways(false, true);
}

BOOST_AUTO_TEST_CASE(eight_mebibytes_arrive_in_one_message) {
  for (const bool selective : {false, true}) {
    for (const SendOpcode opcode : {SendOpcode::send, SendOpcode::write, SendOpcode::read}) {
      const auto configs = mirrored({.path_mtu = 1024, .selective_repeat = selective}, 0xFFFFF0);
      Pair pair(configs[0], configs[1], {.bits_per_second = 10e9, .faults = {.lose = 1'000}}, 3);
      Random random(8);
      std::vector<std::byte> here(8 << 20), there(8 << 20);
      for (auto& byte : here) byte = static_cast<std::byte>(random.next());
      auto& source = opcode == SendOpcode::read ? there : here;
      if (opcode == SendOpcode::read) std::swap(here, there);
      pair.regions(1).add(kKey, kBase, there, RemoteAccess::write | RemoteAccess::read);
      BOOST_REQUIRE(pair.connection(1).post_receive({.bytes = there}));
      if (opcode == SendOpcode::read)
        BOOST_REQUIRE(
            pair.connection(0).post_read({.bytes = here, .remote_address = kBase, .remote_key = kKey}));
      else
        BOOST_REQUIRE(pair.connection(0).post_send(
            {.opcode = opcode, .bytes = source, .remote_address = kBase, .remote_key = kKey}));
      BOOST_TEST(pair.run(Time{} + seconds(100), [&] { return !pair.completions(0).empty(); }));
      BOOST_REQUIRE(pair.completions(0).size() == 1);
      BOOST_TEST((pair.completions(0)[0].cause == FailureCause::none));
      BOOST_TEST(pair.completions(0)[0].byte_count == 8u << 20);
      BOOST_TEST((here == there));
      BOOST_TEST(pair.struck().lost > 0);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::roce::testing
