// Fuzzes what clients, other servers and disks give to rdmc_kv: requests, events of the order, the state of
// another server, the files of a log, and ACL files.
#include <array>
#include <cstring>
#include <string>
#include <string_view>

#include "apps/replicated-kv/access/acl_file.hpp"
#include "apps/replicated-kv/log/frames.hpp"
#include "tests/apps/replicated-kv/lone_servers.hpp"
#include "tests/fuzz/input.hpp"

using namespace rdmc;
using namespace rdmc::fuzz;
using namespace rdmc::kv;
using rdmc::kv::testing::Alone;
using rdmc::kv::testing::content;
using rdmc::kv::testing::load;
using rdmc::kv::testing::Ordered;

namespace {

std::string_view text_of(fuzz::Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Takes one reply away from the front. Ends the process if `replies` does not begin with a reply.
void take_reply(std::string_view& replies, int depth = 0) {
  constexpr int kDeepest = 20;
  const auto end = replies.find("\r\n");
  require(end != std::string_view::npos && end > 0 && depth < kDeepest);
  const char kind = replies[0];
  const std::string_view line = replies.substr(1, end - 1);
  replies.remove_prefix(end + 2);
  if (std::string_view("+-:,#(_").contains(kind)) return;
  require(std::string_view("$=*~>%").contains(kind) && !line.empty());
  if (line == "-1") return;
  std::size_t count = 0;
  for (const char digit : line) {
    require(digit >= '0' && digit <= '9');
    count = 10 * count + static_cast<std::size_t>(digit - '0');
  }
  if (kind == '$' || kind == '=') {
    require(replies.size() >= count + 2 && replies.substr(count, 2) == "\r\n");
    return replies.remove_prefix(count + 2);
  }
  for (std::size_t i = 0; i < (kind == '%' ? 2 : 1) * count; ++i) take_reply(replies, depth + 1);
}

void require_replies(std::string_view replies) {
  while (!replies.empty()) take_reply(replies);
}

/// The requests of a client, which come in pieces. All replies are whole, and what the server has then can be
/// given to another server.
void requests(fuzz::Bytes bytes) {
  Alone server;
  // Otherwise one request could ask for 512 MB.
  require(server("CONFIG SET proto-max-bulk-len 1mb").starts_with("+OK"));
  Client& client = server.connect();
  for (Input input(bytes); !input.empty();) {
    const auto piece = input.take(input.next());
    const auto space = client.parser.space(piece.size());
    std::ranges::copy(text_of(piece), space.data());
    client.parser.received(piece.size());
    require_replies(server(client, ""));
    if (client.is_closing) break;
  }
  const kv::Bytes state = content(server.service);
  Alone other;
  require(load(other.service, state) && content(other.service) == state);
}

/// The events of another server. Whatever they are, the server goes on.
void events(fuzz::Bytes bytes) {
  Ordered server;
  Client& client = server.service.connect("test", server.now);
  std::uint64_t position = 0, own = 0;
  for (Input input(bytes); !input.empty();) {
    const bool is_own = input.next() % 2 == 1;
    server.service.on_event({.position = position++,
                             .epoch = 1,
                             .own_number = is_own ? ++own : 0,
                             .time = server.now * 1'000'000,
                             .bytes = input.take(input.next())});
    server.service.on_stable(position);
    server.service.end_turn(server.now);
  }
  require_replies(client.output);
}

/// A state of another server, in pieces. A state that is accepted means the same after it is written again.
void state(fuzz::Bytes bytes) {
  Alone server;
  require(server.service.on_load({.step = LoadState::Step::begin}));
  for (Input input(bytes); !input.empty();)
    if (!server.service.on_load({.step = LoadState::Step::bytes, .bytes = input.take(1U + input.next())}))
      return;
  if (!server.service.on_load({.step = LoadState::Step::end, .position = 1, .epoch = 1})) return;
  const kv::Bytes written = content(server.service);
  Alone other;
  require(load(other.service, written) && content(other.service) == written);
}

class Memory final : public FileSource {
 public:
  explicit Memory(fuzz::Bytes bytes) : bytes_(bytes) {}
  Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> to) override {
    if (offset >= bytes_.size()) return 0U;
    const auto part = bytes_.subspan(offset).first(std::min<std::size_t>(to.size(), bytes_.size() - offset));
    std::ranges::copy(part, to.data());
    return part.size();
  }

 private:
  const fuzz::Bytes bytes_;
};

/// A file of a log.
void file(fuzz::Bytes bytes) {
  const auto head = decode_file_head(bytes.first(std::min(bytes.size(), kFileHeadBytes)));
  if (refused(head)) return;
  require(decode_file_head(encode(*head)) == *head);
  Memory memory(bytes);
  FrameReader reader(memory, head->id);
  for (;;) {
    const auto frame = reader.next();
    if (refused(frame) || !*frame) return;
    require(reader.offset() <= bytes.size());
    const auto event = decode_logged(**frame);
    if (event) require(std::ranges::equal(encode_logged(*event), **frame));
  }
}

void acl_file(fuzz::Bytes bytes) {
  const auto users = parse_acl_file(text_of(bytes), "file", true);
  if (!users) return require(!users.error().empty());
  const std::string written = acl_file_of(*users);
  const auto again = parse_acl_file(written, "file", true);
  require(again.has_value() && acl_file_of(*again) == written);
}

constexpr std::array kReaders{requests, events, state, file, acl_file};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return read_by_first_byte(kReaders, data, size);
}
