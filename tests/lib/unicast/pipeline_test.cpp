// Tests operations of all kinds that are in flight at the same time. Each must have its effect, and their
// completions must be in the order of posting.
#include <rapidcheck.h>
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <deque>
#include <functional>
#include <tuple>

#include "tests/lib/unicast/endpoints.hpp"

BOOST_AUTO_TEST_SUITE(pipeline_test)

using namespace rdmc;
using namespace rdmc::testing;

namespace {

// The size of each of the three parts of the memory. The parts contain words for atomic operations, bytes to
// read, and bytes to write.
constexpr std::size_t kPart = 16 * 1024;
constexpr std::size_t kMost = 60;  // The largest number of operations in flight. It is less than kMostCopies.

struct Drawn {
  int kind = 0;
  std::size_t offset = 0, bytes = 0;
  std::uint64_t number = 0;
};

rc::Gen<std::vector<Drawn>> operations() {
  return rc::gen::resize(kMost,
                         rc::gen::container<std::vector<Drawn>>(rc::gen::build<Drawn>(
                             rc::gen::set(&Drawn::kind, rc::gen::inRange(0, 7)),
                             rc::gen::set(&Drawn::offset, rc::gen::inRange<std::size_t>(0, kPart / 2)),
                             rc::gen::set(&Drawn::bytes, rc::gen::element<std::size_t>(0, 1, 100, 4096)),
                             rc::gen::set(&Drawn::number, rc::gen::inRange<std::uint64_t>(0, 3)))));
}

/// The expected result of an operation at the side that posts it. `Arrived` is the expected result of the
/// receive that the operation uses.
struct Expected {
  WorkKind kind = WorkKind::send;
  std::optional<std::uint64_t> original = {};
  std::span<const std::byte> read = {}, in_memory = {};
};
struct Arrived {
  WorkKind kind = WorkKind::receive;
  std::optional<std::uint32_t> immediate = {};
  std::span<const std::byte> sent = {}, room = {};
};

class World {
 public:
  World(const char* fabric, Way way) : other_({.fabric = fabric}), us_({.fabric = fabric}, way) {
    std::tie(here_, there_) = connect(us_, other_);
    region_ = *other_->register_memory(memory_, kAllAccess);
    key_ = *region_.grant(there_);
    for (std::size_t i = 0; i < kPart; ++i) memory_[kPart + i] = model_[kPart + i] = std::byte(i * 7);
  }

  void run(const std::vector<Drawn>& drawn) {
    buffers_.clear();
    expected_.clear();
    arrived_.clear();
    asks_.clear();
    for (std::size_t i = 0; i < drawn.size(); ++i) prepare(drawn[i], i);
    // By now, all receives have been posted.
    for (const auto& ask : asks_) RC_ASSERT(ask().has_value());
    for (std::size_t i = 0; i < expected_.size(); ++i) {
      const Completion done = us_.next();
      RC_ASSERT(is(done, expected_[i].kind, i));
      if (expected_[i].original) RC_ASSERT(done.original == *expected_[i].original);
      RC_ASSERT(std::ranges::equal(expected_[i].read, expected_[i].in_memory));
    }
    for (std::size_t i = 0; i < arrived_.size(); ++i) {
      const Completion done = other_.next();
      RC_ASSERT(is(done, arrived_[i].kind, i));
      RC_ASSERT(done.immediate == arrived_[i].immediate);
      RC_ASSERT(done.byte_count == arrived_[i].sent.size());
      if (arrived_[i].kind == WorkKind::receive)
        RC_ASSERT(std::ranges::equal(arrived_[i].room.first(done.byte_count), arrived_[i].sent));
    }
    RC_ASSERT(memory_ == model_);
  }

 private:
  std::span<std::byte> buffer(std::size_t bytes, std::byte value) {
    return buffers_.emplace_back(bytes, value);
  }
  void expect_receive(Arrived arrived) {
    RC_ASSERT(there_.post_receive(buffer(arrived.sent.size(), {}), arrived_.size()).has_value());
    arrived.room = buffers_.back();
    arrived_.push_back(arrived);
  }
  /// Prepares an operation and the model of its result. Posts the receive that the operation uses.
  void prepare(const Drawn& one, std::uint64_t id) {
    const auto bytes = buffer(one.bytes, std::byte(++last_value_));
    // Uses only four words, so that several operations use the same word.
    std::byte* const word = model_.data() + one.offset % 32 / 8 * 8;
    std::uint64_t value = 0;
    std::memcpy(&value, word, sizeof value);
    const auto written = std::span(model_).subspan(2 * kPart + one.offset, one.bytes);
    switch (one.kind) {
      case 0:
        expect_receive({.sent = bytes});
        asks_.push_back([=, this] { return here_.send(bytes, id); });
        return expected_.push_back({.kind = WorkKind::send});
      case 1: {
        const auto copied = bytes.first(std::min(bytes.size(), Endpoint::kMostCopiedBytes));
        expect_receive({.immediate = 5, .sent = copied});
        asks_.push_back([=, this] { return here_.send_copy(copied, id, 5); });
        return expected_.push_back({.kind = WorkKind::send});
      }
      case 2:
        asks_.push_back([=, this] { return here_.write(bytes, key_, 2 * kPart + one.offset, id); });
        std::ranges::copy(bytes, written.begin());
        return expected_.push_back({.kind = WorkKind::write});
      case 3:
        expect_receive({.kind = WorkKind::receive_write_immediate, .immediate = 9, .sent = bytes});
        asks_.push_back(
            [=, this] { return here_.write_with_immediate(bytes, key_, 2 * kPart + one.offset, 9, id); });
        std::ranges::copy(bytes, written.begin());
        return expected_.push_back({.kind = WorkKind::write});
      case 4:
        asks_.push_back([=, this] { return here_.read(bytes, key_, kPart + one.offset, id); });
        return expected_.push_back({.kind = WorkKind::read,
                                    .read = bytes,
                                    .in_memory = std::span(model_).subspan(kPart + one.offset, one.bytes)});
      case 5: {
        const std::uint64_t compared = one.number == 0 ? value : one.number;
        asks_.push_back(
            [=, this] { return here_.compare_and_swap(key_, offset_of(word), compared, one.bytes, id); });
        expected_.push_back({.kind = WorkKind::atomic, .original = value});
        if (value == compared) value = one.bytes;
        break;
      }
      default:
        asks_.push_back([=, this] { return here_.fetch_and_add(key_, offset_of(word), one.number, id); });
        expected_.push_back({.kind = WorkKind::atomic, .original = value});
        value += one.number;
    }
    std::memcpy(word, &value, sizeof value);
  }
  std::size_t offset_of(const std::byte* word) const {
    return static_cast<std::size_t>(word - model_.data());
  }

  std::vector<std::byte> memory_ = std::vector<std::byte>(3 * kPart);
  std::vector<std::byte> model_ = memory_;
  std::deque<std::vector<std::byte>> buffers_;
  std::vector<std::function<Result<void>()>> asks_;
  std::vector<Expected> expected_;
  std::vector<Arrived> arrived_;
  unsigned last_value_ = 0;
  Party other_, us_;
  Connection here_, there_;
  Region region_;
  RemoteMemory key_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(completions_of_all_kinds_come_in_the_order_of_posting) {
  for (const char* const fabric : {"udp", "shm", "auto"}) {
    for (const Way way : {Way::upcalls, Way::drives_and_polls}) {
      BOOST_TEST_CONTEXT(fabric << ", way " << static_cast<int>(way)) {
        World world(fabric, way);
        BOOST_TEST(rc::check("operations under way together", [&] { world.run(*operations()); }));
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
