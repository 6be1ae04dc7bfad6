// Flips one bit in each field of each kind of packet. The packets are those that the kernel's Soft-RoCE has
// sent (docs/interop), and one of each kind that Soft-RoCE did not send. Each packet must be dropped and
// counted by the counter for that field. Nothing else may change, and the connection must continue.
//
// A UDP socket reports only the source address and the source port number of the lower headers. The fabric
// also checks the addresses, port numbers and lengths of IP and UDP, because the ICRC covers them. The fabric
// cannot count packets with a wrong Ethernet address, IP checksum, IP length, protocol or UDP length, because
// the kernel drops them. If a packet driver gets the IP headers, the fabric also checks the identification.
#include "tests/dataplane/fabric/captured.hpp"
#include "tests/dataplane/fabric/packet_fields.hpp"

BOOST_AUTO_TEST_SUITE(bit_flips_test)

using namespace rdmc;
using namespace rdmc::fabric;
using namespace rdmc::fabric::testing;
using roce::Opcode;

namespace {

std::vector<std::byte> flipped(std::vector<std::byte> datagram, std::size_t bit) {
  datagram[bit / 8] ^= static_cast<std::byte>(0x80 >> bit % 8);
  return datagram;
}

/// Returns all bits of the headers and of the ICRC, and some bits of the payload.
std::vector<std::size_t> bits_to_flip(const std::vector<Field>& fields) {
  std::vector<std::size_t> bits;
  std::size_t payload = 0;
  for (std::size_t bit = 0; bit < fields.size(); ++bit)
    if (fields[bit] != Field::payload || payload++ % 257 == 0) bits.push_back(bit);
  return bits;
}

using Names = std::set<std::string>;

/// Returns the names of the counters that may count a datagram with a flipped bit in `field`. One of them
/// must count it. The ICRC of this datagram was not computed again, so it is wrong.
Names names_when_corrupt(Field field, const std::vector<std::byte>& datagram) {
  const bool management = datagram[0] == std::byte{0x64};
  switch (field) {
    case Field::version: return {"bad transport version"};
    case Field::partition: return {"bad partition key"};
    case Field::q_key: return {"bad partition key"};
    case Field::destination: return {management ? "bad partition key" : "unknown queue pair"};
    case Field::pad_count:
      if (management) return {"bad pad count"};
      return {"bad pad count", "bad length", "icrc"};
    case Field::opcode:
      return {"unknown opcode",    "bad length",         "bad pad count", "too short",
              "bad partition key", "unknown queue pair", "icrc"};
    default: return {"icrc"};
  }
}

/// Returns the same for a sender that computed the ICRC after the flip. "" means that the packet may be
/// accepted. The reason is that the receiver cannot know that the value is wrong, or must ignore the field.
Names names_when_sealed(Field field, const std::vector<std::byte>& datagram) {
  const auto opcode = static_cast<Opcode>(datagram[0]);
  const bool answer = roce::is_answer(opcode), send = roce::is_send(opcode);
  switch (field) {
    case Field::version: return {"bad transport version"};
    case Field::partition: return {"bad partition key"};
    case Field::destination: return {"unknown queue pair"};
    case Field::key: return {"refused"};
    // The new opcode may be valid. Then the bytes after it are taken as its headers or its payload.
    case Field::opcode: {
      Names names{"unknown opcode", "bad length", "bad pad count", "too short",    "out of order",
                  "duplicate",      "refused",    "ignored",       "bad response", "ghost"};
      if (send || opcode == Opcode::write_only || opcode == Opcode::write_only_immediate ||
          opcode == Opcode::read_request || roce::is_atomic(opcode))
        names.insert("");
      return names;
    }
    case Field::pad_count:
      // Padding must be zero. If the pad count says that payload bytes are padding, the ICRC is wrong.
      if (send) return {"bad pad count", "bad length", "icrc", "refused", ""};
      return {"bad pad count", "bad length", "icrc", "refused", "bad response"};
    case Field::psn: {
      // The acknowledgement may now name another packet in flight.
      if (opcode == Opcode::acknowledge) return {"ghost", "stale", ""};
      if (answer) return {"ghost", "duplicate", "out of order"};
      return {"duplicate", "out of order"};
    }
    // The new address may be inside or outside of the granted memory.
    case Field::address: return {"refused", ""};
    // A WRITE with a wrong length is detected at its last packet.
    case Field::length:
      if (opcode == Opcode::read_request || opcode == Opcode::write_first) return {"refused", ""};
      return {"refused"};
    // The new syndrome is another number of credits, an RNR NAK, or a reserved kind.
    case Field::syndrome: return {"ignored", ""};
    default: return {""};
  }
}

std::string name_of(const Drops& before, const Drops& after, std::string_view what) {
  std::string moved;
  std::uint64_t times = 0;
  for (const auto& [name, count] : after) {
    const auto found = before.find(name);
    const std::uint64_t more = count - (found == before.end() ? 0 : found->second);
    if (more > 0) moved = name;
    times += more;
  }
  BOOST_REQUIRE_MESSAGE(times <= 1, what << " counted " << times << " times");
  return moved;
}

std::string describe(const std::vector<std::byte>& datagram, std::size_t bit) {
  return "opcode " + std::to_string(std::to_integer<int>(datagram[0])) + ", bit " + std::to_string(bit);
}

struct Snapshot {
  explicit Snapshot(const Meeting& meeting)
      : receives(meeting.receives), memories(meeting.memories), sent(meeting.port->sent.size()) {}
  friend bool operator==(const Snapshot&, const Snapshot&) = default;
  std::vector<std::vector<std::byte>> receives;
  std::deque<std::vector<std::byte>> memories;
  std::size_t sent;
};

/// Delivers packet `i` with each bit flipped, and then replays the unchanged packet.
void play_damaged(Meeting& meeting, const std::vector<Captured>& packets, std::size_t i, Table& table) {
  const Captured& packet = packets[i];
  const bool management = packet.datagram[0] == std::byte{0x64};
  meeting.poll();
  const Snapshot before(meeting);
  const auto must_be_dropped =
      [&](std::string_view field, const Address& source, std::vector<std::byte> datagram, const Names& names,
          const std::string& what, std::optional<std::uint16_t> identification = std::nullopt) {
        const Drops drops = meeting.drops();
        meeting.deliver(source, std::move(datagram), identification);
        const std::string moved = name_of(drops, meeting.drops(), what);
        table.count(field, moved);
        BOOST_TEST(names.contains(moved), what << " dropped as '" << moved << "'");
      };
  const auto fields = fields_of(packet.datagram);
  for (const std::size_t bit : bits_to_flip(fields)) {
    if (fields[bit] == Field::notification) continue;
    must_be_dropped(name(fields[bit]), packet.source, flipped(packet.datagram, bit),
                    names_when_corrupt(fields[bit], packet.datagram), describe(packet.datagram, bit));
  }
  const std::size_t address_bits = packet.source.ip().size() * 8;
  for (std::size_t bit = 0; bit < address_bits; ++bit) {
    Address other = packet.source;
    other.bytes[bit / 8] = static_cast<std::uint8_t>(other.bytes[bit / 8] ^ 0x80 >> bit % 8);
    must_be_dropped("source address", other, packet.datagram, {management ? "icrc" : "wrong source"},
                    "another source address");
  }
  for (int bit = 0; bit < 16; ++bit) {
    Address other = packet.source;
    other.port = static_cast<std::uint16_t>(other.port ^ 1 << bit);
    must_be_dropped("source port", other, packet.datagram, {"icrc"}, "another source port");
    if (packet.source.ipv6 || management) continue;
    const auto identification = static_cast<std::uint16_t>(packet.identification ^ 1 << bit);
    must_be_dropped("identification", packet.source, packet.datagram, {"icrc"}, "another identification",
                    identification);
  }
  BOOST_TEST((Snapshot(meeting) == before));
  BOOST_TEST(meeting.poll() == 0u);
  BOOST_TEST((meeting.queue_pair->state() == QueuePairState::ready));
  meeting.play(i);
}

/// Returns the first packet of each kind that Soft-RoCE sent in a capture.
std::vector<std::size_t> first_of_each_kind(const Meeting& meeting, const std::vector<Captured>& packets) {
  std::vector<std::size_t> chosen;
  std::set<Opcode> seen;
  for (std::size_t i = 0; i < packets.size(); ++i)
    if (meeting.is_peers(i) && seen.insert(opcode_of(packets[i])).second) chosen.push_back(i);
  return chosen;
}

std::vector<std::string> captures() {
  const auto& suite = boost::unit_test::framework::master_test_suite();
  return {suite.argv + 1, suite.argv + suite.argc};
}

/// Returns packets of the kinds that are in no capture. Each can be the next packet of the peer. They access
/// memory with `key`.
std::vector<std::vector<std::byte>> kinds_never_captured(Qpn to, Psn psn, RemoteKey key) {
  std::vector<std::vector<std::byte>> made;
  for (const Opcode opcode : {Opcode::send_only_immediate, Opcode::write_only_immediate, Opcode::write_only,
                              Opcode::compare_swap, Opcode::fetch_add, Opcode::send_only_invalidate}) {
    const bool atomic = roce::is_atomic(opcode);
    std::vector<std::byte> bytes(64);
    std::byte* at =
        bytes.data() + roce::write_bth(bytes.data(), {.opcode = opcode, .destination = to, .psn = psn});
    if (roce::is_write(opcode)) at += roce::write_reth(at, {.address = 64, .key = key, .length = 8});
    if (atomic) at += roce::write_atomic(at, {.address = 64, .key = key, .swap_or_add = 1});
    if (opcode == Opcode::send_only_invalidate) at += roce::write_invalidated(at, key);
    if (opcode == Opcode::send_only_immediate || opcode == Opcode::write_only_immediate)
      at += roce::write_immediate(at, 7);
    bytes.resize(static_cast<std::size_t>(at - bytes.data()) + (atomic ? 0 : 8) + roce::kIcrcBytes);
    made.push_back(std::move(bytes));
  }
  return made;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_captures_are_taken_whole_by_the_endpoint_that_they_are_played_to) {
  Names kinds;
  for (const std::string& path : captures()) {
    const auto packets = read_capture(path);
    Meeting meeting(packets);
    meeting.play_until(packets.size());
    for (const auto& [name, count] : meeting.drops())
      // Soft-RoCE sent some packets twice, so duplicates are permitted.
      BOOST_TEST(name == "duplicate", path << ": " << count << " dropped as " << name);
    BOOST_TEST(meeting.poll() > 0u);
    for (std::size_t i = 0; i < packets.size(); ++i)
      if (meeting.is_peers(i)) kinds.insert(std::to_string(value_of(opcode_of(packets[i]))));
  }
  // These are SEND FIRST, MIDDLE, LAST and ONLY; WRITE FIRST, MIDDLE and LAST; READ request and responses;
  // ACK; and a MAD.
  BOOST_TEST((kinds == Names{"0", "1", "2", "4", "6", "7", "8", "12", "13", "14", "15", "17", "100"}));
}

BOOST_AUTO_TEST_CASE(a_flipped_bit_drops_a_packet_under_its_fields_counter_and_changes_nothing_else) {
  Table table;
  for (const std::string& path : captures()) {
    const auto packets = read_capture(path);
    Meeting control(packets), meeting(packets);
    control.play_until(packets.size());
    const auto chosen = first_of_each_kind(meeting, packets);
    std::size_t completed = 0;
    for (std::size_t i = 0; i < packets.size(); ++i) {
      completed += meeting.poll();
      if (std::ranges::find(chosen, i) != chosen.end())
        play_damaged(meeting, packets, i, table);
      else
        meeting.play(i);
    }
    // The damaged packets must have changed nothing: the connection ends like the one without them.
    BOOST_TEST(completed + meeting.poll() == control.poll());
    BOOST_TEST(meeting.datagrams_polled() == control.datagrams_polled());
    BOOST_TEST((Snapshot(meeting) == Snapshot(control)), path);
  }
  table.print("one bit flipped, by field: dropped under");
  // The table must have all fields of the captured packets, and three fields of IP and UDP. `notification` is
  // not there, because switches change it. `immediate` and `operand` are not there, because no captured
  // packet has them.
  constexpr auto kOfTheirs = static_cast<std::size_t>(Field::icrc) + 1 - 3;
  BOOST_TEST(table.rows().size() == kOfTheirs + 3);
}

BOOST_AUTO_TEST_CASE(a_congested_switchs_bits_drop_nothing) {
  for (const std::string& path : captures()) {
    const auto packets = read_capture(path);
    Meeting control(packets), meeting(packets);
    control.play_until(packets.size());
    for (std::size_t i = 0; i < packets.size(); ++i) {
      if (!meeting.is_peers(i) || packets[i].datagram[0] == std::byte{0x64}) {
        meeting.play(i);
        continue;
      }
      auto marked = packets[i].datagram;
      marked[4] = std::byte{0xFF};
      meeting.deliver(packets[i].source, marked);
    }
    BOOST_TEST((meeting.drops() == control.drops()));
  }
}

BOOST_AUTO_TEST_CASE(a_sender_that_seals_a_wrong_field_is_dropped_by_the_check_of_that_field) {
  for (const std::string& path : captures()) {
    const auto packets = read_capture(path);
    for (const std::size_t i : first_of_each_kind(Meeting(packets), packets)) {
      const Captured& packet = packets[i];
      // The connection manager checks the fields of this management datagram.
      if (packet.datagram[0] == std::byte{0x64}) continue;
      const auto fields = fields_of(packet.datagram);
      for (const std::size_t bit : bits_to_flip(fields)) {
        if (fields[bit] == Field::payload || fields[bit] == Field::icrc) continue;
        Meeting meeting(packets);
        meeting.play_until(i);
        auto datagram = flipped(packet.datagram, bit);
        meeting.seal(packet.source, datagram, roce::kBthBytes, 0);
        const Drops before = meeting.drops();
        meeting.deliver(packet.source, datagram);
        const std::string what = describe(packet.datagram, bit);
        const std::string moved = name_of(before, meeting.drops(), what);
        const Names names = names_when_sealed(fields[bit], packet.datagram);
        BOOST_TEST(names.contains(moved), path << ": " << what << " dropped as '" << moved << "'");
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(kinds_that_the_captures_lack_are_checked_field_by_field_too) {
  const auto packets = read_capture(captures().front());
  Psn next;
  Qpn to{};
  Address source;
  for (const Captured& packet : packets) {
    const auto parsed = roce::parse_packet(packet.datagram);
    if (!parsed || packet.destination.ip().back() != 1 || roce::is_answer(parsed->bth.opcode)) continue;
    next = parsed->bth.psn.next();
    to = parsed->bth.destination;
    source = packet.source;
  }
  std::vector<std::byte> memory(4096);
  const auto meet = [&](std::unique_ptr<MemoryRegion>& region) {
    auto meeting = std::make_unique<Meeting>(packets);
    meeting->play_until(packets.size());
    region = *meeting->fabric->register_memory(
        memory, MemoryUse::general, RemoteAccess::write | RemoteAccess::atomic | RemoteAccess::invalidate);
    return meeting;
  };
  std::unique_ptr<MemoryRegion> region;
  auto first = meet(region);
  const Drops before = first->drops();
  const auto made = kinds_never_captured(to, next, region->remote_key());
  region.reset();
  for (const auto& original : made) {
    const auto fields = fields_of(original);
    for (const std::size_t bit : bits_to_flip(fields)) {
      if (fields[bit] == Field::payload || fields[bit] == Field::icrc) continue;
      auto meeting = meet(region);
      auto datagram = flipped(original, bit);
      meeting->seal(source, datagram, roce::kBthBytes, 0);
      meeting->deliver(source, datagram);
      const std::string what = describe(original, bit);
      const std::string moved = name_of(before, meeting->drops(), what);
      BOOST_TEST(names_when_sealed(fields[bit], original).contains(moved),
                 what << " dropped as '" << moved << "'");
      region.reset();
    }
    // In this datagram, only one bit of the ICRC is wrong.
    auto meeting = meet(region);
    auto datagram = original;
    meeting->seal(source, datagram, roce::kBthBytes, 0);
    meeting->deliver(source, flipped(datagram, datagram.size() * 8 - 1));
    BOOST_TEST(name_of(before, meeting->drops(), "a broken seal") == "icrc");
    meeting->deliver(source, datagram);
    BOOST_TEST(name_of(before, meeting->drops(), "a good packet behind it") == "icrc");
    region.reset();
  }
}

BOOST_AUTO_TEST_SUITE_END()
