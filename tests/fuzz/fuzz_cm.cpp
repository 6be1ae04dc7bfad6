// Fuzzes a connection manager with any MADs in any order. Many are well-formed MADs for existing connections,
// of every kind. Meanwhile the local application connects, accepts, refuses and disconnects. Besides crashes,
// the target checks that:
// - a decoded message is the same after it is encoded and decoded again,
// - at most two datagrams answer one datagram,
// - the number of connections stays small.
#include <vector>

#include "dataplane/base/random.hpp"
#include "dataplane/cm/manager.hpp"
#include "tests/fuzz/play.hpp"

using namespace rdmc;
using namespace rdmc::cm;
using namespace rdmc::fuzz;

namespace {

constexpr std::uint16_t kPort = 7174;
const Address kOurs = Address::ipv4(10, 0, 0, 1, 0);

Address peer(std::uint8_t number) {
  return Address::ipv4(10, 0, 0, static_cast<std::uint8_t>(2 + (number & 1)), 7000);
}

QueuePairParameters parameters(Input& input) {
  return {.qpn = Qpn{input.next() | 2U},
          .starting_psn = Psn(input.next()),
          .responder_resources = input.next(),
          .initiator_depth = 4,
          .rnr_retry_count = 7};
}

class Play {
 public:
  Play() { require(manager_.listen(kPort).has_value()); }

  void step(Input& input) {
    const std::uint8_t what = input.next();
    switch (what & 7) {
      case 0:
      case 1:
      case 2: receive(peer(what >> 7), encode(message(input, what >> 7)), input); break;
      case 3: {
        const auto raw = input.take(kMadBytes);
        manager_.on_datagram(peer(what >> 7), raw, now_);
        break;
      }
      case 4: now_ = now_ + milliseconds(std::int64_t{input.next()} << (what >> 4)); break;
      case 5: now_ = std::max(now_, std::min(manager_.next_deadline(), now_ + seconds(100))); break;
      case 6:
        if (const auto made = manager_.connect(peer(what >> 7), parameters(input), 1024, now_)) know(*made);
        break;
      default: act(input); break;
    }
    if (manager_.next_deadline() <= now_) manager_.on_timer(now_);
    drain();
  }

 private:
  void know(CommunicationId id) {
    if (known_.size() < 64) known_.push_back(id);
  }
  CommunicationId ours(Input& input) const {
    const std::uint8_t which = input.next();
    return which < known_.size() ? known_[which] : CommunicationId{which};
  }
  Message message(Input& input, unsigned from) {
    Message message{.transaction = input.next(), .body = {}};
    const CommunicationId theirs{input.next() & 3U};
    const std::uint8_t kind = input.next();
    switch (kind & 7) {
      case 0:
      case 1: {
        const std::array<std::uint32_t, 4> mtus{256, 1024, 4096, 1024};
        Request request{.local = theirs,
                        .service_id = service_of((kind & 0x80) != 0 ? std::uint16_t{1} : kPort),
                        .queue_pair = parameters(input),
                        .response_timeout = 18,
                        .path_mtu = mtus[kind >> 3 & 3],
                        .local_address = peer(static_cast<std::uint8_t>(from)),
                        .remote_address = kOurs};
        const auto header = encode(IpHeader{request.local_address, kOurs});
        request.private_data.assign(header.begin(), header.end());
        message.body = request;
        break;
      }
      case 2:
        message.body = Reply{.local = theirs, .remote = ours(input), .queue_pair = parameters(input)};
        break;
      case 3:
        message.body = Reject{.local = theirs,
                              .remote = ours(input),
                              .answered = static_cast<Answered>(kind >> 3 & 3),
                              .reason = RejectReason{input.next()}};
        break;
      case 4:
        message.body = MessageReceived{.local = theirs,
                                       .remote = ours(input),
                                       .answered = static_cast<Answered>(kind >> 3 & 3),
                                       .service_timeout = input.next()};
        break;
      case 5: message.body = ReadyToUse{.local = theirs, .remote = ours(input)}; break;
      case 6:
        message.body =
            DisconnectRequest{.local = theirs, .remote = ours(input), .remote_qpn = Qpn{input.next()}};
        break;
      default: message.body = DisconnectReply{.local = theirs, .remote = ours(input)}; break;
    }
    return message;
  }
  void receive(const Address& from, Mad mad, Input& input) {
    const std::uint8_t damage = input.next();
    if (damage >= 0x80) mad[input.next()] ^= static_cast<std::byte>(1 << (damage & 7));
    manager_.on_datagram(from, mad, now_);
  }
  void act(Input& input) {
    const std::uint8_t what = input.next();
    const CommunicationId id = ours(input);
    switch (what & 7) {
      case 0:
      case 1: return manager_.accept(id, parameters(input), now_);
      case 2: return manager_.reject(id, RejectReason::consumer, now_);
      case 3: return manager_.confirm(id);
      case 4: return manager_.on_data(id, now_);
      default: return manager_.disconnect(id, now_);
    }
  }
  void drain() {
    std::size_t sent = 0;
    for (Datagram out; manager_.poll_transmit(out); ++sent) {
      const auto decoded = decode(out.mad);
      require(decoded.has_value() && encode(*decoded) == out.mad);
    }
    require(sent <= 2 + known_.size() + Manager::kMostConnections);
    for (Event event; manager_.poll_event(event);) know(event.connection);
  }

  Random random_{1};
  Manager manager_{kOurs, [this] { return static_cast<std::uint32_t>(random_.next()); }};
  Time now_ = Time{} + seconds(1);
  std::vector<CommunicationId> known_;
};

/// Checks the codec with a single MAD: a decoded message must be the same after it is encoded and decoded
/// again.
void check_codec(std::span<const std::byte> mad) {
  const auto message = decode(mad);
  if (!message) return require(!name(message.error()).empty());
  const Mad written = encode(*message);
  const auto again = decode(written);
  require(again.has_value() && encode(*again) == written);
  if (const auto* request = std::get_if<Request>(&message->body))
    (void)decode_ip_header(request->private_data);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  check_codec({reinterpret_cast<const std::byte*>(data), size});
  return play<Play>(data, size);
}
