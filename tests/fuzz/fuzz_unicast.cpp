// Fuzzes the messages that another process sends to a unicast endpoint on the control plane, and its
// descriptions of its memory. An accepted message must keep to the limits, and must mean the same after it is
// written and read again.
#include <array>
#include <variant>

#include "lib/include/rdmc/unicast.hpp"
#include "lib/unicast/messages.hpp"
#include "tests/fuzz/input.hpp"

using namespace rdmc;
using namespace rdmc::fuzz;

namespace {

void greeting(fuzz::Bytes bytes) {
  const auto read = unicast::decode_greeting(bytes);
  if (refused(read)) return;
  require(read->name.size() <= unicast::kMostNameBytes);
  require(read->private_data.size() <= unicast::kMostPrivateBytes);
  const auto again = unicast::decode_greeting(unicast::encode(*read));
  require(again.has_value() && *again == *read);
}

void message(fuzz::Bytes bytes) {
  const auto read = unicast::decode_message(bytes);
  if (refused(read)) return;
  const auto again = unicast::decode_message(unicast::encode(*read));
  require(again.has_value() && again->index() == read->index());
  const auto* const ended = std::get_if<unicast::Ended>(&*read);
  if (ended == nullptr) return;
  require(ended->cause.what.size() <= unicast::kMostTextBytes);
  require(std::get<unicast::Ended>(*again).cause.code == ended->cause.code);
  require(std::get<unicast::Ended>(*again).cause.what == ended->cause.what);
}

void memory(fuzz::Bytes bytes) {
  const auto read = RemoteMemory::decode(bytes);
  if (refused(read)) return;
  require(RemoteMemory::decode(read->encode()) == *read);
}

constexpr std::array kReaders{greeting, message, memory};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return read_by_first_byte(kReaders, data, size);
}
