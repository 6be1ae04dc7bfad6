// The format of the files of a server, without files.
#include "apps/replicated-kv/log/frames.hpp"

#include <rapidcheck.h>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <random>
#include <string>

BOOST_AUTO_TEST_SUITE(frames_test)

using namespace rdmc;
using namespace rdmc::kv;

namespace {

using Bytes = std::vector<std::byte>;

class Memory final : public FileSource {
 public:
  explicit Memory(Bytes bytes) : bytes_(std::move(bytes)) {}
  Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> to) override {
    if (offset >= bytes_.size()) return std::size_t{0};
    const std::size_t count = std::min(to.size(), bytes_.size() - offset);
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), count, to.begin());
    return count;
  }

 private:
  const Bytes bytes_;
};

constexpr std::uint64_t kId = 77;

/// A file, and what its frames are.
struct Written {
  struct Frame {
    std::uint64_t begin = 0, durable = 0;
    Bytes bytes;
  };
  Bytes file = encode(FileHead{FileKind::log, kId, {}});
  std::vector<Frame> frames;

  std::size_t end_of(std::size_t index) const {
    return index + 1 < frames.size() ? frames[index + 1].begin : file.size();
  }
};

/// Frames of any length. Some of them have the bytes of earlier frames of the file.
Written any_file(std::mt19937_64& random) {
  Written written;
  std::uint64_t durable = 0;
  for (auto count = random() % 40; count > 0; --count) {
    if (random() % 3 == 0) durable = written.file.size();
    Bytes bytes;
    if (random() % 4 == 0) {
      const auto begin = static_cast<std::ptrdiff_t>(random() % written.file.size());
      bytes.assign(written.file.begin() + begin, written.file.end());
    } else {
      bytes.resize(random() % 300);
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    }
    written.frames.push_back({written.file.size(), durable, bytes});
    put_frame(written.file, {.id = kId, .offset = written.file.size(), .durable = durable}, bytes);
  }
  return written;
}

/// Reads all frames. Returns the error, if there was one.
std::string read(const Bytes& file, std::vector<Bytes>& frames) {
  Memory source(file);
  FrameReader reader(source, kId);
  for (;;) {
    const auto next = reader.next();
    if (!next) return next.error().what;
    if (!*next) return {};
    frames.emplace_back((*next)->begin(), (*next)->end());
  }
}

void check_prefix(const Written& written, const std::vector<Bytes>& frames, std::size_t count) {
  BOOST_REQUIRE_EQUAL(frames.size(), count);
  for (std::size_t i = 0; i < count; ++i) BOOST_REQUIRE(frames[i] == written.frames[i].bytes);
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_a_loss_of_power_has_cut_off_is_left_out) {
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    std::mt19937_64 random(seed);
    const Written written = any_file(random);
    Bytes file = written.file;
    const std::uint64_t durable = written.frames.empty() ? kFileHeadBytes : written.frames.back().durable;
    const std::size_t cut =
        std::max<std::size_t>(durable + random() % (file.size() - durable + 1), kFileHeadBytes);
    file.resize(cut);
    // A disk may have reserved space, and a file system may not write what it has got in its order.
    if (random() % 2 == 0) file.resize(cut + random() % 5000);
    std::vector<Bytes> frames;
    BOOST_REQUIRE_EQUAL(read(file, frames), "");
    std::size_t whole = 0;
    while (whole < written.frames.size() && written.end_of(whole) <= cut) ++whole;
    check_prefix(written, frames, whole);
  }
}

BOOST_AUTO_TEST_CASE(damage_to_what_was_on_disk_is_found_with_its_offset) {
  std::size_t damaged = 0, cut_off = 0;
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    std::mt19937_64 random(seed);
    const Written written = any_file(random);
    if (written.frames.empty()) continue;
    Bytes file = written.file;
    const std::size_t at = kFileHeadBytes + random() % (file.size() - kFileHeadBytes);
    file[at] ^= static_cast<std::byte>(1 << random() % 8);
    std::size_t index = 0;
    while (written.end_of(index) <= at) ++index;
    const std::uint64_t begin = written.frames[index].begin;
    const bool is_damage =
        std::any_of(written.frames.begin() + static_cast<std::ptrdiff_t>(index) + 1, written.frames.end(),
                    [&](const auto& one) { return one.durable > begin; });
    std::vector<Bytes> frames;
    BOOST_REQUIRE_EQUAL(read(file, frames), is_damage ? "damaged at offset " + std::to_string(begin) : "");
    check_prefix(written, frames, index);
    ++(is_damage ? damaged : cut_off);
  }
  BOOST_TEST(damaged > 100u);
  BOOST_TEST(cut_off > 100u);
}

BOOST_AUTO_TEST_CASE(a_long_file_is_read_in_pieces) {
  Written written;
  for (std::size_t i = 0; i < 700; ++i) {
    const Bytes bytes(i * 37 % 9000, static_cast<std::byte>(i));
    written.frames.push_back({written.file.size(), 0, bytes});
    put_frame(written.file, {.id = kId, .offset = written.file.size()}, bytes);
  }
  std::vector<Bytes> frames;
  BOOST_REQUIRE_EQUAL(read(written.file, frames), "");
  check_prefix(written, frames, written.frames.size());
}

BOOST_AUTO_TEST_CASE(a_head_means_the_same_when_it_is_read) {
  BOOST_TEST(rc::check("heads", [](std::uint64_t id, std::uint64_t epoch, std::uint64_t position) {
    for (const FileKind kind : {FileKind::log, FileKind::log_after_copy, FileKind::copy}) {
      const FileHead head{kind, id, {.epoch = epoch, .position = position, .time = INT64_MAX}};
      auto bytes = encode(head);
      RC_ASSERT((decode_file_head(bytes) && *decode_file_head(bytes) == head));
      bytes[*rc::gen::inRange<std::size_t>(0, bytes.size())] ^= std::byte{4};
      RC_ASSERT(!decode_file_head(bytes));
    }
  }));
  BOOST_TEST(rc::check("events", [](std::uint64_t position, std::uint64_t epoch, const std::string& text) {
    const OrderedEvent event{.position = position,
                             .epoch = epoch,
                             .own_number = 0,
                             .time = INT64_MAX,
                             .random = epoch / 3,
                             .bytes = std::as_bytes(std::span(text)),
                             .keeper = {}};
    const auto bytes = encode_logged(event);
    const auto read = decode_logged(bytes);
    RC_ASSERT((read && read->position == position && read->epoch == epoch && read->time == event.time &&
               read->random == event.random && std::ranges::equal(read->bytes, event.bytes)));
  }));
}

BOOST_AUTO_TEST_SUITE_END()
