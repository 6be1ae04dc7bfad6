// A whole group of relays over a modelled network. It moves real bytes between modelled memories. As with
// queue pairs, there is one FIFO for each pair of members and each direction. A seeded generator chooses the
// order of events. The mesh acts as the driver of the relays. It follows the driver's rules, and records the
// first error.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "dataplane/base/random.hpp"
#include "dataplane/relay/relay.hpp"

namespace rdmc::relay {

struct MeshOptions {
  Algorithm algorithm = Algorithm::binomial_pipeline;
  std::uint32_t members = 2;
  Racks racks{};
  std::uint64_t length = 0;
  std::uint32_t block_bytes = 1;
  std::uint32_t max_writes_in_flight = 4;
  /// The number of slots that a ring buffer has beyond its minimum. ~0 means memory for the whole message.
  std::uint64_t spare_slots = 0;
  /// If true, members learn the length before the first block. If the source of the first block does not
  /// depend on the length, this block is written to an arena.
  bool arenas = false;
  /// The probability, in millionths, that the first possible event is chosen instead of a random one. This
  /// favours low ranks, so the members drift far apart.
  std::uint32_t slow_per_million = 0;
  /// The probability, in millionths, that a write arrives before earlier writes of its queue pair.
  std::uint32_t overtake_per_million = 0;
  std::uint64_t seed = 1;
  /// If not 0, the rank of a member that stops working as soon as it holds idle_after blocks. From then on it
  /// only acknowledges the writes that arrive.
  std::uint32_t idle_rank = 0;
  std::uint64_t idle_after = 0;
  /// The number of stragglers. They have the highest ranks. Items for stragglers are delayed.
  std::uint32_t stragglers = 0;
  /// On average, items for stragglers can be delivered only at one of this number of events. They can also be
  /// delivered when no other event is possible.
  std::uint32_t put_off = 20;
};

class Mesh {
 public:
  explicit Mesh(const MeshOptions& options) : options_(options), random_(options.seed) {
    message_.resize(options.length);
    for (auto& byte : message_) byte = static_cast<std::byte>(random_.next());
    for (std::uint32_t rank = 0; rank < options.members; ++rank) members_.push_back(make(rank));
  }

  /// Runs until no further event is possible. Returns a description of the first error, or an empty string.
  std::string run() {
    run_until_quiet();
    for (auto& member : members_) {
      if (!problem_.empty()) break;
      check_end(member);
    }
    return problem_;
  }

  std::string run_until_quiet() {
    while (problem_.empty()) {
      if (members_.size() > 1) start_somebody();
      for (auto& member : members_) drain(member);
      if (!happen()) break;
    }
    return problem_;
  }

  std::optional<Wait> wait_of(std::uint32_t rank) const { return members_[rank].relay.wait(); }
  bool is_complete(std::uint32_t rank) const { return members_[rank].relay.is_complete(); }

  /// Runs until all members except the stragglers have every block. The result is that of run().
  std::string run_until_others_have_all() {
    const auto lacks = [this](const Member& member) {
      return !is_straggler(member.rank) && !member.relay.is_delivered();
    };
    while (problem_.empty() && std::ranges::any_of(members_, lacks)) {
      start_somebody();
      for (auto& member : members_) drain(member);
      if (!happen()) expect(false, "deadlock");
    }
    return problem_;
  }

  std::uint64_t grants() const { return grants_; }
  std::uint64_t blocks_held(std::uint32_t rank) const { return members_[rank].relay.blocks_held(); }
  std::uint64_t omitted(std::uint32_t rank) const { return members_[rank].omitted.size(); }
  std::uint64_t block_count() const { return members_[0].relay.block_count(); }

 private:
  static constexpr std::byte kGarbage{0xEE};

  struct Announcement {};
  struct Arrival {
    BlockWrite write;
    std::vector<std::byte> bytes;
  };
  /// A write that has overtaken earlier ones. Its bytes have arrived, but it is acknowledged in the order in
  /// which it was sent.
  struct Arrived {
    BlockWrite write;
  };
  using Item = std::variant<Announcement, BlockGrant, Arrival, Arrived>;

  struct Member {
    Relay relay;
    std::uint32_t rank;
    std::vector<std::byte> memory;
    std::uint64_t slots = 0;
    std::vector<std::byte> arena;
    std::vector<std::byte> file;            ///< The bytes that were consumed.
    std::vector<std::uint64_t> unconsumed;  ///< The blocks that are in memory and not consumed.
    std::set<std::uint64_t> omitted;
    std::map<Rank, std::deque<ExpectedWrite>> expected_writes;
    /// The slots of the blocks below this index were filled with garbage.
    std::uint64_t wiped = 0;
    std::uint64_t read_ahead = 0;  ///< On the root: the number of blocks that were made available.
    std::uint32_t writes = 0;      ///< The number of writes in flight that have bytes.
    bool first_in_arena = false;
    bool first_landed = false;
    bool wants_memory = false;
    std::optional<std::uint64_t> arena_block;
  };

  Member make(std::uint32_t rank) {
    auto relay = Relay::create({.algorithm = options_.algorithm,
                                .rank = Rank{rank},
                                .members = options_.members,
                                .racks = options_.racks,
                                .block_bytes = options_.block_bytes,
                                .max_writes_in_flight = options_.max_writes_in_flight,
                                .slot_id = static_cast<std::uint16_t>(rank * 700),
                                .stragglers = options_.stragglers});
    Member member{.relay = std::move(*relay), .rank = rank};
    member.file.resize(options_.length);
    if (rank == 0) {
      expect(member.relay.set_length(options_.length).has_value(), "the root's length");
      take_memory(member);
      announce(member);
    } else if (options_.arenas && !first_source_needs_length(options_.algorithm)) {
      member.arena.assign(options_.block_bytes, kGarbage);
      expect(member.relay.offer_arena(arena_address(rank), key(rank)).has_value(), "the arena");
    }
    return member;
  }

  bool is_straggler(std::uint32_t rank) const { return rank >= options_.members - options_.stragglers; }
  bool is_idle(const Member& member) const {
    return options_.idle_rank != 0 && member.rank == options_.idle_rank &&
           member.relay.blocks_held() >= options_.idle_after;
  }

  static std::uint64_t arena_address(std::uint32_t rank) {
    return 0x8000'0000'0000 + (std::uint64_t{rank} << 24);
  }
  static std::uint64_t memory_address(std::uint32_t rank) {
    return 0x1000'0000'0000 + (std::uint64_t{rank} << 24);
  }
  static RemoteKey key(std::uint32_t rank) { return RemoteKey{rank + 1000}; }

  void expect(bool holds, const std::string& what) {
    if (!holds && problem_.empty()) problem_ = what;
  }

  void take_memory(Member& member) {
    Relay& relay = member.relay;
    const std::uint64_t least = member.rank == 0 ? 1 : relay.schedule().minimum_slots();
    member.slots = std::min(relay.block_count(), options_.spare_slots > relay.block_count()
                                                     ? relay.block_count()
                                                     : least + options_.spare_slots);
    member.memory.assign(member.slots * options_.block_bytes, kGarbage);
    expect(relay.set_memory({member.slots, memory_address(member.rank), key(member.rank)}).has_value(),
           "the memory");
    member.wants_memory = false;
  }

  /// If the option `arenas` is off, lets a receiver learn the length. Each receiver learns the length
  /// independently and at any time.
  void start_somebody() {
    Member& member = members_[1 + random_.below(members_.size() - 1)];
    if (is_idle(member)) return;
    if (!options_.arenas && !member.relay.has_length() && random_.below(3) == 0) learn(member);
  }

  void learn(Member& member) {
    const bool is_new = !member.relay.has_length();
    if (is_new) member.wants_memory = true;
    expect(member.relay.set_length(options_.length).has_value(), "a receiver's length");
    if (is_new) announce(member);
  }

  /// Sends the length to the members whose first source is this member. Does this only if `arenas` is on and
  /// the algorithm allows no arena. The length is sent before anything else.
  void announce(const Member& member) {
    if (!options_.arenas || !first_source_needs_length(options_.algorithm)) return;
    const Schedule& schedule = member.relay.schedule();
    for (const Rank to : schedule.destinations()) {
      if (schedule.first_source_of(to, member.relay.block_count()) == schedule.rank())
        wire(member.rank, value_of(to)).push_back(Announcement{});
    }
  }

  std::deque<Item>& wire(std::uint32_t from, std::uint32_t to) { return wires_[{from, to}]; }

  void drain(Member& member) {
    if (is_idle(member)) return;
    Rank to{};
    for (BlockGrant grant; member.relay.poll_grant(to, grant);) {
      ++grants_;
      if (grant.first_only) member.first_in_arena = true;
      auto decoded = decode_grant(encode(grant));
      expect(decoded && *decoded == grant, "a grant survives the wire");
      wire(member.rank, value_of(to)).push_back(grant);
    }
    for (ExpectedWrite expected_write; member.relay.poll_expected_write(expected_write);)
      member.expected_writes[expected_write.from].push_back(expected_write);
    for (BlockWrite write; member.relay.poll_write(write);) {
      member.writes += write.bytes > 0;
      expect(member.writes <= options_.max_writes_in_flight &&
                 member.relay.writes_in_flight() <=
                     options_.max_writes_in_flight + kMostOmissions * options_.stragglers,
             "too many writes in flight");
      if (write.into_arena) wire(member.rank, value_of(write.to)).push_back(Announcement{});
      wire(member.rank, value_of(write.to)).push_back(Arrival{write, read(member, write)});
    }
  }

  std::vector<std::byte> read(const Member& member, const BlockWrite& write) {
    const auto& memory = write.from_arena ? member.arena : member.memory;
    expect(write.local_offset + write.bytes <= memory.size(), "a read outside the memory");
    if (!problem_.empty()) return {};
    const auto at = memory.begin() + static_cast<std::ptrdiff_t>(write.local_offset);
    std::vector<std::byte> bytes(at, at + write.bytes);
    const bool omits = bytes.empty() && is_straggler(value_of(write.to));
    expect(omits || is_block(write.block, bytes), "a write sends other bytes than the block's");
    return bytes;
  }

  bool is_block(std::uint64_t block, const std::vector<std::byte>& bytes) const {
    const std::uint64_t start = block * options_.block_bytes;
    const std::uint64_t size = std::min<std::uint64_t>(options_.block_bytes, options_.length - start);
    return bytes.size() == size &&
           std::equal(bytes.begin(), bytes.end(), message_.begin() + std::ptrdiff_t(start));
  }

  /// Makes one event happen at any member. Returns false if no event is possible.
  bool happen() {
    choices_.clear();
    const bool puts_off = options_.stragglers > 0 && random_.below(options_.put_off) != 0;
    const auto add_wires = [&](bool to_stragglers) {
      for (auto& [ends, items] : wires_) {
        if (!items.empty() && is_straggler(ends.second) == to_stragglers)
          choices_.push_back([this, &ends, &items] { deliver(ends.first, ends.second, items); });
      }
    };
    add_wires(false);
    if (!puts_off) add_wires(true);
    for (auto& [ends, writes] : acknowledgements_) {
      if (!writes.empty()) choices_.push_back([this, &ends, &writes] { acknowledge(ends.first, writes); });
    }
    for (auto& member : members_) {
      if (is_idle(member)) continue;
      if (!options_.arenas && member.rank != 0 && !member.relay.has_length()) {
        choices_.push_back([this, &member] { learn(member); });
      }
      if (member.wants_memory) choices_.push_back([this, &member] { take_memory(member); });
      if (member.arena_block && member.slots != 0) choices_.push_back([this, &member] { place(member); });
      if (member.slots != 0 && !member.unconsumed.empty())
        choices_.push_back([this, &member] { consume(member); });
      if (member.rank == 0 && can_read_ahead(member))
        choices_.push_back([this, &member] { read_ahead(member); });
    }
    if (choices_.empty() && puts_off) add_wires(true);
    if (choices_.empty()) return false;
    std::uint64_t pick = random_.below(choices_.size());
    // Choosing the first event favours low ranks, so the other members lag.
    if (random_.chance(options_.slow_per_million)) pick = 0;
    choices_[pick]();
    for (auto& member : members_) wipe_released(member);
    return true;
  }

  void deliver(std::uint32_t from, std::uint32_t to, std::deque<Item>& items) {
    Member& member = members_[to];
    if (random_.chance(options_.overtake_per_million) && !is_idle(member)) {
      Item& item = items[random_.below(items.size())];
      const Arrival* const arrival = std::get_if<Arrival>(&item);
      if (arrival != nullptr && !arrival->write.into_arena) {
        land(member, Rank{from}, *arrival);
        item = Arrived{arrival->write};
        return;
      }
    }
    const Item item = std::move(items.front());
    items.pop_front();
    if (const Arrived* done = std::get_if<Arrived>(&item))
      return acknowledgements_[{from, to}].push_back(done->write);
    if (is_idle(member)) {
      if (const Arrival* lost = std::get_if<Arrival>(&item))
        acknowledgements_[{from, to}].push_back(lost->write);
      return;
    }
    if (std::holds_alternative<Announcement>(item)) return learn(member);
    if (const BlockGrant* grant = std::get_if<BlockGrant>(&item)) {
      return expect(member.relay.on_grant(Rank{from}, *grant).has_value(), "a grant is refused");
    }
    const Arrival& arrival = std::get<Arrival>(item);
    land(member, Rank{from}, arrival);
    acknowledgements_[{from, to}].push_back(arrival.write);
  }

  void land(Member& member, Rank from, const Arrival& arrival) {
    const BlockWrite& write = arrival.write;
    const bool in_arena = member.first_in_arena && !member.first_landed &&
                          member.relay.schedule().first_receive(1)->peer == from &&
                          (write.into_arena || options_.overtake_per_million == 0);
    auto& memory = in_arena ? member.arena : member.memory;
    const std::uint64_t base = in_arena ? arena_address(member.rank) : memory_address(member.rank);
    expect(write.key == key(member.rank) && write.into_arena == in_arena, "a write with the wrong grant");
    expect(write.remote_address >= base && write.remote_address - base + write.bytes <= memory.size(),
           "a write outside the granted memory");
    if (!problem_.empty()) return;
    std::copy(arrival.bytes.begin(), arrival.bytes.end(),
              memory.begin() + std::ptrdiff_t(write.remote_address - base));
    const auto block = member.relay.on_block(from, write.immediate, write.bytes);
    expect(block.has_value(), "a block is refused");
    if (!block) return;
    expect(*block == write.block, "a block's index is rebuilt wrongly");
    expect(in_arena == (member.relay.first_block_in_arena() && *block == member.relay.first_block()),
           "the relay takes the block to be elsewhere");
    if (in_arena) {
      expect(*block == member.relay.first_block(), "the arena holds another block");
      member.first_landed = true;
      member.arena_block = *block;
      return;
    }
    member.unconsumed.push_back(*block);
    if (member.relay.is_omitted(*block)) member.omitted.insert(*block);
    expect(member.relay.is_omitted(*block) == (write.bytes != member.relay.block_length(*block)),
           "a block is omitted that came, or the other way around");
    auto& told = member.expected_writes[from];
    if (options_.overtake_per_million != 0) {
      std::erase_if(told,
                    [&](const ExpectedWrite& expected_write) { return expected_write.block == *block; });
      return;
    }
    expect(!told.empty() && told.front().block == *block &&
               (told.front().bytes == write.bytes || member.omitted.contains(*block)) &&
               told.front().remote_address == write.remote_address && told.front().key == write.key,
           "an expected write was foretold wrongly");
    if (!told.empty()) told.pop_front();
  }

  void acknowledge(std::uint32_t from, std::deque<BlockWrite>& writes) {
    const BlockWrite write = writes.front();
    writes.pop_front();
    read(members_[from], write.from_arena && !members_[from].arena_block ? at_its_slot(from, write) : write);
    members_[from].writes -= write.bytes > 0;
    members_[from].relay.on_write_complete(write.to, write.block);
  }

  BlockWrite at_its_slot(std::uint32_t rank, BlockWrite write) const {
    write.from_arena = false;
    write.local_offset = members_[rank].relay.offset_of(write.block);
    return write;
  }

  void place(Member& member) {
    const std::uint64_t block = *member.arena_block;
    std::copy_n(member.arena.begin(), member.relay.block_length(block),
                member.memory.begin() + std::ptrdiff_t(member.relay.offset_of(block)));
    if (!member.relay.first_block_busy()) std::ranges::fill(member.arena, kGarbage);
    member.relay.place_first_block();
    member.arena_block.reset();
    member.unconsumed.push_back(block);
  }

  void consume(Member& member) {
    const std::uint64_t index = random_.below(member.unconsumed.size());
    const std::uint64_t block = member.unconsumed[index];
    member.unconsumed.erase(member.unconsumed.begin() + std::ptrdiff_t(index));
    const auto from = member.memory.begin() + std::ptrdiff_t(member.relay.offset_of(block));
    const auto to = member.file.begin() + std::ptrdiff_t(block * options_.block_bytes);
    if (!member.omitted.contains(block)) std::copy_n(from, member.relay.block_length(block), to);
    member.relay.on_consumed(block);
  }

  bool can_read_ahead(const Member& root) const {
    return root.read_ahead < std::min(root.relay.block_count(), root.relay.released_limit() + root.slots);
  }

  void read_ahead(Member& root) {
    const std::uint64_t block = root.read_ahead++;
    std::copy_n(message_.begin() + std::ptrdiff_t(block * options_.block_bytes),
                root.relay.block_length(block),
                root.memory.begin() + std::ptrdiff_t(root.relay.offset_of(block)));
    std::copy_n(message_.begin() + std::ptrdiff_t(block * options_.block_bytes),
                root.relay.block_length(block),
                root.file.begin() + std::ptrdiff_t(block * options_.block_bytes));
    root.relay.on_available(root.read_ahead);
  }

  /// Fills released slots with garbage, because the application may use this memory for anything.
  void wipe_released(Member& member) {
    for (; member.wiped < member.relay.released_limit(); ++member.wiped) {
      std::fill_n(member.memory.begin() + std::ptrdiff_t(member.relay.offset_of(member.wiped)),
                  member.relay.block_length(member.wiped), kGarbage);
    }
  }

  void check_end(const Member& member) {
    const std::string who = "member " + std::to_string(member.rank) + ": ";
    expect(member.relay.is_delivered(), who + "not delivered: deadlock");
    expect(member.relay.is_complete(), who + "not complete: deadlock");
    expect(member.relay.length() == options_.length, who + "another length");
    expect(member.relay.writes_in_flight() == 0 && !member.relay.first_block_busy(), who + "still busy");
    expect(member.omitted.empty() || is_straggler(member.rank), who + "a block was omitted");
    std::vector<std::byte> whole = member.file;
    for (const std::uint64_t block : member.omitted) {
      const auto at = std::ptrdiff_t(block * options_.block_bytes);
      std::copy_n(message_.begin() + at, member.relay.block_length(block), whole.begin() + at);
    }
    expect(whole == message_, who + "other bytes");
    for (const auto& [from, told] : member.expected_writes)
      expect(told.empty(), who + "an expected write that never came");
  }

  MeshOptions options_;
  Random random_;
  std::vector<std::byte> message_;
  std::vector<Member> members_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::deque<Item>> wires_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::deque<BlockWrite>> acknowledgements_;
  std::vector<std::function<void()>> choices_;
  std::uint64_t grants_ = 0;
  std::string problem_;
};

}  // namespace rdmc::relay
