#include "apps/run/send_order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "lib/replica/send_difference.hpp"

namespace rdmc::run {
namespace {

using replica::LoggedSend;
using Channel = std::array<std::uint32_t, 3>;

Channel channel_of(const LoggedSend& send) {
  return {static_cast<std::uint32_t>(send.context), send.to, static_cast<std::uint32_t>(send.tag)};
}

bool are_alike(const LoggedSend& a, const LoggedSend& b) {
  return channel_of(a) == channel_of(b) && a.bytes == b.bytes;
}

std::map<Channel, std::vector<std::size_t>> calls_by_channel(std::span<const LoggedSend> sends) {
  std::map<Channel, std::vector<std::size_t>> calls;
  for (std::size_t i = 0; i < sends.size(); ++i) calls[channel_of(sends[i])].push_back(i);
  return calls;
}

/// Compares each channel. Sets `order` and `mismatch` if a channel differs, and `content`.
void compare_channels(std::span<const LoggedSend> first, std::span<const LoggedSend> second,
                      SendComparisonResult& result) {
  const auto in_first = calls_by_channel(first), in_second = calls_by_channel(second);
  const auto keep_first = [](std::optional<SendMismatch>& kept, const SendMismatch& found) {
    if (!kept || found.call < kept->call) kept = found;
  };
  std::optional<SendMismatch> mismatch;
  static const std::vector<std::size_t> kNone;
  const auto compare = [&](const std::vector<std::size_t>& ones, const std::vector<std::size_t>& others) {
    for (std::size_t i = 0; i < std::max(ones.size(), others.size()); ++i) {
      const auto one = i < ones.size() ? std::optional(first[ones[i]]) : std::nullopt;
      const auto other = i < others.size() ? std::optional(second[others[i]]) : std::nullopt;
      const std::size_t call = one ? ones[i] : others[i];
      if (!one || !other || one->bytes != other->bytes)
        return keep_first(mismatch, {.call = call, .first = one, .second = other});
      if (one->digest != other->digest)
        keep_first(result.content, {.call = call, .first = one, .second = other});
    }
  };
  for (const auto& [channel, ones] : in_first) {
    const auto others = in_second.find(channel);
    compare(ones, others == in_second.end() ? kNone : others->second);
  }
  for (const auto& [channel, others] : in_second)
    if (!in_first.contains(channel)) compare(kNone, others);
  if (!mismatch) return;
  result.order = SendOrder::none;
  result.mismatch = mismatch;
}

std::string text_of(const std::optional<LoggedSend>& send) {
  if (!send) return "nothing";
  const replica::ChannelKey channel{.context = send->context, .rank = Rank{send->to}, .tag = send->tag};
  return fmt::format("{} bytes {}", send->bytes, describe(channel));
}

}  // namespace

SendComparisonResult compare_sends(std::span<const LoggedSend> first, std::span<const LoggedSend> second) {
  SendComparisonResult result;
  for (std::size_t i = 0; i < std::max(first.size(), second.size()) && !result.mismatch; ++i) {
    const auto one = i < first.size() ? std::optional(first[i]) : std::nullopt;
    const auto other = i < second.size() ? std::optional(second[i]) : std::nullopt;
    if (one && other && are_alike(*one, *other)) continue;
    result.order = SendOrder::channel;
    result.mismatch = SendMismatch{.call = i, .first = one, .second = other};
  }
  compare_channels(first, second, result);
  return result;
}

std::string describe(const SendMismatch& mismatch) {
  return fmt::format("call {} sends {} in one run, and {} in the other one", mismatch.call,
                     text_of(mismatch.first), text_of(mismatch.second));
}

}  // namespace rdmc::run
