// Fuzzes the socket connections between a peer's process and the local application. The input consists of
// records and other content of frames, large messages in slots, lanes that the peer writes arbitrarily, and
// messages of a group. The target checks that:
// - the frames of the local side contain only whole records,
// - an application reads no more bytes than were granted,
// - after the loss of the peer, every connection has ended, the application has all memory again that it sent
//   in place, and nothing is kept.
#include <array>
#include <cerrno>
#include <vector>

#include "lib/socket/group_words.hpp"
#include "lib/socket/lane_pool.hpp"
#include "lib/socket/mux.hpp"
#include "lib/socket/socket.hpp"
#include "tests/fuzz/play.hpp"

using namespace rdmc;
using namespace rdmc::fuzz;
using namespace rdmc::sockets;

namespace {

/// The memory that all plays share. It is made only once, because making new pages would take most of the
/// time.
struct Memory {
  std::shared_ptr<SlotMemory> slots = std::make_shared<SlotMemory>(
      std::move(*memory::Arena::make(SlotMemory::kSlots * SlotMemory::kSlotBytes)), RemoteKey{}, 0);
  memory::Arena lanes = std::move(*memory::Arena::make(LanePool::kBytes));
};
Memory& pages() {
  static Memory all;
  return all;
}

class Play final : public Opens {
 public:
  explicit Play(std::uint8_t how) : mux_(std::make_shared<Mux>(*this, how % 2 == 0)) {
    for (Socket& listener : listeners_) listener.listen(2);
    if (how / 2 % 2 == 0) slots_ = pages().slots;
    if (how / 4 % 2 == 0) {
      auto& lanes = pages().lanes;
      mux_->use_lanes(std::make_shared<LanePool>(nullptr, lanes.bytes(), true), !mux_->offers_lanes());
      peers_lanes_ = std::make_shared<LanePool>(nullptr, lanes.bytes(), false);
    }
  }

  void step(Input& input) {
    switch (input.next() % 16) {
      case 0: return hear(input.take(input.next()));
      case 1:
      case 2:
      case 3: return hear_record(input);
      case 4: return accept(listeners_[input.next() % 2]);
      case 5: return connect(input.next() % 2 == 0 ? ConnectionKind::bytes : ConnectionKind::messages);
      case 6: return say(kMostControlBytes + input.next32() % 4096);
      case 7: return read_word(input.take(input.next()));
      case 8:
        if (!mux_->is_lost())
          heard(mux_->on_chunk(input.next() % (SlotMemory::kSlots + 1),
                               input.next() == 0 ? input.next32() : input.next()));
        return;
      case 9:
        while (auto next = mux_->next_chunk()) under_way_.push_back(std::move(*next));
        return;
      case 10: return write_one();
      case 11: return write_lane(input);
      default: return act(input);
    }
  }
  void finish() {
    mux_->lose(ETIMEDOUT);
    while (!under_way_.empty()) write_one();
    for (const auto& socket : open_) {
      require((socket->events() & kHungUp) != 0);
      require(socket->stream()->is_sent(sent_));
    }
    require(mux_->size() == 0 && !mux_->has_something());
    open_.clear();
    loans_.clear();
    for (Socket& listener : listeners_) listener.close(true);
    require(mux_->budget()->left() == Mux::kMostOfMessages);
    if (slots_ == nullptr) return;
    for (std::uint32_t i = 0; i < SlotMemory::kSlots; ++i) require(slots_->take().has_value());
    for (std::uint32_t i = SlotMemory::kSlots; i > 0; --i) slots_->give_back(i - 1);
  }

 private:
  bool on_open(const Asked& asked, const std::shared_ptr<Stream>& stream) override {
    if (asked.from.port % 3 == 0) return false;
    return listeners_[asked.kind == ConnectionKind::bytes ? 0 : 1].backlog()->add({asked, stream});
  }

  void hear(std::span<const std::byte> frame) {
    if (!mux_->is_lost()) heard(mux_->on_frame(frame));
  }
  void heard(const Result<void>& result) {
    if (result) return;
    require(result.error().code == Errc::protocol_error && !result.error().what.empty());
    mux_->lose(EPROTO);
  }

  /// Receives a complete record for one of a few connections.
  void hear_record(Input& input) {
    Record record{.kind = RecordKind{static_cast<std::uint8_t>(1 + input.next() % 14)},
                  .connection = ConnectionId{input.next()},
                  .limit = input.next32(),
                  .from = Address::ipv4(10, 0, 0, 1, input.next()),
                  .to = Address::ipv4(10, 0, 0, 2, input.next()),
                  .grant = {}};
    if (record.kind == RecordKind::lane) record.limit %= 2 * LanePool::kLanesPerSide;
    if (record.kind == RecordKind::grant) record.grant.slot = static_cast<std::uint32_t>(record.limit) % 20;
    if (record.limit % 64 == 0) record.grant.slot = Grant::kNone;
    if (record.kind == RecordKind::data) record.bytes = input.take(input.next());
    std::vector<std::byte> frame(encoded_bytes(record));
    encode(record, frame);
    hear(frame);
  }

  void say(std::size_t room) {
    if (mux_->wants_slots()) mux_->use_slots(slots_);
    std::vector<std::byte> frame(room);
    const std::size_t used = mux_->fill(frame);
    std::span<const std::byte> rest(frame.data(), used);
    while (!rest.empty()) require(take_record(rest).has_value());
  }

  /// Reports that the oldest write in flight has completed, or was lost with the peer.
  void write_one() {
    if (under_way_.empty()) return;
    const auto [stream, write] = std::move(under_way_.front());
    under_way_.pop_front();
    stream->on_chunk_sent(write.chunk);
  }
  /// Changes one of the lane's values that the peer can also write.
  void write_lane(Input& input) {
    if (peers_lanes_ == nullptr) return;
    LaneHead& head = *peers_lanes_->memory(input.next() % (2 * LanePool::kLanesPerSide)).head;
    const std::uint32_t value = input.next() % 2 == 0 ? input.next() : input.next32();
    switch (input.next() % 6) {
      case 0:
      case 1: head.written = value; break;
      case 2: head.read = value; break;
      case 3: head.reader.by_record = value; break;
      case 4: head.writer.by_record = value; break;
      default: head.left = value;
    }
  }

  void accept(Socket& listener) {
    if (auto connection = listener.accept()) add(std::make_unique<Socket>(connection->stream));
  }
  void connect(ConnectionKind kind) {
    auto socket = std::make_unique<Socket>(kind);
    require(socket->connect().has_value());
    mux_->open(socket->stream(), Address::ipv4(10, 0, 0, 2, 1), Address::ipv4(10, 0, 0, 1, 1));
    add(std::move(socket));
  }
  void add(std::unique_ptr<Socket> socket) {
    if (open_.size() < 8) return open_.push_back(std::move(socket));
    socket->close(false);
  }

  void act(Input& input) {
    if (open_.empty()) return;
    const std::size_t which = input.next() % open_.size();
    Socket& socket = *open_[which];
    const std::uint8_t units = input.next();
    std::vector<std::byte> bytes(units >= 240 ? Stream::kLeastInSlot << units % 4 : units * 64);
    switch (input.next() % 9) {
      case 0:
      case 1: return void(socket.send(bytes));
      case 2:
      case 3: {
        const bool is_message = socket.has_message();
        const auto got = socket.receive(bytes, input.next() % 2 == 0);
        require(!got || is_message || *got <= bytes.size());
        return;
      }
      case 4: return void(socket.shutdown(1 + input.next() % 3));
      case 5: {
        if (socket.kind() != ConnectionKind::bytes) return;
        const auto owner = std::make_shared<std::vector<std::byte>>(std::move(bytes));
        std::uint64_t number = 0;
        if (socket.stream()->send_in_place(*owner, owner, number)) sent_ = std::max(sent_, number);
        return;
      }
      case 6:
        if (auto chunk = socket.stream()->take_chunk())
          loans_.emplace_back(socket.stream(), std::move(*chunk));
        return;
      case 7: {
        if (loans_.empty()) return;
        auto [stream, chunk] = std::move(loans_.back());
        loans_.pop_back();
        return stream->give_back(std::move(*chunk.slot));
      }
      default:
        socket.close(input.next() % 4 == 0);
        open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(which));
    }
  }

  static void read_word(std::span<const std::byte> bytes) {
    const auto word = decode_group_word(bytes);
    if (!word) return require(word.error().code == Errc::protocol_error);
    const auto written = encode(*word);
    require(std::ranges::equal(written, bytes));
  }

  std::shared_ptr<Mux> mux_;
  std::array<Socket, 2> listeners_{Socket(ConnectionKind::bytes), Socket(ConnectionKind::messages)};
  std::vector<std::unique_ptr<Socket>> open_;
  std::shared_ptr<SlotMemory> slots_;
  std::shared_ptr<LanePool> peers_lanes_;
  std::deque<std::pair<std::shared_ptr<Stream>, ChunkWrite>> under_way_;
  std::vector<std::pair<std::shared_ptr<Stream>, ArrivedChunk>> loans_;
  std::uint64_t sent_ = 0;  // The highest number of all sends in place.
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return play<Play>(data, size);
}
