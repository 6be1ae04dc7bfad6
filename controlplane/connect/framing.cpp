#include "controlplane/connect/framing.hpp"

#include <algorithm>
#include <utility>

#include "dataplane/base/bytes.hpp"

namespace rdmc::control {

std::array<std::byte, kPreambleBytes> encode_preamble(std::uint16_t version) {
  std::array<std::byte, kPreambleBytes> preamble{};
  std::ranges::copy(kMagic, preamble.begin());
  store_be<std::uint16_t>(preamble.data() + kMagic.size(), version);
  return preamble;
}

std::array<std::byte, kLengthBytes> encode_length(std::uint32_t length) {
  std::array<std::byte, kLengthBytes> bytes;
  store_be<std::uint32_t>(bytes.data(), length);
  return bytes;
}

bool may_be_magic(std::span<const std::byte> bytes) {
  return std::ranges::equal(bytes.first(std::min(bytes.size(), kMagic.size())),
                            std::span(kMagic).first(std::min(bytes.size(), kMagic.size())));
}

std::string excerpt(std::span<const std::byte> bytes) {
  constexpr std::size_t kMost = 16;
  std::string text = "'";
  for (const std::byte b : bytes.first(std::min(bytes.size(), kMost))) {
    const auto c = std::to_integer<unsigned char>(b);
    if (c >= 0x20 && c < 0x7F) {
      text += static_cast<char>(c);
    } else {
      text += "\\x";
      text += "0123456789abcdef"[c >> 4];
      text += "0123456789abcdef"[c & 15];
    }
  }
  return text + (bytes.size() > kMost ? "...'" : "'");
}

Result<void> check_preamble(std::span<const std::byte, kPreambleBytes> preamble, std::uint16_t our_version) {
  if (!may_be_magic(preamble))
    return fail(Errc::protocol_error, "the other side does not speak rdmc; it said " + excerpt(preamble));
  const auto version = load_be<std::uint16_t>(preamble.data() + kMagic.size());
  if (version != our_version)
    return fail(Errc::version_mismatch, "the other side speaks version " + std::to_string(version) +
                                            " of the rdmc protocol, this side version " +
                                            std::to_string(our_version));
  return {};
}

Result<void> FrameReader::feed(std::span<const std::byte> bytes, std::deque<Message>& messages) {
  while (!bytes.empty() && !ended_) {
    if (length_filled_ < kLengthBytes) {
      const std::size_t take = std::min(bytes.size(), kLengthBytes - length_filled_);
      std::ranges::copy(bytes.first(take),
                        length_bytes_.begin() + static_cast<std::ptrdiff_t>(length_filled_));
      length_filled_ += take;
      bytes = bytes.subspan(take);
      if (length_filled_ < kLengthBytes) break;
      length_ = load_be<std::uint32_t>(length_bytes_.data());
      if (length_ == kGoodbye) {
        ended_ = true;
        length_filled_ = 0;
        break;
      }
      if (length_ > limit_)
        return fail(Errc::protocol_error, "the other side announces a message of " + std::to_string(length_) +
                                              " bytes; at most " + std::to_string(limit_) + " are allowed");
    }
    const std::size_t take = std::min<std::size_t>(bytes.size(), length_ - body_.size());
    if (body_.empty() && take == length_) body_.reserve(length_);
    body_.insert(body_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(take));
    bytes = bytes.subspan(take);
    if (body_.size() == length_) {
      messages.push_back(std::exchange(body_, {}));
      length_filled_ = 0;
    }
  }
  return {};
}

}  // namespace rdmc::control
