#include "controlplane/peer/conversation.hpp"

#include <cassert>
#include <utility>

namespace rdmc::peer {
namespace {

std::unexpected<Error> out_of_order(const char* what) {
  return fail(Errc::protocol_error, std::string("sent ") + what);
}

}  // namespace

void Conversation::introduce(const Hello& ours) {
  assert(!has_spoken_ && (dials_ || has_heard_));
  has_spoken_ = true;
  say(ours);
}

void Conversation::ask(const Known& known) {
  assert(dials_ && is_open() && !is_asking_);
  is_asking_ = true;
  say(known);
}

void Conversation::answer(const Choice& choice) {
  assert(!dials_ && is_open());
  say(choice);
}

Conversation::State* Conversation::find(ChannelId channel) {
  const auto found = channels_.find(channel);
  return found == channels_.end() ? nullptr : &found->second;
}

bool Conversation::is_over(ChannelId channel) const {
  const auto number = static_cast<std::uint32_t>(channel);
  return number != 0 && number < (is_ours(channel) ? next_ : heard_ + 1) && !channels_.contains(channel);
}

Result<ChannelId> Conversation::open(std::string service, Offer offer) {
  assert(is_open());
  if (channels_.size() >= kMostChannels || next_ > UINT32_MAX - 2)
    return fail(Errc::resource_limit, "too many channels on one connection");
  const ChannelId channel{next_};
  next_ += 2;
  channels_.emplace(channel, State::asked);
  say(Open{channel, std::move(service), std::move(offer)});
  return channel;
}

bool Conversation::accept(ChannelId channel, Offer offer) {
  State* const state = find(channel);
  if (state == nullptr || *state != State::requested) return false;
  *state = State::open;
  say(Accept{channel, std::move(offer)});
  return true;
}

Result<void> Conversation::send(ChannelId channel, Bytes body) {
  const State* const state = find(channel);
  if (state == nullptr || *state != State::open) return fail(Errc::cancelled, "the channel is closed");
  say(Data{channel, std::move(body)});
  return {};
}

void Conversation::close(ChannelId channel) {
  State* const state = find(channel);
  if (state == nullptr || *state == State::closing) return;
  if (*state != State::open) return reset(channel, {Errc::cancelled, "closed before it was open"});
  *state = State::closing;
  say(Close{channel});
}

void Conversation::reset(ChannelId channel, const Error& cause) {
  if (channels_.erase(channel) != 0) say(Reset{channel, cause.code, cause.what});
}

Result<void> Conversation::on_message(std::span<const std::byte> bytes) {
  if (!has_heard_ && bytes.size() > kMostHelloBytes) return out_of_order("more than a Hello at first");
  if (transmit_.size() > kMostWaiting) return out_of_order("on without reading the answers");
  auto message = decode(bytes);
  if (!message) return std::unexpected(std::move(message.error()));
  return std::visit([this](auto& one) { return on(std::move(one)); }, *message);
}

Result<void> Conversation::on(Hello&& hello) {
  if (std::exchange(has_heard_, true)) return out_of_order("a second Hello");
  if (dials_ && !has_spoken_) return out_of_order("a Hello before it heard ours");
  events_.push_back(Introduced{std::move(hello)});
  return {};
}

Result<void> Conversation::on(Known&& known) {
  if (dials_ || !is_open()) return out_of_order("a Known that is not its to say");
  events_.push_back(std::move(known));
  return {};
}

Result<void> Conversation::on(Choice&& choice) {
  if (!std::exchange(is_asking_, false)) return out_of_order("a Choice that nobody waits for");
  events_.push_back(choice);
  return {};
}

Result<void> Conversation::on(Open&& open) {
  const auto number = static_cast<std::uint32_t>(open.channel);
  if (!is_open()) return out_of_order("an Open before both sides said Hello");
  if (is_ours(open.channel) || number <= heard_)
    return out_of_order("an Open of a channel that is not its to open");
  heard_ = number;
  if (channels_.size() >= kMostChannels) {
    ++channels_refused_;
    say(Reset{open.channel, Errc::resource_limit, "too many channels on one connection"});
    return {};
  }
  channels_.emplace(open.channel, State::requested);
  events_.push_back(Requested{open.channel, std::move(open.service), std::move(open.offer)});
  return {};
}

Result<void> Conversation::on(Accept&& accept) {
  State* const state = find(accept.channel);
  if (state == nullptr && is_over(accept.channel)) return {};
  if (state == nullptr || *state != State::asked) return out_of_order("an Accept that nobody waits for");
  *state = State::open;
  events_.push_back(Accepted{accept.channel, std::move(accept.offer)});
  return {};
}

Result<void> Conversation::on(Data&& data) {
  const State* const state = find(data.channel);
  if (state == nullptr && is_over(data.channel)) return {};
  if (state == nullptr || *state == State::asked || *state == State::requested)
    return out_of_order("data on a channel that is not open");
  if (*state == State::open) events_.push_back(Received{data.channel, std::move(data.body)});
  return {};
}

Result<void> Conversation::on(Close&& close) {
  const State* const state = find(close.channel);
  if (state == nullptr && is_over(close.channel)) return {};
  if (state == nullptr || *state == State::asked || *state == State::requested)
    return out_of_order("a Close of a channel that is not open");
  if (*state == State::open) say(Close{close.channel});
  channels_.erase(close.channel);
  events_.push_back(Closed{close.channel});
  return {};
}

Result<void> Conversation::on(Reset&& reset) {
  if (channels_.erase(reset.channel) == 0)
    return is_over(reset.channel) ? Result<void>{} : out_of_order("a Reset of a channel that never was");
  events_.push_back(WasReset{reset.channel, {reset.code, std::move(reset.text)}});
  return {};
}

std::optional<Event> Conversation::poll_event() {
  if (events_.empty()) return std::nullopt;
  std::optional<Event> event = std::move(events_.front());
  events_.pop_front();
  return event;
}

std::optional<Bytes> Conversation::poll_transmit() {
  if (transmit_.empty()) return std::nullopt;
  std::optional<Bytes> bytes = std::move(transmit_.front());
  transmit_.pop_front();
  return bytes;
}

}  // namespace rdmc::peer
