// What another process may say on the control connection between two processes, and what our services do
// meanwhile. Messages: whatever is accepted means the same after it has been written and read again. The
// conversation: events come in an order that its owner can rely on, and what it keeps is bounded.
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "controlplane/peer/conversation.hpp"
#include "tests/fuzz/input.hpp"

using namespace rdmc;
using namespace rdmc::fuzz;
using namespace rdmc::peer;

namespace {

void message(fuzz::Bytes bytes) {
  const auto read = decode(bytes);
  if (refused(read)) return;
  const auto again = decode(encode(*read));
  require(again.has_value() && *again == *read);
  require(encode(*read).size() <= bytes.size() + kMostOverheadBytes);
}

peer::Bytes some(Input& input) {
  const auto bytes = input.take(input.next() % 32);
  return {bytes.begin(), bytes.end()};
}

/// A message of the other side, in order or not.
Message said(Input& input) {
  const ChannelId channel{input.next() % 8u};
  switch (input.next() % 6) {
    case 0: {
      Hello hello;
      hello.identity.incarnation.fill(std::byte{input.next()});
      hello.proofs.resize(input.next() % 3);
      return hello;
    }
    case 1: return Open{channel, "service", {some(input), some(input)}};
    case 2: return Accept{channel, {some(input), some(input)}};
    case 3: return Data{channel, some(input)};
    case 4: return Close{channel};
    default: return Reset{channel, Errc::cancelled, "reset"};
  }
}

/// Follows what the conversation tells: which channels its owner knows.
class Owner {
 public:
  explicit Owner(bool dials) : conversation_(dials), dials_(dials) {
    if (dials) conversation_.introduce({});
  }

  /// False: the other side has broken the protocol.
  bool hear(std::span<const std::byte> bytes) {
    const auto heard = conversation_.on_message(bytes);
    while (auto event = conversation_.poll_event()) std::visit([this](auto& one) { on(one); }, *event);
    while (conversation_.poll_transmit()) {
    }
    require(conversation_.channels() <= Conversation::kMostChannels);
    return !refused(heard);
  }

  void act(Input& input) {
    const ChannelId channel{input.next() % 8u};
    switch (input.next() % 5) {
      case 0:
        if (conversation_.is_open())
          if (const auto opened = conversation_.open("ours", {some(input), {}})) asked_.insert(*opened);
        break;
      case 1:
        if (requested_.erase(channel) == 0) break;
        require(conversation_.accept(channel, {}));
        open_.insert(channel);
        break;
      case 2: {
        const auto sent = conversation_.send(channel, some(input));
        require(open_.contains(channel) || refused(sent));
        break;
      }
      case 3:
        if (open_.contains(channel)) conversation_.close(channel);
        break;
      default:
        if (asked_.erase(channel) + requested_.erase(channel) + open_.erase(channel) != 0)
          conversation_.reset(channel, {Errc::cancelled, "ours"});
    }
  }

 private:
  void on(Introduced&) {
    require(!std::exchange(is_introduced_, true));
    if (!dials_) conversation_.introduce({});
  }
  void on(Requested& event) {
    require(is_introduced_ && !open_.contains(event.channel) && requested_.insert(event.channel).second);
  }
  void on(Accepted& event) {
    require(asked_.erase(event.channel) == 1 && open_.insert(event.channel).second);
  }
  void on(Received& event) { require(open_.contains(event.channel)); }
  void on(Closed& event) { require(open_.erase(event.channel) == 1); }
  void on(WasReset& event) {
    require(asked_.erase(event.channel) + requested_.erase(event.channel) + open_.erase(event.channel) == 1);
  }

  Conversation conversation_;
  const bool dials_;
  bool is_introduced_ = false;
  std::set<ChannelId> asked_, requested_, open_;
};

void conversation(fuzz::Bytes bytes) {
  Input input(bytes);
  Owner owner(input.next() % 2 == 1);
  while (!input.empty()) {
    const std::uint8_t step = input.next();
    if (step % 3 == 0)
      owner.act(input);
    else if (!owner.hear(step % 3 == 1 ? encode(said(input)) : some(input)))
      return;
  }
}

constexpr std::array kReaders{message, conversation};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return read_by_first_byte(kReaders, data, size);
}
