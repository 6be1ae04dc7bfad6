// Fuzzes the messages of three kinds of senders: the members of a view, the nodes of a store, and etcd. The
// first byte selects the parser for the other bytes. An accepted message must mean the same after it is
// written and read again.
#include "controlplane/membership/greeting.hpp"
#include "controlplane/store/caspaxos/journal.hpp"
#include "controlplane/store/caspaxos/node.hpp"
#include "controlplane/store/etcd_codec.hpp"
#include "controlplane/view/messages.hpp"
#include "tests/fuzz/input.hpp"

using namespace rdmc;
using namespace rdmc::fuzz;

namespace {

template <typename Decode, typename Encode>
void read_write_read(Bytes bytes, Decode decode, Encode encode) {
  const auto read = decode(bytes);
  if (refused(read)) return;
  const auto written = encode(*read);
  const auto again = decode(written);
  require(again.has_value() && encode(*again) == written);
}

void between_views(Bytes bytes) {
  read_write_read(bytes, view::decode, [](const view::Message& message) { return view::encode(message); });
}
void kept_view(Bytes bytes) {
  read_write_read(bytes, view::decode_view, view::encode_view);
  const auto view = view::decode_view(bytes);
  require(!view || view->members.size() <= view::kMaxMembers);
}
void between_members(Bytes bytes) {
  read_write_read(bytes, membership::decode_greeting,
                  [](const membership::Greeting& greeting) { return membership::encode(greeting); });
  read_write_read(bytes, membership::decode,
                  [](const membership::Message& message) { return membership::encode(message); });
}
// The next functions read the messages between the nodes of the embedded store and their clients, and the
// journal of a node.
void request(Bytes bytes) {
  read_write_read(bytes, store::decode_request,
                  [](const store::Request& request) { return store::encode(request); });
}
void reply(Bytes bytes) {
  read_write_read(bytes, store::decode_reply, [](const store::Reply& reply) { return store::encode(reply); });
}
void configuration(Bytes bytes) {
  read_write_read(bytes, store::decode_configuration,
                  [](const store::Configuration& configuration) { return store::encode(configuration); });
}
void entry(Bytes bytes) {
  read_write_read(bytes, store::decode_journal_entry,
                  [](const store::JournalEntry& entry) { return store::encode(entry); });
}
/// A node must be able to write the state that it has read from a journal. It must then be able to read the
/// written state.
void journal(Bytes bytes) {
  const auto kept = store::recover(bytes);
  if (refused(kept)) return;
  store::Acceptor acceptor(*kept);
  const auto again = store::recover(store::Journal{}.frame(*acceptor.take_write()));
  require(again.has_value() && *again == *kept);
}
/// Any process that has the key may send any request to a node that answers clients. This must do no harm.
void ask_node(Bytes bytes) {
  auto request = store::decode_request(bytes);
  if (refused(request)) return;
  const store::Id self{1, 1};
  store::Durable kept{.id = self,
                      .active = {1, {self, {1, 2}, {1, 3}}, 0, {}},
                      .next = {},
                      .vote = {},
                      .ceiling = 0,
                      .registers = {}};
  store::Node node({.self = 0, .nodes = 3, .fresh = self, .proposer = {2, 2}, .seed = 1}, std::move(kept),
                   Time{});
  node.receive(1, std::move(*request), Time{});
  for (const auto& write : node.take_writes()) node.synced(write.sequence, Time{});
  for (const auto& to : node.take_replies())
    require(store::decode_reply(store::encode(to.reply)).has_value());
  for (const auto& to : node.take_requests())
    require(store::decode_request(store::encode(to.request)).has_value());
}

/// A process that has the key and the address of a store node may send any sequence of answers to another
/// node. These answers must not end the process of the other node. That node is new, is joining, or already
/// answers clients.
void answer_node(Bytes bytes) {
  Input input(bytes);
  const store::Id self{1, 1};
  const store::Configuration first{1, {self, {1, 2}, {1, 3}}, 0, {}};
  store::Durable kept{.id = self};
  const std::uint8_t how = input.next();
  if (how % 3 == 1) kept.next = {2, {self, {1, 2}, {1, 4}}, 1, first.acceptors};
  if (how % 3 == 2) kept.active = first;
  store::Node node({.self = 0, .nodes = 3, .fresh = self, .proposer = {2, 2}, .seed = 1}, std::move(kept),
                   Time{});
  if (how >= 128) node.receive(1, {1, store::Survive{}}, Time{});
  for (Time now; !input.empty(); now = now + milliseconds(input.next())) {
    node.tick(now);
    const std::size_t from = input.next() % 3;
    const std::size_t length = input.next();
    if (const auto reply = store::decode_reply(input.take(length)); !refused(reply))
      node.hear(from, *reply, now);
    for (const auto& write : node.take_writes()) node.synced(write.sequence, now);
    for (const auto& to : node.take_replies())
      require(store::decode_reply(store::encode(to.reply)).has_value());
    for (const auto& to : node.take_requests())
      require(store::decode_request(store::encode(to.request)).has_value());
  }
}

void etcd(Bytes bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  static_cast<void>(refused(store::parse_range(text)));
  static_cast<void>(refused(store::parse_swap(text)));
  static_cast<void>(store::watched_epoch(text));
  for (const char c : store::error_text(text)) require(static_cast<unsigned char>(c) >= 0x20);
}

constexpr std::array kReaders{between_views, kept_view, between_members, request,  reply,      configuration,
                              entry,         etcd,      journal,         ask_node, answer_node};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return read_by_first_byte(kReaders, data, size);
}
