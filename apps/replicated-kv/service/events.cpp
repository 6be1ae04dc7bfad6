#include "apps/replicated-kv/service/events.hpp"

#include "apps/replicated-kv/data/databases.hpp"

namespace rdmc::kv {

namespace {

constexpr std::uint64_t kResp3 = 1, kLocal = 2;

}  // namespace

void put_command(Bytes& out, std::uint32_t database, bool is_resp3, bool is_local,
                 std::span<const std::string_view> words) {
  put_varint(out, (is_resp3 ? kResp3 : 0) | (is_local ? kLocal : 0));
  put_varint(out, database);
  put_varint(out, words.size());
  for (const std::string_view word : words) put_bytes(out, word);
}

void put_limit(Bytes& out, const MemoryLimit& limit) {
  put_varint(out, limit.most);
  put_varint(out, static_cast<std::uint8_t>(limit.policy));
  put_varint(out, limit.only_with_deadline);
}

MemoryLimit take_limit(VarintReader& in) {
  MemoryLimit limit;
  limit.most = in.number();
  limit.policy = in.number<MemoryLimit::Policy>(static_cast<std::uint64_t>(MemoryLimit::Policy::deadline));
  limit.only_with_deadline = in.number(1) != 0;
  limit.is_set = true;
  return limit;
}

void take_command(VarintReader& in, EncodedCommand& command) {
  const auto flags = in.number(kResp3 | kLocal);
  command.is_resp3 = (flags & kResp3) != 0;
  command.is_local = (flags & kLocal) != 0;
  command.database = in.number<std::uint32_t>(Databases::kCount - 1);
  command.words.clear();
  for (auto count = in.count(); count > 0 && in.is_good(); --count) command.words.push_back(take_text(in));
  if (command.words.empty()) in.fail();
}

}  // namespace rdmc::kv
