// Tests of groups without processes: GroupEnd, GroupBook, and the control messages of groups.
#include "lib/socket/group_end.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cerrno>

#include "lib/socket/group_book.hpp"
#include "lib/socket/group_words.hpp"

BOOST_AUTO_TEST_SUITE(group_end_test)

using namespace rdmc;
using namespace rdmc::sockets;

namespace {

std::vector<std::byte> bytes_of(std::uint64_t number) {
  return std::vector<std::byte>(number % 7, static_cast<std::byte>(number));
}
GroupEnd::Bytes shared(const std::vector<std::byte>& bytes) {
  auto memory = std::make_shared<GroupEnd::Memory>(bytes.size());
  std::ranges::copy(bytes, memory->begin());
  return memory;
}
GroupEnd::Bytes shared(std::uint64_t number) {
  return shared(bytes_of(number));
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_message_is_read_once_in_order_however_often_views_send_it_again) {
  BOOST_TEST(rc::check([] {
    GroupEnd root, member;
    root.begin(true);
    member.begin(false);
    const auto views = *rc::gen::container<std::vector<std::tuple<std::uint8_t, std::uint8_t, std::uint8_t>>>(
        rc::gen::arbitrary<std::tuple<std::uint8_t, std::uint8_t, std::uint8_t>>());
    const std::uint64_t missed = *rc::gen::inRange<std::uint64_t>(0, 5);
    for (std::uint64_t i = 0; i < missed; ++i) RC_ASSERT(root.send(bytes_of(i)));
    member.open(root.next());
    std::uint64_t arrived = missed, read = missed;
    // In each view, the root sends some messages. Some of them arrive, and some of the arrived ones become
    // stable. Random numbers decide how many.
    for (const auto& [send, come, stable] : views) {
      for (int i = send % 10; i > 0; --i) RC_ASSERT(root.send(bytes_of(root.next())));
      const std::uint64_t first = root.first(), until = first + come % (root.next() - first + 1);
      for (std::uint64_t number = first; number < until; ++number) {
        RC_ASSERT(std::ranges::equal(*root.message(number), bytes_of(number)));
        member.on_message(number, shared(number));
      }
      arrived = std::max(arrived, until);
      if (stable % 2 == 0) root.on_stable(first + (until - first) / 2);
      if (stable % 5 == 0) member.on_event({.kind = RDMC_MEMBER_LEFT});
      std::array<std::byte, 8> out;
      for (int i = stable % 8; i > 0 && read < arrived; --i, ++read) {
        const auto got = member.receive(out, false);
        RC_ASSERT((got == Answer(read % 7)));
        RC_ASSERT(std::ranges::equal(std::span(out).first(*got), bytes_of(read)));
      }
    }
    std::array<std::byte, 8> out;
    for (; read < arrived; ++read) RC_ASSERT((member.receive(out, false) == Answer(read % 7)));
    RC_ASSERT((member.receive(out, false) == Answer(std::unexpected(EAGAIN))));
    member.end(0);
    RC_ASSERT((member.receive(out, false) == Answer(0)));
  }));
}

BOOST_AUTO_TEST_CASE(who_may_not_send_or_receive_is_told_why_and_a_root_that_is_not_heard_waits) {
  GroupEnd end, member;
  const std::vector<std::byte> block(GroupEnd::kMostKept, std::byte{1});
  std::array<std::byte, 1> out;
  BOOST_TEST((end.send(block) == Answer(std::unexpected(ENOTCONN))));
  BOOST_TEST((end.receive(out, false) == Answer(std::unexpected(ENOTCONN))));
  member.begin(false);
  BOOST_TEST((member.send(block) == Answer(std::unexpected(EAGAIN))));
  member.open(0);
  BOOST_TEST((member.send(block) == Answer(std::unexpected(EOPNOTSUPP))));
  end.begin(true);
  BOOST_TEST((end.send(block) == Answer(block.size())));
  BOOST_TEST(!(end.events() & kWritable));
  BOOST_TEST((end.send(out) == Answer(std::unexpected(EAGAIN))));
  end.on_stable(1);
  BOOST_TEST((end.events() & kWritable));
  std::size_t read = 0;
  member.on_room = [&](std::size_t charge) { read += charge; };
  BOOST_TEST(member.on_message(0, shared(block)));
  BOOST_TEST(!member.on_message(0, shared(block)));
  BOOST_TEST((member.receive(out, true) == Answer(block.size())));
  BOOST_TEST(read == 0u);
  BOOST_TEST((member.receive(out, false) == Answer(block.size())));
  BOOST_TEST(read == GroupEnd::charge(block.size()));
  member.on_event({.kind = RDMC_MEMBER_FAILED, .member = 5});
  BOOST_TEST((member.events() & kReadable));
  BOOST_TEST(member.take_event().value().member == 5U);
  BOOST_TEST(!member.take_event());
  member.end(ECONNRESET);
  BOOST_TEST((member.events() & (kFailed | kHungUp)) == (kFailed | kHungUp));
  BOOST_TEST((member.receive(out, false) == Answer(std::unexpected(ECONNRESET))));
  BOOST_TEST((member.receive(out, false) == Answer(0)));
}

BOOST_AUTO_TEST_CASE(messages_of_nothing_are_held_up_too_when_nobody_has_them) {
  GroupEnd root;
  root.begin(true);
  const auto send_until_refused = [&] {
    std::uint64_t sent = 0;
    while (sent < 1'000'000 && root.send({})) ++sent;
    return sent;
  };
  const std::uint64_t sent = send_until_refused();
  BOOST_TEST((sent > 10'000 && sent < 1'000'000));
  BOOST_TEST(!(root.events() & kWritable));
  root.on_stable(sent);
  BOOST_TEST(send_until_refused() == sent);
}

BOOST_AUTO_TEST_CASE(of_members_it_is_kept_what_somebody_reads_and_no_more_than_the_newest) {
  BOOST_TEST(rc::check([] {
    GroupEnd end;
    end.begin(false);
    end.open(0);
    const auto steps = *rc::gen::container<std::vector<std::uint16_t>>(rc::gen::arbitrary<std::uint16_t>());
    std::uint64_t messages = 0, read = 0;
    std::uint32_t told = 0, heard = 0;
    std::size_t waiting = 0;
    std::array<std::byte, 8> out;
    for (const auto step : steps) {
      const bool is_burst = step % 4 == 0;
      for (int i = is_burst ? step % 600 : 0; i > 0; --i)
        end.on_event({.kind = RDMC_MEMBER_JOINED, .member = ++told});
      if (is_burst) waiting = std::min<std::size_t>(waiting + step % 600, GroupEnd::kMostEvents);
      if (step % 4 == 1) end.on_message(messages, shared(messages)), ++messages;
      if (step % 4 == 2) {
        end.want_events(true);
        while (const auto event = end.take_event()) {
          heard += event->missed + 1;
          RC_ASSERT(event->member == heard);
          RC_ASSERT(waiting-- > 0U);
        }
      }
      if (step % 4 == 3) {
        end.want_events(false);
        waiting = 0, heard = told;
        for (; read < messages; ++read) RC_ASSERT((end.receive(out, false) == Answer(read % 7)));
        end.on_event({.kind = RDMC_MEMBER_LEFT});
        RC_ASSERT(!(end.events() & kReadable));
        end.want_events(true);
      }
      RC_ASSERT(((end.events() & kReadable) != 0) == (waiting > 0 || read < messages));
    }
  }));
}

BOOST_AUTO_TEST_CASE(views_have_ascending_epochs_and_exactly_those_who_are_ready_and_not_gone) {
  BOOST_TEST(rc::check([] {
    GroupBook book;
    std::vector<std::uint32_t> joining, in;
    std::uint64_t epoch = 0;
    const auto any = [](const auto& from, unsigned which) { return from[which % from.size()]; };
    const auto steps = *rc::gen::container<std::vector<std::pair<std::uint8_t, std::uint8_t>>>(
        rc::gen::arbitrary<std::pair<std::uint8_t, std::uint8_t>>());
    for (const auto& [what, which] : steps) {
      std::optional<GroupBook::View> view;
      bool changes = false;
      if (what % 4 == 0) {
        joining.push_back(book.join().value());
      } else if (what % 4 == 1 && !joining.empty()) {
        const auto node = any(joining, which);
        std::erase(joining, node);
        in.push_back(node);
        view = book.ready(node);
        changes = true;
        RC_ASSERT(view && view->event == GroupBook::Event::joined && view->subject == node);
      } else if (what % 4 == 2) {
        // No view has this epoch.
        RC_ASSERT(!book.failed(GroupBook::kRoot, epoch + 1, std::nullopt));
        // These members are not in a view yet.
        if (!joining.empty()) {
          RC_ASSERT(!book.failed(GroupBook::kRoot, epoch, any(joining, which)));
          RC_ASSERT(!book.failed(any(joining, which), epoch, std::nullopt));
        }
        if (in.empty()) continue;
        const auto node = any(in, which);
        std::erase(in, node);
        // Either the root reports that the member has failed, or this member alone reports that the root has
        // failed.
        view = which % 2 == 0 ? book.failed(GroupBook::kRoot, epoch, node)
                              : book.failed(node, epoch, GroupBook::kRoot);
        changes = true;
        RC_ASSERT(view && view->event == GroupBook::Event::failed && view->subject == node);
      } else if (what % 4 == 3 && !joining.empty()) {
        const auto node = any(joining, which);
        std::erase(joining, node);
        view = book.lost(node, which % 2 == 0);
      }
      RC_ASSERT(view.has_value() == changes);
      if (!view) continue;
      RC_ASSERT(view->epoch == ++epoch);
      std::vector<std::uint32_t> members(view->nodes.begin() + 1, view->nodes.end());
      std::ranges::sort(in);
      RC_ASSERT(view->nodes.front() == GroupBook::kRoot && members == in);
    }
  }));
}

BOOST_AUTO_TEST_CASE(words_are_read_back_as_they_were_written_and_what_is_cut_off_is_refused) {
  BOOST_TEST(rc::check([] {
    GroupWord word{.kind = GroupWordKind{*rc::gen::inRange<std::uint8_t>(1, 8)},
                   .event = *rc::gen::arbitrary<std::uint8_t>(),
                   .node = {},
                   .epoch = *rc::gen::arbitrary<std::uint64_t>(),
                   .first = *rc::gen::arbitrary<std::uint64_t>(),
                   .next = *rc::gen::arbitrary<std::uint64_t>(),
                   .nodes = *rc::gen::arbitrary<std::vector<std::uint32_t>>(),
                   .bytes = {}};
    if (*rc::gen::arbitrary<bool>()) word.node = *rc::gen::arbitrary<std::uint32_t>();
    auto encoded = encode(word);
    const auto cut = *rc::gen::inRange<std::size_t>(0, encoded.size());
    RC_ASSERT(!decode_group_word(std::span(encoded).first(cut)).has_value());
    word.bytes.assign(*rc::gen::inRange<std::size_t>(0, 100), std::byte{7});
    const auto read = decode_group_word(encode(word));
    RC_ASSERT(read.has_value() && *read == word);
  }));
}

BOOST_AUTO_TEST_SUITE_END()
