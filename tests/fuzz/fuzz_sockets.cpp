// A peer's process and our application, over the connections between their sockets: records and whatever else
// a frame may hold, and words of a group. Whatever comes, frames that we say are whole records, an
// application reads no more than was granted, and once the peer is lost every connection is at its end.
#include <array>
#include <cerrno>
#include <vector>

#include "lib/socket/group_words.hpp"
#include "lib/socket/mux.hpp"
#include "lib/socket/socket.hpp"
#include "tests/fuzz/play.hpp"

using namespace rdmc;
using namespace rdmc::fuzz;
using namespace rdmc::sockets;

namespace {

class Play final : public Opens {
 public:
  explicit Play(std::uint8_t how) : mux_(std::make_shared<Mux>(*this, how % 2 == 0)) {
    for (Socket& listener : listeners_) listener.listen(2);
  }

  void step(Input& input) {
    switch (input.next() % 10) {
      case 0: return hear(input.take(input.next()));
      case 1:
      case 2:
      case 3: return hear_record(input);
      case 4: return accept(listeners_[input.next() % 2]);
      case 5: return connect(input.next() % 2 == 0 ? ConnectionKind::bytes : ConnectionKind::messages);
      case 6: return say(kMostControlBytes + input.next32() % 4096);
      case 7: return read_word(input.take(input.next()));
      default: return act(input);
    }
  }
  void finish() {
    mux_->lose(ETIMEDOUT);
    for (const auto& socket : open_) require((socket->events() & kHungUp) != 0);
    require(mux_->size() == 0 && !mux_->has_something());
  }

 private:
  bool on_open(const Asked& asked, const std::shared_ptr<Stream>& stream) override {
    if (asked.from.port % 3 == 0) return false;
    return listeners_[asked.kind == ConnectionKind::bytes ? 0 : 1].backlog()->add({asked, stream});
  }

  void hear(std::span<const std::byte> frame) {
    if (mux_->is_lost()) return;
    const auto heard = mux_->on_frame(frame);
    if (heard) return;
    require(heard.error().code == Errc::protocol_error && !heard.error().what.empty());
    mux_->lose(EPROTO);
  }

  /// A whole one, of a few connections.
  void hear_record(Input& input) {
    Record record{.kind = RecordKind{static_cast<std::uint8_t>(1 + input.next() % 12)},
                  .connection = ConnectionId{input.next()},
                  .limit = input.next32(),
                  .from = Address::ipv4(10, 0, 0, 1, input.next()),
                  .to = Address::ipv4(10, 0, 0, 2, input.next())};
    if (record.kind == RecordKind::data) record.bytes = input.take(input.next());
    std::vector<std::byte> frame(encoded_bytes(record));
    encode(record, frame);
    hear(frame);
  }

  void say(std::size_t room) {
    std::vector<std::byte> frame(room);
    const std::size_t used = mux_->fill(frame);
    std::span<const std::byte> rest(frame.data(), used);
    while (!rest.empty()) require(take_record(rest).has_value());
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
    std::vector<std::byte> bytes(input.next() * 64);
    switch (input.next() % 6) {
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
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return play<Play>(data, size);
}
