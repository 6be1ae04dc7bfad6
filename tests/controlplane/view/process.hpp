// A failure view whose clock, store and peers the test controls.
#pragma once

#include <boost/test/unit_test.hpp>

#include "controlplane/view/failure_view.hpp"

namespace rdmc::view {

inline Member member(std::uint8_t n) {
  return {.id = MemberId{n},
          .name = "m" + std::to_string(n),
          .address = Address::ipv4(10, 0, 0, n, 7700),
          .host = 100U + n};
}

inline View view_of(std::uint64_t epoch, std::initializer_list<std::uint8_t> members,
                    Epoch since = Epoch{1}) {
  View view{.epoch = Epoch{epoch}};
  for (const auto n : members) view.members.push_back(member(n)), view.members.back().since = since;
  return view;
}

/// One process. wait() lets its time jump from one timer to the next.
struct Process {
  explicit Process(std::uint8_t n) : Process(member(n)) {}
  explicit Process(Member self) : core(std::move(self), Timing{}) { core.start(now); }

  template <typename T>
  std::vector<T> take() {
    while (auto output = core.poll()) outputs.push_back(std::move(*output));
    std::vector<T> found;
    for (auto output = outputs.begin(); output != outputs.end();) {
      if (T* const value = std::get_if<T>(&*output)) {
        found.push_back(std::move(*value));
        output = outputs.erase(output);
      } else {
        ++output;
      }
    }
    return found;
  }
  void wait(Duration time) {
    for (const Time end = now + time; now < end;) {
      now = std::min(end, std::max(core.next_deadline(), now + nanoseconds(1)));
      core.on_timer(now);
      if (standing) answer_reads();
      if (listens) answer_listens();
    }
  }
  /// Answers all questions about listeners. `listening` names the process that listens at an address. No
  /// process listens at any other address. Returns the number of questions.
  std::size_t answer_who_listens(const std::map<Address, MemberId>& listening) {
    const auto questions = take<AskListener>();
    for (const AskListener& question : questions) {
      const auto found = listening.find(question.address);
      core.on_listener(question.request,
                       found == listening.end() ? std::nullopt : std::optional(found->second), now);
    }
    return questions.size();
  }
  /// Answers every Listen: all messages that have arrived have been heard.
  void answer_listens() {
    for (const Listen& listen : take<Listen>()) core.on_listened(listen.request, now);
  }
  /// Answers every read of the store at once.
  void answer_reads() {
    for (const ReadStore& read : take<ReadStore>())
      core.on_read(read.request, read.entry == StoreEntry::view ? *standing : claims, now);
  }
  void hear(Status status) {
    BOOST_TEST(core.on_message(encode(status), {status.from, {}, is_authenticated}, now).has_value());
  }
  /// Makes the process `from` send this view.
  void learn(const View& view, std::uint8_t from) {
    BOOST_TEST(core.on_message(encode(view), {MemberId{from}, {}, is_authenticated}, now).has_value());
  }
  /// Makes each peer send a status, which says that the peer hears all other members of `hears`.
  void hear_from(std::initializer_list<std::uint8_t> peers, MemberSet hears) {
    for (const auto n : peers) {
      Status status{.from = MemberId{n}, .sequence = ++sequence, .epoch = core.view().epoch, .hears = hears};
      status.hears.erase(MemberId{n});
      hear(status);
    }
  }
  void read(const View& view) {
    standing = view;
    const Epoch before = core.view().epoch;
    do answer_reads();
    while (core.view().epoch == before && view.epoch > before);
    answer_reads();
  }
  void keep_hearing(std::initializer_list<std::uint8_t> peers, MemberSet hears, Duration time) {
    for (const Time end = now + time; now < end;) {
      hear_from(peers, hears);
      wait(milliseconds(25));
    }
  }

  Time now{};
  FailureView core;
  std::vector<Output> outputs;
  std::optional<View> standing;
  View claims;
  bool listens = true;
  bool is_authenticated = true;  ///< True if messages of the peers are authenticated.
  std::uint64_t sequence = 0;
};

inline MemberSet ids(std::initializer_list<std::uint8_t> members) {
  MemberSet result;
  for (const auto n : members) result.insert(MemberId{n});
  return result;
}

struct OfThree : Process {
  OfThree() : Process(1) {
    read(view_of(5, {1, 2, 3}));
    BOOST_TEST(take<Installed>().size() == 1u);
    hear_from({2, 3}, ids({1, 2, 3}));
  }
};

}  // namespace rdmc::view
