// Fuzzes the control connection between two processes: the messages of the other process, and the actions of
// the local services meanwhile. The target checks that:
// - an accepted message means the same after it is written and read again,
// - the events of a conversation have an order on which its owner can rely, and the stored data is limited,
// - for a selection, a dial ends with a connection that exists and leads to the same peer identity, whatever
//   processes prove to each other.
#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "controlplane/peer/conversation.hpp"
#include "controlplane/peer/same_process.hpp"
#include "controlplane/peer/selection.hpp"
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

/// Makes a message of the other side. The order of these messages may be wrong.
Message said(Input& input) {
  const ChannelId channel{input.next() % 8u};
  switch (input.next() % 8) {
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
    case 5: return Reset{channel, Errc::cancelled, "reset"};
    case 6: return Known{std::vector<Proof>(input.next() % 3)};
    default: return Choice{input.next() % 2 == 0 ? std::nullopt : std::optional(Proof{})};
  }
}

/// Follows the events of the conversation, and remembers which channels its owner knows.
class Owner {
 public:
  explicit Owner(bool dials) : conversation_(dials), dials_(dials) {
    if (dials) conversation_.introduce({});
  }

  /// Returns false if the other side has violated the protocol.
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
    switch (input.next() % 6) {
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
      case 4:
        if (asked_.erase(channel) + requested_.erase(channel) + open_.erase(channel) != 0)
          conversation_.reset(channel, {Errc::cancelled, "ours"});
        break;
      default:
        if (dials_ && conversation_.is_open() && !std::exchange(is_asking_, true)) conversation_.ask({});
    }
  }

 private:
  void on(Introduced&) {
    require(!std::exchange(is_introduced_, true));
    if (!dials_) conversation_.introduce({});
  }
  void on(Known&) {
    require(is_introduced_ && !dials_);
    conversation_.answer({});
  }
  void on(Choice&) { require(std::exchange(is_asking_, false)); }
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
  bool is_introduced_ = false, is_asking_ = false;
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

/// Has several connections to processes. The processes have only a few different identities, and know each
/// other's secrets.
class Dialer {
 public:
  void act(Input& input) {
    const Selection::Number number = input.next() % 8u;
    const auto found = connections_.find(number);
    if (found == connections_.end()) return begin(number, input);
    Connection& connection = found->second;
    switch (input.next() % 4) {
      case 0:
        if (is_introduced(connection)) self_.on_use(number);
        return;
      case 1: return end(number);
      default: break;
    }
    if (!connection.dials) return check(number, self_.on_known(number, {proofs(connection, input)}));
    if (connection.is_asked) {
      const auto some = proofs(connection, input);
      return check(number, self_.on_choice(number, {some.empty() ? std::nullopt : std::optional(some[0])}));
    }
    if (is_introduced(connection)) return;  // The dial of this connection has ended.
    connection.hello.identity = name(input);
    check(number, self_.on_answer(number, {connection.hello.identity, {}, {}, proofs(connection, input)}));
  }

 private:
  struct Connection {
    bool dials = false, is_asked = false;
    Hello hello;  // Contains the peer identity and the local nonce.
    Token secret{};
  };

  static bool is_introduced(const Connection& connection) { return connection.hello.identity != Identity{}; }
  static Identity name(Input& input) {
    return {.incarnation = {std::byte{1}, std::byte{static_cast<std::uint8_t>(input.next() % 2)}},
            .process = {}};
  }
  std::vector<Proof> proofs(const Connection& on, Input& input) const {
    std::vector<Proof> all;
    for (const auto& [number, each] : connections_)
      if (input.next() % 2 == 0)
        all.push_back(proof_of(each.secret, ours_, on.hello.identity, on.hello.nonce));
    return all;
  }
  void begin(Selection::Number number, Input& input) {
    const Token nonce{std::byte{2}, std::byte{input.next()}}, secret{std::byte{3}, std::byte{input.next()}};
    Connection& connection = connections_[number];
    connection = {.dials = input.next() % 2 == 0, .hello = {{}, nonce, {}, {}}, .secret = secret};
    if (connection.dials) {
      (void)self_.dial(number, nonce, secret);
    } else {
      connection.hello.identity = name(input);
      (void)self_.answer(number, {connection.hello.identity, {}, secret, {}}, nonce);
    }
  }
  void check(Selection::Number number, const Selection::Step& step) {
    Connection& connection = connections_.at(number);
    require(step.say.has_value() != step.use.has_value());
    connection.is_asked = connection.dials && step.say;
    if (!step.use) return;
    require(connection.dials && connections_.contains(*step.use));
    require(connections_.at(*step.use).hello.identity == connection.hello.identity);
    if (*step.use != number) connections_.erase(number);
  }
  void end(Selection::Number number) {
    self_.on_end(number);
    connections_.erase(number);
  }

  const Identity ours_{.incarnation = {std::byte{1}, std::byte{1}}, .process = {}};
  Selection self_{ours_};
  std::map<Selection::Number, Connection> connections_;
};

void selection(fuzz::Bytes bytes) {
  Input input(bytes);
  Dialer dialer;
  while (!input.empty()) dialer.act(input);
}

constexpr std::array kReaders{message, conversation, selection};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return read_by_first_byte(kReaders, data, size);
}
