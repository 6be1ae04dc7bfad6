// Message matching. A MatchQueue has the receives of one communicator that wait for a message, and the
// messages that have arrived and wait for a receive. It decides which of them belong together, by the rules
// of MPI (MPI 4.0, 3.5): a receive names a source and a tag, or any of them. Messages of one source match in
// the order in which they were sent. If a message fits several receives, the one that was posted first gets
// it.
//
// A core without I/O. The numbers that it keeps (`Item`) belong to the caller. One thread uses each object.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace rdmc::replica {

class MatchQueue {
 public:
  /// The caller's number of a receive or of a message.
  using Item = std::uint32_t;
  static constexpr std::int32_t kAny = -1;

  /// `sources` is the number of possible sources. A source is from 0 to sources - 1.
  explicit MatchQueue(std::uint32_t sources) : waiting_(sources), arrived_(sources) {}

  /// Posts a receive. `source` and `tag` may be kAny. If a message that fits has arrived, removes and returns
  /// the oldest such message. Otherwise keeps the receive, and returns nullopt.
  std::optional<Item> post(Item receive, std::int32_t source, std::int32_t tag);
  /// Adds a message. If a receive that fits was posted, removes and returns the oldest such receive.
  /// Otherwise keeps the message, and returns nullopt.
  std::optional<Item> arrive(Item message, std::uint32_t source, std::int32_t tag);
  /// Returns the message that a receive with these arguments would get now. Removes nothing.
  std::optional<Item> find(std::int32_t source, std::int32_t tag) const;
  /// Removes a receive that was posted with these arguments. Returns false if it is not in the queue.
  bool cancel(Item receive, std::int32_t source);

  /// The number of messages that wait for a receive, and of receives that wait for a message.
  std::size_t messages() const { return messages_; }
  std::size_t receives() const { return receives_; }

 private:
  /// The index of an entry, or of none. Entries are in a table, so that a link needs 4 bytes.
  using Index = std::uint32_t;
  static constexpr Index kNone = 0xFFFF'FFFF;
  struct Ends {
    Index first = kNone, last = kNone;
  };
  /// A receive is in one list: that of its source, or the list of receives from any source. A message is in
  /// two lists: that of its source, and the list of all messages.
  struct Links {
    Index next = kNone, previous = kNone;
  };
  struct Entry {
    Item item = 0;
    std::int32_t source = kAny, tag = kAny;
    std::uint64_t number = 0;  ///< Receives have increasing numbers, in the order of posting.
    Links of_source, of_all;
  };
  using Chain = Links Entry::*;

  Index add(Entry entry);
  void append(Ends& ends, Index index, Chain chain);
  void unlink(Ends& ends, Index index, Chain chain);
  Index first_receive(const Ends& ends, std::int32_t tag) const;
  Index first_message(std::int32_t source, std::int32_t tag) const;
  Item remove_receive(Index index);
  Item remove_message(Index index);
  Ends& receives_of(std::int32_t source) {
    return source == kAny ? from_any_ : waiting_[static_cast<std::uint32_t>(source)];
  }

  std::vector<Entry> entries_;
  Index free_ = kNone;                   ///< The first unused entry. Entry::of_source.next is the next one.
  std::vector<Ends> waiting_, arrived_;  ///< by source
  Ends from_any_;                        ///< receives from any source
  Ends all_arrived_;
  std::uint64_t posted_ = 0;
  std::size_t messages_ = 0, receives_ = 0;
};

}  // namespace rdmc::replica
