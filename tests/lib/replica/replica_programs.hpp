// Programs of ranks, for tests of replicas on a FakeNetwork. An object is one process. It takes one step of
// its program at a time, so that a test can let all processes run in any order.
#pragma once

#include <boost/test/unit_test.hpp>
#include <deque>
#include <map>
#include <vector>

#include "tests/lib/replica/fake_network.hpp"

namespace rdmc::replica::testing {

inline constexpr ContextId kWorld{1};
inline constexpr std::size_t kLong = Messenger::kMostEagerBytes + 1;

struct Message {
  std::uint32_t from = 0, to = 0;
  std::int32_t tag = 0;
  std::vector<std::byte> bytes;
};

inline std::vector<std::byte> any_bytes(FakeNetwork& network) {
  std::size_t length = 0;
  switch (network.draw(4)) {
    case 0: length = network.draw(64); break;
    case 1: length = Messenger::kMostEagerBytes + network.draw(3) - 1; break;
    case 2: length = network.draw(3 * kLong); break;
    default: length = network.draw(1000);
  }
  std::vector<std::byte> made(length);
  for (auto& byte : made) byte = static_cast<std::byte>(network.draw(256));
  return made;
}

/// One process that runs its part of the program: it begins its sends and receives in the order of the
/// messages. It waits for a request only at the end, or after each message if `waits` is true.
class Process {
 public:
  Process(FakeNetwork& network, std::uint32_t number, std::uint32_t rank, bool waits,
          const std::vector<Message>& messages)
      : network_(network), number_(number), rank_(rank), waits_(waits), messages_(messages) {}

  /// Takes the next step. Returns false if there is none.
  bool step() {
    if (network_.is_dead(number_) || next_ == messages_.size() || (waits_ && !is_complete())) return false;
    const Message& message = messages_[next_++];
    if (message.to == rank_) {
      // Half of the ranks receive from any source. They then get the messages of each channel in order.
      const bool is_any = rank_ % 2 == 1;
      received_.emplace_back(3 * kLong);
      receives_.push_back(network_.messenger(number_).receive(
          kWorld, received_.back(), is_any ? Messenger::kAny : static_cast<std::int32_t>(message.from),
          is_any ? Messenger::kAny : message.tag));
    }
    if (message.from == rank_)
      sends_.push_back(network_.messenger(number_).send(kWorld, message.bytes, message.to, message.tag));
    return true;
  }

  bool is_complete() const {
    const auto complete = [&](RequestId id) { return network_.messenger(number_).is_complete(id); };
    return std::ranges::all_of(sends_, complete) && std::ranges::all_of(receives_, complete);
  }

  /// True if it has begun all its sends and receives.
  bool is_at_end() const { return next_ == messages_.size(); }

  /// This process becomes a copy of `parent`, as after a fork.
  void copy(const Process& parent) {
    next_ = parent.next_;
    received_ = parent.received_;
    sends_ = parent.sends_;
    receives_ = parent.receives_;
  }
  /// Returns the memory here that corresponds to `at` in the memory of `parent`.
  const std::byte* moved(const Process& parent, const std::byte* at) const {
    for (std::size_t i = 0; i < received_.size(); ++i)
      if (parent.received_[i].data() == at) return received_[i].data();
    return at;  // The bytes of the messages are the same for all.
  }

  /// All messages must have arrived, each channel in its order.
  void check() {
    if (network_.is_dead(number_)) return;
    BOOST_REQUIRE_EQUAL(next_, messages_.size());
    for (const RequestId send : sends_) {
      BOOST_REQUIRE(network_.messenger(number_).is_complete(send));
      BOOST_REQUIRE(network_.messenger(number_).take(send).has_value());
    }
    std::map<std::pair<std::uint32_t, std::int32_t>, std::vector<const Message*>> channels;
    for (auto message = messages_.rbegin(); message != messages_.rend(); ++message)
      if (message->to == rank_) channels[{message->from, message->tag}].push_back(&*message);
    auto bytes = received_.begin();
    for (const RequestId receive : receives_) {
      BOOST_REQUIRE(network_.messenger(number_).is_complete(receive));
      const auto done = network_.messenger(number_).take(receive);
      BOOST_REQUIRE_MESSAGE(done.has_value(), (done ? "" : done.error().what));
      auto& channel = channels[{done->source, done->tag}];
      BOOST_REQUIRE(!channel.empty());
      BOOST_REQUIRE(std::ranges::equal(std::span(*bytes++).first(done->bytes), channel.back()->bytes));
      channel.pop_back();
    }
  }

 private:
  FakeNetwork& network_;
  std::uint32_t number_, rank_;
  bool waits_;
  const std::vector<Message>& messages_;
  std::size_t next_ = 0;
  std::deque<std::vector<std::byte>> received_;
  std::vector<RequestId> sends_, receives_;
};

/// A process of a program in which the ranks exchange values in rounds. A rank receives the values of a round
/// from any source, and then tells rank 0, which lets all ranks begin the next round. So a value of the next
/// round must never be received in place of one of this round.
class RoundProcess {
 public:
  static constexpr std::uint32_t kRounds = 6;
  enum Tag : std::int32_t { value, done, next };

  RoundProcess(FakeNetwork& network, std::uint32_t number, std::uint32_t rank, std::uint32_t ranks)
      : network_(network), number_(number), rank_(rank), ranks_(ranks) {}

  bool step() {
    if (network_.is_dead(number_) || round_ == kRounds) return false;
    auto& messenger = network_.messenger(number_);
    for (const RequestId request : requests_)
      if (!messenger.is_complete(request)) return false;
    for (const RequestId request : std::exchange(requests_, {}))
      BOOST_REQUIRE(messenger.take(request).has_value());
    switch (phase_++) {
      case 0:
        sent_ = round_;
        received_.assign(ranks_ - 1, kRounds);
        for (auto& into : received_) receive(into, Messenger::kAny, value);
        for (std::uint32_t to = 0; to < ranks_; ++to)
          if (to != rank_) send(to, value);
        return true;
      case 1:
        for (const std::uint32_t got : received_) BOOST_REQUIRE_EQUAL(got, round_);
        if (rank_ != 0) {
          send(0, done);
          receive(reply_, 0, next);
        } else {
          for (std::uint32_t from = 1; from < ranks_; ++from)
            receive(received_[from - 1], static_cast<std::int32_t>(from), done);
        }
        return true;
      default:
        if (rank_ == 0)
          for (std::uint32_t to = 1; to < ranks_; ++to) send(to, next);
        ++round_;
        phase_ = 0;
        return true;
    }
  }
  void copy(const RoundProcess& parent) {
    round_ = parent.round_;
    sent_ = parent.sent_;
    reply_ = parent.reply_;
    phase_ = parent.phase_;
    received_ = parent.received_;
    requests_ = parent.requests_;
  }
  const std::byte* moved(const RoundProcess& parent, const std::byte* at) const {
    const auto in = [&](const void* begin, std::size_t bytes, const void* here) -> const std::byte* {
      const auto offset = at - static_cast<const std::byte*>(begin);
      return offset >= 0 && offset < static_cast<std::ptrdiff_t>(bytes)
                 ? static_cast<const std::byte*>(here) + offset
                 : nullptr;
    };
    if (const auto* found = in(&parent.sent_, sizeof sent_, &sent_)) return found;
    if (const auto* found = in(&parent.reply_, sizeof reply_, &reply_)) return found;
    const auto* const found =
        in(parent.received_.data(), parent.received_.size() * sizeof(std::uint32_t), received_.data());
    return found != nullptr ? found : at;
  }
  void check() const {
    if (!network_.is_dead(number_)) BOOST_REQUIRE_EQUAL(round_, kRounds);
  }

 private:
  void send(std::uint32_t to, Tag tag) {
    requests_.push_back(
        network_.messenger(number_).send(kWorld, std::as_bytes(std::span(&sent_, 1)), to, tag));
  }
  void receive(std::uint32_t& into, std::int32_t from, Tag tag) {
    requests_.push_back(
        network_.messenger(number_).receive(kWorld, std::as_writable_bytes(std::span(&into, 1)), from, tag));
  }

  FakeNetwork& network_;
  std::uint32_t number_, rank_, ranks_, round_ = 0, sent_ = 0, reply_ = 0;
  int phase_ = 0;
  std::vector<std::uint32_t> received_;
  std::vector<RequestId> requests_;
};

}  // namespace rdmc::replica::testing
