// unicast_peer serve ADDRESS[:PORT] FABRIC [DEVICE]: owns memory, and prints the port on which it listens.
// unicast_peer ask ADDRESS FABRIC SERVER:PORT [DEVICE]: performs every operation of rdmc/unicast.hpp with the
// server as its peer.
// Both follow the same script and check every byte. The last line of the output names the fabric and the
// verified operations. Exit status: 0 if all checks passed, 1 if a check failed (standard error names it), 2
// for wrong arguments.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <rdmc/unicast.hpp>
#include <string>
#include <type_traits>
#include <vector>

namespace {

using namespace rdmc;
using Bytes = std::vector<std::byte>;

constexpr Duration kPatience = seconds(60);  // Only a failing test waits this long.
constexpr RemoteAccess kAccess = RemoteAccess::write | RemoteAccess::read | RemoteAccess::atomic;
/// The lengths of the messages.
constexpr std::size_t kSent = 20'000, kCopied = 100, kAnswered = 9'001;
/// A part of the server's memory, and the seed of the bytes that are written into this part.
struct Piece {
  std::size_t offset, bytes;
  unsigned seed;
};
// The first word of the memory is for atomic operations.
constexpr std::size_t kMemoryBytes = 256 * 1024;
constexpr Piece kWritten{64, 50'000, 4}, kTold{60'000, 5'000, 5}, kRenewed{70'000, 1'000, 6},
    kStolen{80'000, 1'000, 7}, kLate{90'000, 1'000, 8}, kReconnected{100'000, 1'000, 9};
constexpr std::uint64_t kFirstValue = 40, kSwapped = 50, kAdded = 5;
/// The immediate of a message without bytes. It names the next step to the other side.
enum Step : std::uint32_t { kCopy = 7, kAnswer, kTell, kLook, kStolenKeyRefused, kStolenKeyGood, kRevoked };

[[noreturn]] void die(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::_Exit(1);
}

void check(bool right, const std::string& what) {
  if (!right) die(what);
}

template <typename T>
T must(Result<T> result, const char* what) {
  if (!result) die(std::string(what) + ": " + result.error().what);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

Bytes pattern(std::size_t bytes, unsigned seed) {
  Bytes all(bytes);
  for (std::size_t i = 0; i < bytes; ++i) all[i] = static_cast<std::byte>(i * 7 + i / 251 + seed);
  return all;
}

Bytes pattern(const Piece& piece) {
  return pattern(piece.bytes, piece.seed);
}

bool is_receive(WorkKind kind) {
  return kind == WorkKind::receive || kind == WorkKind::receive_write_immediate;
}

/// An endpoint. Its completions and its connections are awaited one after the other.
class Party {
 public:
  explicit Party(EndpointOptions options) {
    options.name = "peer";
    options.insecure = true;
    EndpointCallbacks on;
    on.connected = [this](const Connection& connection) { note([&] { connected_.push_back(connection); }); };
    on.disconnected = [this](const Connection& connection, const Error& cause) {
      note([&] { ended_.emplace(connection.id(), cause); });
    };
    endpoint_ = must(Endpoint::create(options, on), "creating the endpoint");
  }
  Endpoint* operator->() { return endpoint_.get(); }

  /// Returns the next completion on this connection: of a receive if `receives` is true, and otherwise of
  /// another operation.
  Completion take(const Connection& connection, bool receives) {
    const auto is_wanted = [&](const Completion& one) {
      return one.connection == connection.id() && is_receive(one.kind) == receives;
    };
    auto found = std::ranges::find_if(waiting_, is_wanted);
    while (found == waiting_.end()) {
      Completion one;
      check(endpoint_->poll({&one, 1}, kPatience) == 1, "an operation does not end");
      waiting_.push_back(one);
      found = std::ranges::find_if(waiting_, is_wanted);
    }
    const Completion one = *found;
    waiting_.erase(found);
    return one;
  }
  /// Like take(). Also checks the kind and the status.
  Completion next(const Connection& connection, WorkKind kind, WorkStatus status = WorkStatus::success) {
    const Completion one = take(connection, is_receive(kind));
    check(one.status == status, "an operation has ended with \"" + std::string(fabric::name(one.status)) +
                                    "\", and not with \"" + std::string(fabric::name(status)) + "\"");
    check(one.kind == kind, "another kind of operation has ended");
    return one;
  }
  /// Checks that the next message has this immediate and no bytes.
  void expect_step(const Connection& connection, Step step) {
    const Completion one = next(connection, WorkKind::receive);
    check(one.immediate == step && one.byte_count == 0, "the peer tells another step");
  }
  void tell_step(const Connection& connection, Step step) {
    must(connection.send_copy({}, 0, step), "telling a step");
    next(connection, WorkKind::send);
  }
  Connection connection(std::size_t index) {
    wait_until([&] { return connected_.size() > index; }, "nobody connects");
    const std::lock_guard lock(mutex_);
    return connected_[index];
  }
  /// Waits for the end of the connection, and checks its cause.
  void expect_end(const Connection& connection, Errc cause) {
    wait_until([&] { return ended_.contains(connection.id()); }, "a connection does not end");
    const std::lock_guard lock(mutex_);
    const Error& error = ended_.at(connection.id());
    check(error.code == cause,
          "a connection has ended with \"" + std::string(name(error.code)) + "\": " + error.what);
  }

 private:
  template <typename Change>
  void note(Change change) {
    const std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }
  template <typename Condition>
  void wait_until(Condition condition, const char* otherwise) {
    std::unique_lock lock(mutex_);
    check(changed_.wait_for(lock, std::chrono::nanoseconds(kPatience.ns), condition), otherwise);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Connection> connected_;
  std::map<ConnectionId, Error> ended_;
  std::vector<Completion> waiting_;
  std::unique_ptr<Endpoint> endpoint_;  // Declared last, so that it is destroyed first.
};

/// The side that owns the memory.
class Server {
 public:
  explicit Server(const EndpointOptions& options) : party_(options) {
    std::memcpy(memory_.data(), &kFirstValue, sizeof kFirstValue);
    region_ = must(party_->register_memory(memory_, kAccess), "registering memory");
    must(party_->listen(), "listening");
    std::printf("port %d\n", party_->address().port);
    std::fflush(stdout);
  }

  void run() {
    const Connection first = party_.connection(0);
    Bytes sent(kSent), copied(kCopied);
    must(first.post_receive(sent, 1), "posting a receive");
    must(first.post_receive(copied, 2), "posting a receive");
    for (std::uint64_t i = 3; i <= 5; ++i) must(first.post_receive({}, i), "posting a receive");
    let_in(first);
    check(party_.next(first, WorkKind::receive).byte_count == kSent && sent == pattern(kSent, 1),
          "another message has arrived");
    const Completion second_message = party_.next(first, WorkKind::receive);
    check(second_message.immediate == kCopy && copied == pattern(kCopied, 2),
          "another copied message has arrived");
    const Bytes answer = pattern(kAnswered, 3);
    must(first.send(answer, 6, kAnswer), "answering");
    party_.next(first, WorkKind::send);

    const Completion told = party_.next(first, WorkKind::receive_write_immediate);
    check(told.immediate == kTell && told.byte_count == kTold.bytes, "another immediate has arrived");
    check(has(kWritten) && has(kTold), "other bytes were written");
    party_.expect_step(first, kLook);
    std::uint64_t value = 0;
    std::memcpy(&value, memory_.data(), sizeof value);
    check(value == kSwapped + kAdded, "the atomic operations have left another value");
    revocations(first);
  }

 private:
  void let_in(const Connection& connection) {
    // A NIC has no keys for single connections. So it must refuse a key for one connection. If the caller
    // permits this, it grants a key for the whole device.
    const bool ties_keys = party_->capabilities().keys_per_connection;
    if (!ties_keys)
      check(region_.grant(connection).error().code == Errc::unsupported,
            "this fabric ties a key to a connection, and says that it does not");
    const auto key =
        must(region_.grant(connection, {.widest = ties_keys ? KeyScope::connection : KeyScope::device}),
             "granting");
    must(connection.send_copy(key.encode(), 0), "telling the key");
    party_.next(connection, WorkKind::send);
  }
  bool has(const Piece& piece) const {
    return std::ranges::equal(std::span(memory_).subspan(piece.offset, piece.bytes), pattern(piece));
  }
  bool is_untouched(const Piece& piece) const {
    return std::ranges::all_of(std::span(memory_).subspan(piece.offset, piece.bytes),
                               [](std::byte one) { return one == std::byte{}; });
  }

  void revocations(const Connection& first) {
    must(region_.revoke(first), "revoking");
    let_in(first);  // This grants the memory again, on the same connection.
    const Connection second = party_.connection(1);
    let_in(second);
    const auto verdict = party_.next(first, WorkKind::receive).immediate;
    check(has(kRenewed), "other bytes were written with the key that was granted anew");
    check(verdict == kStolenKeyGood ? has(kStolen) : is_untouched(kStolen),
          "the peer knows less than it has written");
    if (verdict == kStolenKeyRefused) party_.expect_end(second, Errc::peer_failed);

    must(region_.revoke(first), "revoking again");
    party_.tell_step(first, kRevoked);
    party_.expect_end(first, Errc::peer_failed);
    check(is_untouched(kLate), "a revoked key has changed bytes");

    const Connection third = party_.connection(2);
    must(third.post_receive({}, 1), "posting a receive");
    let_in(third);
    party_.expect_step(third, kLook);
    check(has(kReconnected), "other bytes were written after connecting again");
    check(is_untouched(kLate), "a revoked key has changed bytes after all");
    party_.expect_end(third, Errc::cancelled);
    refuse_a_message(party_.connection(3));
  }
  /// Receives a message that is longer than its receive. Checks how the receive ends.
  void refuse_a_message(const Connection& connection) {
    Bytes room(kCopied);
    must(connection.post_receive(room, 1), "posting a receive");
    let_in(connection);
    const WorkStatus status = party_.take(connection, true).status;
    // In this case, Soft-RoCE reports a failed local operation, which rdmc reports as flushed.
    const bool is_flushed = status == WorkStatus::flushed && party_->fabric_name() == "verbs";
    check(status == WorkStatus::local_length || is_flushed,
          "a receive that was too short ends with \"" + std::string(fabric::name(status)) + "\"");
    party_.expect_end(connection, is_flushed ? Errc::peer_failed : Errc::protocol_error);
  }

  Bytes memory_ = Bytes(kMemoryBytes);
  Party party_;
  Region region_;
};

/// The side that performs the operations.
class Client {
 public:
  Client(const EndpointOptions& options, Endpoint::Target server)
      : party_(options), server_(std::move(server)) {}

  std::string run() {
    Connection first = connect();
    const RemoteMemory memory = key(first);
    messages(first);
    writes(first, memory);
    atomics(first, memory);
    const bool is_tied = revocations(first, memory);
    return party_->fabric_name() +
           ": send send_copy receive write write_with_immediate read compare_and_swap fetch_and_add revoke "
           "grant_anew stolen_key_" +
           (is_tied ? "refused" : "good") + " long_message_" + send_too_much();
  }

 private:
  Connection connect() { return must(party_->connect(server_, kPatience), "connecting"); }
  /// Posts a receive, and returns the key that arrives in it. The caller must have posted all its other
  /// receives before it calls this.
  RemoteMemory key(const Connection& connection) {
    Bytes words(RemoteMemory::kEncodedBytes);
    must(connection.post_receive(words, 0), "posting a receive");
    party_.next(connection, WorkKind::receive);
    return must(RemoteMemory::decode(words), "reading a key");
  }
  void write(const Connection& connection, const RemoteMemory& to, const Piece& piece) {
    const Bytes bytes = pattern(piece);
    must(connection.write(bytes, to, piece.offset, piece.seed), "writing");
    party_.next(connection, WorkKind::write);
  }
  void check_read(const Connection& connection, const RemoteMemory& from, const Piece& piece) {
    Bytes bytes(piece.bytes);
    must(connection.read(bytes, from, piece.offset, 0), "reading");
    party_.next(connection, WorkKind::read);
    check(bytes == pattern(piece), "other bytes were read");
  }

  void messages(const Connection& to) {
    Bytes answer(kAnswered);
    must(to.post_receive(answer, 1), "posting a receive");
    const Bytes sent = pattern(kSent, 1);
    must(to.send(sent, 2), "sending");
    Bytes copied = pattern(kCopied, 2);
    must(to.send_copy(copied, 3, kCopy), "sending a copy");
    std::ranges::fill(copied, std::byte{0xEE});
    party_.next(to, WorkKind::send);
    party_.next(to, WorkKind::send);
    const Completion answered = party_.next(to, WorkKind::receive);
    check(answered.immediate == kAnswer && answer == pattern(kAnswered, 3), "another answer has arrived");
  }
  void writes(const Connection& to, const RemoteMemory& memory) {
    write(to, memory, kWritten);
    const Bytes told = pattern(kTold);
    must(to.write_with_immediate(told, memory, kTold.offset, kTell, 0), "writing with an immediate");
    party_.next(to, WorkKind::write);
    check_read(to, memory, kWritten);
    check_read(to, memory, kTold);
  }
  void atomics(const Connection& to, const RemoteMemory& memory) {
    const auto original = [&](const Result<void>& asked) {
      must(asked, "an atomic operation");
      return party_.next(to, WorkKind::atomic).original;
    };
    check(original(to.compare_and_swap(memory, 0, kFirstValue + 1, 1, 0)) == kFirstValue &&
              original(to.compare_and_swap(memory, 0, kFirstValue, kSwapped, 0)) == kFirstValue &&
              original(to.fetch_and_add(memory, 0, kAdded, 0)) == kSwapped,
          "an atomic operation has found another value");
    check(to.fetch_and_add(memory, 4, 1, 0).error().code == Errc::invalid_argument,
          "an atomic operation at no multiple of 8 is not refused");
  }
  /// Tests that revoked keys are refused. Returns true if the server has also refused the key of another
  /// connection.
  bool revocations(Connection first, const RemoteMemory& revoked) {
    party_.tell_step(first, kLook);
    const RemoteMemory renewed = key(first);
    check(renewed.key != revoked.key || renewed.address != revoked.address, "the old key was granted again");
    write(first, renewed, kRenewed);
    const bool is_tied = try_stolen_key(renewed);
    must(first.post_receive({}, 0), "posting a receive");
    party_.tell_step(first, is_tied ? kStolenKeyRefused : kStolenKeyGood);
    party_.expect_step(first, kRevoked);

    const Bytes late = pattern(kLate);
    must(first.write(late, renewed, kLate.offset, 0), "asking for a write");
    party_.next(first, WorkKind::write, WorkStatus::remote_access);
    party_.expect_end(first, Errc::permission_denied);
    check(first.send({}, 0).error().code == Errc::peer_failed, "a connection that is over takes operations");

    Connection again = connect();
    const RemoteMemory memory = key(again);
    write(again, memory, kReconnected);
    check_read(again, memory, kReconnected);
    party_.tell_step(again, kLook);
    again.disconnect();
    party_.expect_end(again, Errc::cancelled);
    return is_tied;
  }
  /// Sends a message that is longer than the server's receive. Returns how the server has refused it.
  std::string send_too_much() {
    const Connection last = connect();
    key(last);
    const Bytes bytes(kCopied + 1);
    must(last.send(bytes, 0), "sending");
    const WorkStatus status = party_.take(last, false).status;
    check(status == WorkStatus::remote_invalid_request || status == WorkStatus::remote_operational,
          "a message that is too long ends with \"" + std::string(fabric::name(status)) + "\"");
    const bool is_named = status == WorkStatus::remote_invalid_request;
    party_.expect_end(last, is_named ? Errc::protocol_error : Errc::peer_failed);
    return is_named ? "invalid" : "operational";
  }
  /// Uses the key of one connection on another connection of this process. Returns true if the server refuses
  /// this.
  bool try_stolen_key(const RemoteMemory& stolen) {
    const Connection second = connect();
    key(second);
    const Bytes bytes = pattern(kStolen);
    must(second.write(bytes, stolen, kStolen.offset, 0), "asking for a write");
    const WorkStatus ended = party_.take(second, false).status;
    if (ended == WorkStatus::success) return false;
    check(ended == WorkStatus::remote_access, "a stolen key ends with another status");
    party_.expect_end(second, Errc::permission_denied);
    return true;
  }

  Party party_;
  const Endpoint::Target server_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const bool serves = argv[1] == std::string_view("serve");
  const auto address = parse_address(argv[2], 0);
  const int device = serves ? 4 : 5;
  if (!address || argc < device || argc > device + 1) return 2;
  const EndpointOptions options{
      .address = *address, .fabric = argv[3], .device = argc > device ? argv[device] : ""};
  if (serves) {
    Server(options).run();
    return 0;
  }
  const auto server = parse_address(argv[4], 0);
  if (!server) return 2;
  const std::string verified = Client(options, {.host = host_string(*server), .port = server->port}).run();
  std::printf("verified %s\n", verified.c_str());
}
