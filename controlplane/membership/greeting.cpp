#include "controlplane/membership/greeting.hpp"

#include <algorithm>
#include <array>

#include "dataplane/base/bytes.hpp"

namespace rdmc::membership {
namespace {

/// The number of message types. The first byte of a message is the index of its type in the variant.
constexpr std::size_t kKinds = std::variant_size_v<Message>;

class Writer {
 public:
  template <std::unsigned_integral T>
  void number(T value) {
    std::array<std::byte, sizeof value> raw;
    store_be(raw.data(), value);
    for (const std::byte byte : raw) bytes_.push_back(byte);
  }
  void rest(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  void address(const Address& address) {
    number<std::uint8_t>(address.ipv6 ? 1 : 0);
    number(address.port);
    rest(std::as_bytes(std::span(address.bytes)));
  }
  Bytes take() { return std::move(bytes_); }

 private:
  Bytes bytes_;
};

/// Reads numbers from the input. After the end of the input, each read returns zero and is_cut() is true.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <std::unsigned_integral T>
  T number() {
    if (cut_ = cut_ || bytes_.size() < sizeof(T); cut_) return 0;
    const T value = load_be<T>(bytes_.data());
    bytes_ = bytes_.subspan(sizeof value);
    return value;
  }
  Address address() {
    Address address{.ipv6 = number<std::uint8_t>() != 0};
    address.port = number<std::uint16_t>();
    for (auto& byte : address.bytes) byte = number<std::uint8_t>();
    if (!address.ipv6) std::fill(address.bytes.begin() + 4, address.bytes.end(), std::uint8_t{});
    return address;
  }
  Bytes rest() { return {bytes_.begin(), bytes_.end()}; }
  bool is_cut() const { return cut_; }

 private:
  std::span<const std::byte> bytes_;
  bool cut_ = false;
};

Message read(std::size_t kind, Reader& from) {
  switch (kind) {
    case 0: return Ready{};
    case 1: return Words{from.rest()};
    case 2: {
      WindowGrant grant{.epoch = Epoch{from.number<std::uint64_t>()}};
      grant.window.address = from.number<std::uint64_t>();
      grant.window.key = RemoteKey{from.number<std::uint32_t>()};
      return grant;
    }
    default: {
      Data data{.epoch = Epoch{from.number<std::uint64_t>()}};
      data.bytes = from.rest();
      return data;
    }
  }
}

}  // namespace

Bytes encode(const Greeting& greeting) {
  Writer to;
  to.number(value_of(greeting.id));
  to.address(greeting.address);
  return to.take();
}

Result<Greeting> decode_greeting(std::span<const std::byte> bytes) {
  Reader from(bytes);
  const view::MemberId id{from.number<std::uint64_t>()};
  Greeting greeting{id, from.address()};
  if (from.is_cut() || !from.rest().empty())
    return fail(Errc::protocol_error, "sent a greeting of another length");
  return greeting;
}

Bytes encode(const Message& message) {
  Writer to;
  to.number(static_cast<std::uint8_t>(message.index()));
  if (const auto* const words = std::get_if<Words>(&message)) {
    to.rest(words->bytes);
  } else if (const auto* const grant = std::get_if<WindowGrant>(&message)) {
    to.number(value_of(grant->epoch));
    to.number(grant->window.address);
    to.number(value_of(grant->window.key));
  } else if (const auto* const data = std::get_if<Data>(&message)) {
    to.number(value_of(data->epoch));
    to.rest(data->bytes);
  }
  return to.take();
}

Result<Message> decode(std::span<const std::byte> bytes) {
  Reader from(bytes);
  const std::size_t kind = from.number<std::uint8_t>();
  if (kind >= kKinds) return fail(Errc::protocol_error, "sent a message of an unknown kind");
  Message message = read(kind, from);
  if (from.is_cut()) return fail(Errc::protocol_error, "sent a message that is cut off");
  return message;
}

}  // namespace rdmc::membership
