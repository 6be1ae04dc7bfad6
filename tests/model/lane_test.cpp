#include "lib/socket/lane.hpp"

#include <array>
#include <boost/test/unit_test.hpp>
#include <memory>
#include <numeric>
#include <vector>

#include "lib/socket/lane_wait.hpp"
#include "tests/model/machine.hpp"

BOOST_AUTO_TEST_SUITE(lane_test)

using namespace rdmc;
using namespace rdmc::sockets;
using model::Machine;

namespace {

/// The memory of this process in the role of the writer's memory. Other threads may run before each byte is
/// read.
struct SteppedMemory final : fabric::PeerMemory {
  std::size_t read(std::uint64_t address, std::span<std::byte> to) const override {
    for (std::size_t i = 0; i < to.size(); ++i) {
      Machine::fence();
      to[i] = reinterpret_cast<const std::byte*>(address)[i];
    }
    return to.size();
  }
  bool is_present(std::uint64_t, std::size_t) const override { return true; }
};

constexpr std::size_t kRing = 4;

/// A lane between two threads. The writer sends `source`, and the reader receives into `out`.
struct Lane {
  explicit Lane(std::size_t bytes, bool lends) : source(bytes), out(bytes) {
    for (std::size_t i = 0; i < bytes; ++i) source[i] = static_cast<std::byte>(i + 1);
    memory = {.owner = nullptr, .head = &head, .ring = ring};
    if (lends) memory.peer = std::make_shared<SteppedMemory>();
    writer.emplace(memory);
    reader.emplace(memory);
  }

  /// Sleeps as a call of a socket does: it sets the word, tries once more, and sleeps only if nothing has
  /// changed.
  template <typename Attempt>
  static void until_done(const LaneMemory& memory, Wants wants, Attempt attempt) {
    const LaneWait lane(memory, wants);
    for (bool is_armed = false; !attempt();) {
      if (is_armed) {
        const std::uint32_t asleep = 1;
        Machine::wait(&lane.word(), &asleep, sizeof asleep);
      } else {
        lane.word() = 1;
      }
      is_armed = !is_armed;
    }
  }

  /// Writes everything to the ring buffer.
  void write_all() {
    std::size_t done = 0;
    until_done(memory, Wants::room, [&] {
      done += writer->write(std::span(source).subspan(done));
      return done == source.size();
    });
  }
  /// Offers the first `most` bytes by an advert and the next byte in the ring buffer, and waits until the
  /// reader has accepted them. Cancels the advert if `cancels`, and writes what is left to the ring buffer.
  void lend(std::size_t most, bool cancels) {
    const auto all = std::span<const std::byte>(source);
    writer->advertise(all.first(most), all.subspan(most, std::min<std::size_t>(1, all.size() - most)));
    std::size_t done = 0;
    if (!cancels)
      until_done(memory, Wants::room, [&] {
        done += writer->collect();
        return !writer->is_advertising() || !writer->may_advertise();
      });
    done += writer->cancel();
    // The application may use its memory again now. A reader that still copies from it gets wrong bytes.
    const auto rest = std::vector(source.begin() + static_cast<std::ptrdiff_t>(done), source.end());
    if (cancels) std::ranges::fill(source, std::byte{0xee});
    std::size_t written = 0;
    until_done(memory, Wants::room, [&] {
      written += writer->write(std::span(rest).subspan(written));
      return written == rest.size();
    });
  }
  void read_all(bool declines = false) {
    std::size_t done = 0;
    until_done(memory, Wants::bytes, [&] {
      const auto to = std::span(out).subspan(done);
      done += reader->read(to, false);
      if (done == out.size()) return true;
      if (const auto lent = reader->lent(out.size() - done)) {
        if (declines) {
          reader->decline();
          return false;
        }
        const std::size_t copied =
            lent->memory->read(lent->address, std::span(out).subspan(done, lent->count));
        done += reader->settle(*lent, copied, false);
      }
      return done == out.size();
    });
  }

  LaneHead head;
  std::array<std::byte, kRing> ring{};
  std::vector<std::byte> source, out;
  LaneMemory memory;
  std::optional<LaneWriter> writer;
  std::optional<LaneReader> reader;
};

struct Result {
  model::Outcome outcome;
  std::size_t wrong = 0;  ///< The runs in which the reader got wrong bytes.
};

template <typename Write, typename Read>
Result explore(std::size_t bytes, bool lends, const model::Options& options, Write write, Read read) {
  std::unique_ptr<Lane> lane;
  Result result;
  result.outcome = Machine::explore(
      options,
      [&] {
        lane = std::make_unique<Lane>(bytes, lends);
        return std::vector<Machine::Program>{[&] { write(*lane); }, [&] { read(*lane); }};
      },
      [&] {
        std::vector<std::byte> sent(bytes);
        for (std::size_t i = 0; i < bytes; ++i) sent[i] = static_cast<std::byte>(i + 1);
        result.wrong += lane->out == sent ? 0 : 1;
      });
  return result;
}

void check(const Result& result) {
  BOOST_TEST(result.outcome.runs > 500u);
  BOOST_TEST(result.outcome.stuck == 0u);
  BOOST_TEST(result.wrong == 0u);
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_written_is_read_and_neither_end_sleeps_for_ever) {
  check(explore(
      6, false, {.preemptions = 3}, [](Lane& lane) { lane.write_all(); },
      [](Lane& lane) { lane.read_all(); }));
}

BOOST_AUTO_TEST_CASE(with_weak_stores_an_end_sleeps_for_ever) {
  const Result result = explore(
      6, false, {.preemptions = 2, .has_weak_stores = true}, [](Lane& lane) { lane.write_all(); },
      [](Lane& lane) { lane.read_all(); });
  BOOST_TEST(result.outcome.stuck > 0u);
}

BOOST_AUTO_TEST_CASE(lent_bytes_are_read_and_the_writer_wakes_up_when_they_are) {
  check(explore(
      4, true, {.preemptions = 3}, [](Lane& lane) { lane.lend(2, false); },
      [](Lane& lane) { lane.read_all(); }));
}

BOOST_AUTO_TEST_CASE(a_declined_advert_wakes_the_writer) {
  check(explore(
      4, true, {.preemptions = 3}, [](Lane& lane) { lane.lend(2, false); },
      [](Lane& lane) { lane.read_all(true); }));
}

BOOST_AUTO_TEST_CASE(after_a_cancel_no_lent_byte_is_counted_by_only_one_end) {
  check(explore(
      4, true, {.preemptions = 3}, [](Lane& lane) { lane.lend(2, true); },
      [](Lane& lane) { lane.read_all(); }));
}

BOOST_AUTO_TEST_SUITE_END()
