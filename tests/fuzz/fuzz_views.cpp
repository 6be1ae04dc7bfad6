// What members of a view, nodes of a store and etcd may say: the first byte says who reads the rest. Whatever
// is accepted means the same after it has been written and read again.
#include "controlplane/membership/greeting.hpp"
#include "controlplane/store/etcd_codec.hpp"
#include "controlplane/store/store_messages.hpp"
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
void request(Bytes bytes) {
  read_write_read(bytes, store::decode_request,
                  [](const store::Request& request) { return store::encode(request); });
}
void reply(Bytes bytes) {
  read_write_read(bytes, store::decode_reply, [](const store::Reply& reply) { return store::encode(reply); });
}
void command(Bytes bytes) {
  read_write_read(bytes, store::decode_command,
                  [](const store::SwapCommand& command) { return store::encode(command); });
}
void snapshot(Bytes bytes) {
  store::ViewMap map;
  if (refused(map.restore(bytes))) return require(map.size() == 0);
  store::ViewMap again;
  require(again.restore(map.encode()).has_value() && again.encode() == map.encode());
}

void etcd(Bytes bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  static_cast<void>(refused(store::parse_range(text)));
  static_cast<void>(refused(store::parse_swap(text)));
  static_cast<void>(store::watched_epoch(text));
  for (const char c : store::error_text(text)) require(static_cast<unsigned char>(c) >= 0x20);
}

constexpr std::array kReaders{between_views, kept_view, between_members, request,
                              reply,         command,   snapshot,        etcd};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return read_by_first_byte(kReaders, data, size);
}
