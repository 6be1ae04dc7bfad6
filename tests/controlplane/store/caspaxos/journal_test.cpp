#include "controlplane/store/caspaxos/journal.hpp"

#include <boost/test/unit_test.hpp>

#include "tests/controlplane/store/caspaxos/values.hpp"

namespace rdmc::store::testing {
BOOST_AUTO_TEST_SUITE(journal_test)
namespace {

/// A journal of three frames, and the state after each frame.
struct Written {
  Written() {
    Acceptor acceptor(first_state(0));
    const auto write = [&] {
      const Bytes frame = journal.frame(*acceptor.take_write());
      bytes.insert(bytes.end(), frame.begin(), frame.end());
      ends.push_back(bytes.size());
      states.push_back(acceptor.kept());
    };
    write();
    acceptor.accept({"g", {ballot(1, 1), value(1)}});
    write();
    acceptor.accept({"g", {ballot(1, 2), value(2)}});
    acceptor.accept({"h", {ballot(1, 2), value(3)}});
    write();
  }
  Journal journal;
  Bytes bytes;
  std::vector<std::size_t> ends;
  std::vector<Durable> states;
};

BOOST_FIXTURE_TEST_CASE(a_journal_gives_back_what_was_written, Written) {
  const auto recovered = recover(bytes);
  BOOST_TEST_REQUIRE(recovered.has_value());
  BOOST_TEST((*recovered == states.back()));
}

BOOST_FIXTURE_TEST_CASE(a_frame_that_was_cut_off_is_as_if_it_had_never_been_written, Written) {
  for (std::size_t length = ends[0]; length < bytes.size(); ++length) {
    const auto recovered = recover(std::span(bytes).first(length));
    BOOST_TEST_REQUIRE(recovered.has_value());
    BOOST_TEST((*recovered == states[length < ends[1] ? 0 : 1]));
  }
  for (std::size_t length = 0; length < ends[0]; ++length)
    BOOST_TEST(!recover(std::span(bytes).first(length)).has_value());
}

BOOST_FIXTURE_TEST_CASE(no_flipped_bit_is_taken_for_what_was_written, Written) {
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    const auto recovered = recover(bytes);
    // Damage before the last frame is an error. Damage in the last frame looks like an incomplete write,
    // which is dropped.
    if (bit / 8 < ends[1])
      BOOST_TEST(!recovered.has_value());
    else
      BOOST_TEST((recovered.has_value() && *recovered == states[1]));
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

BOOST_AUTO_TEST_CASE(what_is_no_journal_is_refused) {
  BOOST_TEST((recover({}).error().code == Errc::corrupt));
  BOOST_TEST((recover(Bytes(4096)).error().code == Errc::corrupt));
  BOOST_TEST((recover(Bytes(4096, std::byte{0xff})).error().code == Errc::corrupt));
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
}  // namespace rdmc::store::testing
