#include "apps/bcast-cli/transfer_messages.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(transfer_messages_test)

using namespace rdmc;
using namespace rdmc::bcast;

namespace {

BlockMap some_blocks(std::uint64_t blocks) {
  BlockMap map(blocks);
  const auto inserts = *rc::gen::inRange(1, 6);
  for (int i = 0; i < inserts; ++i) map.insert(*rc::gen::inRange<std::uint64_t>(0, blocks));
  return map;
}

session::Bytes damaged(session::Bytes bytes) {
  const auto changes = *rc::gen::inRange(1, 4);
  for (int i = 0; i < changes && !bytes.empty(); ++i) {
    const auto at = *rc::gen::inRange<std::size_t>(0, bytes.size());
    if (*rc::gen::arbitrary<bool>())
      bytes[at] = static_cast<std::byte>(*rc::gen::arbitrary<std::uint8_t>());
    else
      bytes.resize(at);
  }
  return bytes;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_job_arrives_as_it_was_sent_whatever_bytes_are_in_its_names) {
  BOOST_TEST(rc::check([] {
    std::optional<std::uint64_t> limit_rate;
    if (const auto rate = *rc::gen::arbitrary<std::uint64_t>(); rate > 0) limit_rate = rate;
    const JobDescription job{.destination = *rc::gen::arbitrary<std::string>(),
                             .source_name = *rc::gen::arbitrary<std::string>(),
                             .shape = {*rc::gen::inRange<std::uint64_t>(0, std::uint64_t{1} << 62),
                                       kMinBlockSize * *rc::gen::inRange<std::uint32_t>(1, 512)},
                             .allocated_bytes = *rc::gen::arbitrary<std::uint64_t>(),
                             .mode = *rc::gen::inRange<std::uint32_t>(0, 01000),
                             .overwrite = *rc::gen::arbitrary<bool>(),
                             .dry_run = *rc::gen::arbitrary<bool>(),
                             .limit_rate = limit_rate,
                             .encrypt = *rc::gen::arbitrary<bool>()};
    RC_ASSERT(decode_job(encode(job)).value() == job);
  }));
}

BOOST_AUTO_TEST_CASE(a_jobs_mode_loses_what_gives_rights_and_is_refused_if_it_is_none) {
  const auto with = [](std::uint32_t mode) {
    return decode_job(encode(JobDescription{.shape = {100, 4096}, .mode = mode}));
  };
  BOOST_TEST(with(07755).value().mode == 0755u);
  BOOST_TEST(with(0).value().mode == 0u);
  for (const std::uint32_t wrong : {010000U, 0100644U, UINT32_MAX}) {
    const auto refused = with(wrong);
    BOOST_REQUIRE(!refused);
    BOOST_TEST((refused.error().code == Errc::protocol_error));
  }
  // A job without a mode is refused, and so is a job with an invalid mode.
  auto without = encode(JobDescription{.shape = {100, 4096}, .mode = 0644});
  const std::array tag{std::byte{10 << 3}};
  without.resize(static_cast<std::size_t>(std::ranges::find_end(without, tag).begin() - without.begin()));
  BOOST_TEST(!decode_job(without).has_value());
}

BOOST_AUTO_TEST_CASE(an_epochs_parameters_arrive_as_they_were_sent) {
  BOOST_TEST(rc::check([] {
    const FileShape shape{*rc::gen::inRange<std::uint64_t>(1, 1 << 20), 4096};
    const auto sizes =
        *rc::gen::container<std::vector<std::uint32_t>>(rc::gen::inRange<std::uint32_t>(1, 1000));
    const EpochParameters parameters{.algorithm = *rc::gen::elementOf(relay::kAlgorithms),
                                     .racks = sizes.empty() ? relay::Racks{} : *relay::Racks::of(sizes),
                                     .stragglers = *rc::gen::inRange<std::uint32_t>(0, 100),
                                     .suspect_after = milliseconds(*rc::gen::inRange(1, 60'000)),
                                     .blocks = some_blocks(shape.blocks())};
    RC_ASSERT(decode_parameters(encode(parameters), shape).value() == parameters);
  }));
}

BOOST_AUTO_TEST_CASE(damaged_messages_are_refused_or_hold_values_within_bounds) {
  BOOST_TEST(rc::check([] {
    const JobDescription job{.destination = "d", .source_name = "s", .shape = {100'000, 4096}};
    if (const auto decoded = decode_job(damaged(encode(job)))) {
      RC_ASSERT(FileShape::make(decoded->shape.size, decoded->shape.block_size).has_value());
      RC_ASSERT(decoded->mode <= 0777u);
    } else {
      RC_ASSERT(decoded.error().code == Errc::protocol_error);
    }
    const EpochParameters parameters{.racks = *relay::Racks::of(std::vector<std::uint32_t>{3, 1, 2}),
                                     .suspect_after = milliseconds(600),
                                     .blocks = some_blocks(job.shape.blocks())};
    if (const auto decoded = decode_parameters(damaged(encode(parameters)), job.shape)) {
      RC_ASSERT(decoded->blocks.blocks() == job.shape.blocks());
      RC_ASSERT(decoded->blocks.count() > 0);
      RC_ASSERT((decoded->suspect_after > Duration{} && decoded->suspect_after <= seconds(3600)));
    } else {
      RC_ASSERT(decoded.error().code == Errc::protocol_error);
    }
  }));
}

BOOST_AUTO_TEST_CASE(what_makes_no_sense_is_refused) {
  const FileShape shape{100'000, 4096};
  BOOST_TEST(!decode_job({}).has_value(), "no block size");
  const EpochParameters no_blocks{.suspect_after = seconds(1), .blocks = BlockMap(shape.blocks())};
  BOOST_TEST(!decode_parameters(encode(no_blocks), shape).has_value());
  const EpochParameters no_time{.suspect_after = {}, .blocks = BlockMap::full(shape.blocks())};
  BOOST_TEST(!decode_parameters(encode(no_time), shape).has_value());
  const EpochParameters no_algorithm{.algorithm = static_cast<relay::Algorithm>(200),
                                     .suspect_after = seconds(1),
                                     .blocks = BlockMap::full(shape.blocks())};
  BOOST_TEST(!decode_parameters(encode(no_algorithm), shape).has_value());
  const EpochParameters other{.suspect_after = seconds(1), .blocks = BlockMap::full(7)};
  BOOST_TEST(!decode_parameters(encode(other), shape).has_value());
}

BOOST_AUTO_TEST_CASE(a_map_of_too_many_ranges_is_told_smaller_where_it_is_held_and_larger_where_it_is_sent) {
  constexpr std::uint64_t kBlocks = 100'000;
  BlockMap every_second(kBlocks);
  for (std::uint64_t block = 0; block < kBlocks; block += 2) every_second.insert(block);
  const auto held = BlockMap::decode(encode_held(every_second), kBlocks).value();
  BOOST_TEST(((held & every_second) == held));
  BOOST_TEST(held.count() > 0u);
  const FileShape shape{kBlocks * 4096, 4096};
  const auto sent =
      decode_parameters(encode(EpochParameters{.suspect_after = seconds(1), .blocks = every_second}), shape)
          .value();
  BOOST_TEST(((sent.blocks & every_second) == every_second));
}

BOOST_AUTO_TEST_SUITE_END()
