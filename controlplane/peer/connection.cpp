#include "controlplane/peer/connection.hpp"

#include <new>
#include <utility>
#include <vector>

#include "controlplane/peer/sub_channel.hpp"

namespace rdmc::peer {

void Connection::start(Handlers handlers) {
  handlers_ = std::move(handlers);
  channel_.start(
      [weak = weak_from_this()](const Bytes& message) {
        if (const auto self = weak.lock()) self->on_message(message);
      },
      [weak = weak_from_this()](const Error& cause) {
        if (const auto self = weak.lock()) self->on_closed(cause);
      });
}

void Connection::introduce(const Hello& ours) {
  conversation_.introduce(ours);
  flush();
}

void Connection::ask(const Known& known) {
  conversation_.ask(known);
  flush();
}

void Connection::answer(const Choice& choice) {
  conversation_.answer(choice);
  flush();
}

void Connection::close() {
  if (std::exchange(is_closing_, true)) return;
  loop_.post([self = shared_from_this()] {
    self->handlers_ = {};
    self->end({Errc::cancelled, to_string(self->peer()) + ": closed by this side"});
  });
}

void Connection::open(std::string service, Offer offer, OpenDone done) {
  auto id = !is_open() ? fail(Errc::cancelled, "the connection is over")
                       : conversation_.open(std::move(service), std::move(offer));
  if (!id) {
    loop_.post([error = std::move(id.error()), done = std::move(done)]() mutable {
      done(std::unexpected(std::move(error)), {});
    });
    return;
  }
  asked_.emplace(*id, std::move(done));
  flush();
}

std::optional<control::Channel> Connection::accept(ChannelId id, Offer offer) {
  if (is_over_ || !conversation_.accept(id, std::move(offer))) return std::nullopt;
  const auto channel = make_channel(id);
  flush();
  return control::Channel(channel);
}

void Connection::refuse(ChannelId id, const Error& cause) {
  if (is_over_) return;
  conversation_.reset(id, cause);
  flush();
  tell_if_idle();
}

std::shared_ptr<SubChannel> Connection::make_channel(ChannelId id) {
  auto channel = std::make_shared<SubChannel>(shared_from_this(), id);
  channels_[id] = channel;
  return channel;
}

std::shared_ptr<SubChannel> Connection::take(ChannelId id) {
  const auto found = channels_.extract(id);
  return found.empty() ? nullptr : found.mapped().lock();
}

Result<void> Connection::send(ChannelId id, Bytes body) {
  if (is_over_) return fail(Errc::cancelled, to_string(peer()) + ": the connection is over");
  if (body.size() > most_bytes_)
    return fail(Errc::invalid_argument, to_string(peer()) + ": a message of " + std::to_string(body.size()) +
                                            " bytes; at most " + std::to_string(most_bytes_) +
                                            " are allowed");
  if (held_) return fail(Errc::would_block, to_string(peer()) + ": too much is queued");
  auto said = conversation_.send(id, std::move(body));
  flush();
  return said;
}

void Connection::close(ChannelId id) {
  if (is_over_) return;
  conversation_.close(id);
  flush();
}

/// Ends a channel whose object is destroyed. If there is no memory for the message, the other side is not
/// informed, and receives nothing more on the channel.
void Connection::drop(ChannelId id) {
  channels_.erase(id);
  if (is_over_) return;
  try {
    conversation_.reset(id, {Errc::peer_failed, "the other side has let go of the channel"});
    flush();
    tell_if_idle();
  } catch (const std::bad_alloc&) {
    return;
  }
}

/// Sends the messages of the conversation. While a message is held, send() refuses messages of services. The
/// few messages that the conversation makes itself wait in its queue.
void Connection::flush() {
  while (held_ || (held_ = conversation_.poll_transmit())) {
    const auto sent = channel_.send(*held_);
    if (!sent && sent.error().code == Errc::would_block)
      return channel_.on_drained([this] {
        flush();
        if (!held_) drained();
      });
    held_.reset();  // If the channel is closed, on_closed() reports that.
  }
}

void Connection::on_message(const Bytes& message) {
  const auto self = shared_from_this();
  if (is_closing_ || is_over_) return;
  const auto heard = conversation_.on_message(message);
  while (auto event = conversation_.poll_event()) std::visit([this](auto& one) { handle(one); }, *event);
  if (!heard) return end({heard.error().code, to_string(peer()) + ": " + heard.error().what});
  if (!is_over_) flush();
}

void Connection::on_closed(const Error& cause) {
  const auto self = shared_from_this();
  end(cause);
}

void Connection::handle(Introduced& event) {
  identity = event.hello.identity;
  handlers_.introduced(*this, event.hello);
}

void Connection::handle(Requested& event) {
  handlers_.requested(*this, event.channel, event.service, std::move(event.offer));
}

void Connection::handle(Accepted& event) {
  auto asked = asked_.extract(event.channel);
  if (asked.empty()) return;
  asked.mapped()(control::Channel(make_channel(event.channel)), std::move(event.offer));
}

void Connection::handle(Received& event) {
  const auto found = channels_.find(event.channel);
  if (found == channels_.end()) return;
  if (const auto channel = found->second.lock()) channel->receive(std::move(event.body));
}

void Connection::handle(Closed& event) {
  if (const auto channel = take(event.channel))
    channel->end({Errc::cancelled, to_string(peer()) + ": the channel was closed"});
  tell_if_idle();
}

void Connection::handle(WasReset& event) {
  const Error cause{event.cause.code, to_string(peer()) + ": " + event.cause.what};
  if (auto asked = asked_.extract(event.channel); !asked.empty()) asked.mapped()(std::unexpected(cause), {});
  if (const auto channel = take(event.channel)) channel->end(cause);
  tell_if_idle();
}

void Connection::tell_if_idle() {
  if (is_open() && conversation_.channels() == 0 && handlers_.idle) handlers_.idle(*this);
}

void Connection::drained() {
  std::vector<std::shared_ptr<SubChannel>> all;
  for (const auto& [id, weak] : channels_)
    if (auto channel = weak.lock()) all.push_back(std::move(channel));
  for (const auto& channel : all) channel->drained();
}

void Connection::end(const Error& cause) {
  if (std::exchange(is_over_, true)) return;
  is_closing_ = true;
  channel_.close();
  for (auto& [id, done] : std::exchange(asked_, {})) done(std::unexpected(cause), {});
  for (const auto& [id, weak] : std::exchange(channels_, {}))
    if (const auto channel = weak.lock()) channel->end(cause);
  if (const auto ended = std::exchange(handlers_.ended, nullptr)) ended(*this, cause);
}

}  // namespace rdmc::peer
