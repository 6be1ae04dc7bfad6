#include "lib/socket/peering.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "controlplane/auth/random.hpp"

namespace rdmc::sockets {
namespace {

Address host_of(Address address) {
  address.port = 0;
  return address;
}

}  // namespace

Result<Carrier*> Stack::carrier(const Address& local) {
  if (is_ending_) return fail(Errc::cancelled, "the process ends its sockets");
  const auto found = carriers_.find(local);
  if (found != carriers_.end()) return found->second.get();
  auto opened = Carrier::open(*options_.context,
                              {.fabric = options_.fabric,
                               .address = local,
                               .device = options_.device,
                               .encrypt = options_.encrypt},
                              lock_);
  if (!opened) return std::unexpected(opened.error());
  return (carriers_[local] = std::move(*opened)).get();
}

void Peering::begin(Stack& stack, control::Channel channel, std::optional<Address> dialled) {
  if (stack.is_ending_) return;
  std::shared_ptr<Peering> peering(new Peering(stack, std::move(channel), dialled));
  stack.peerings_[peering.get()] = peering;
  peering->channel_.start(
      [weak = std::weak_ptr(peering)](const std::vector<std::byte>& message) {
        if (const auto self = weak.lock()) self->on_message(message);
      },
      [weak = std::weak_ptr(peering)](const Error& cause) {
        if (const auto self = weak.lock()) self->on_closed(cause);
      });
  peering->patience_ = stack.loop_->after(stack.options_.introduction, [weak = std::weak_ptr(peering)] {
    if (const auto self = weak.lock()) self->give_up({Errc::timed_out, "a peer does not introduce itself"});
  });
  if (peering->is_dialler_) peering->ask();
}

void Peering::ask() {
  theirs_.reset();
  say(Message::hello, stack_.incarnation_);
}

/// With the secrets of the trunks that this process, if it is the one that it says, has made to us.
void Peering::answer() {
  std::vector<std::byte> body(stack_.incarnation_.begin(), stack_.incarnation_.end());
  for (const auto& [key, other] : stack_.peerings_)
    if (!other->is_dialler_ && other->is_ready_ && other->theirs_ == theirs_)
      body.insert(body.end(), other->secret_.begin(), other->secret_.end());
  say(Message::hello, body);
}

void Peering::say(Message kind, std::span<const std::byte> body) {
  std::vector<std::byte> message{static_cast<std::byte>(kind)};
  message.insert(message.end(), body.begin(), body.end());
  if (auto sent = channel_.send(std::move(message)); !sent) give_up(sent.error());
}

void Peering::on_message(std::span<const std::byte> message) {
  const auto kind = message.empty() ? Message{} : static_cast<Message>(message[0]);
  const auto body = message.subspan(message.empty() ? 0 : 1);
  const bool may_greet = is_dialler_ ? !theirs_ && body.size() % sizeof(Secret) == 0
                                     : !has_heard_offer_ && body.size() == sizeof(Incarnation);
  if (kind == Message::hello && may_greet && body.size() >= sizeof(Incarnation)) {
    std::ranges::copy(body.first(sizeof(Incarnation)), theirs_.emplace().begin());
    is_dialler_ ? on_hello(body.subspan(sizeof(Incarnation))) : answer();
  } else if (kind == Message::offer && theirs_ && has_offered_ == is_dialler_ && !has_heard_offer_) {
    has_heard_offer_ = true;
    on_offer({body.begin(), body.end()});
  } else {
    give_up({Errc::protocol_error, "a peer's process says what makes no sense here"});
  }
}

void Peering::on_hello(std::span<const std::byte> secrets) {
  const auto is_shown = [&](const Secret& secret) {
    for (auto rest = secrets; rest.size() >= secret.size(); rest = rest.subspan(secret.size()))
      if (std::ranges::equal(rest.first(secret.size()), secret)) return true;
    return false;
  };
  std::shared_ptr<Mux> known;
  {
    const std::lock_guard lock(stack_.lock_);
    for (const auto& [key, other] : stack_.peerings_)
      if (other->is_dialler_ && other->is_ready_ && other->theirs_ == theirs_ && is_shown(other->secret_) &&
          !other->mux_->is_lost())
        known = other->mux_;
  }
  if (known != nullptr) return share(known);
  // It has several addresses, and another of ours is at it already.
  const auto leader = std::ranges::find_if(stack_.peerings_, [&](const auto& entry) {
    const Peering& other = *entry.second;
    return &other != this && other.theirs_ == theirs_ && other.dialled_ && other.carrier_ != nullptr;
  });
  if (leader == stack_.peerings_.end()) return make_trunk({});
  leader->second->followers_.push_back(shared_from_this());
}

/// The trunk is another's work.
void Peering::share(const std::shared_ptr<Mux>& mux) {
  finish(mux);
  channel_.close();
}

/// Of the trunks that it has dialled, or others of its host in its name. Of one it may have forgotten while
/// we have not heard yet.
bool Peering::has_too_many() const {
  return std::ranges::count_if(stack_.peerings_, [&](const auto& entry) {
           const Peering& other = *entry.second;
           return !other.is_dialler_ && other.theirs_ == theirs_ && other.carrier_ != nullptr &&
                  host_of(other.channel_.peer()) == host_of(channel_.peer());
         }) >= kMostTrunks;
}

void Peering::on_offer(std::vector<std::byte> blob) {
  if (!is_dialler_ && has_too_many())
    return give_up({Errc::resource_limit, "a process that dials again and again"});
  if (!is_dialler_) {
    if (blob.size() <= secret_.size())
      return give_up({Errc::protocol_error, "a peer's process offers a trunk without a secret"});
    std::ranges::copy(std::span(blob).first(secret_.size()), secret_.begin());
    blob.erase(blob.begin(), blob.begin() + sizeof(Secret));
    return make_trunk(std::move(blob));
  }
  carrier_->post([self = shared_from_this(), loop = stack_.loop_.get(), blob = std::move(blob)] {
    if (self->trunk_ == nullptr) return;  // given up meanwhile
    auto connected = self->trunk_->connect(blob);
    loop->post([self, connected] {
      if (self->stack_.is_ending_) return;
      if (!connected) return self->give_up(connected.error());
      self->set_ready();
      self->finish(self->mux_);
    });
  });
}

/// On the carrier's thread; without `their_blob` the peer's comes later.
void Peering::make_trunk(std::vector<std::byte> their_blob) {
  const auto carrier = stack_.carrier(fabric_address(channel_.local()));
  if (!carrier) return give_up(carrier.error());
  carrier_ = *carrier;
  mux_ = std::make_shared<Mux>(static_cast<Opens&>(stack_), is_dialler_, carrier_->fabric_name());
  mux_->on_kick([to = carrier_] { to->kick(); });
  carrier_->post([self = shared_from_this(), loop = stack_.loop_.get(), blob = std::move(their_blob)] {
    auto trunk = self->carrier_->make_trunk(self->mux_);
    Result<fabric::ConnectionBlob> ours;
    if (!trunk) {
      ours = std::unexpected(trunk.error());
    } else {
      self->trunk_ = *trunk;
      (*trunk)->on_lost([loop, weak = std::weak_ptr(self)] {
        loop->post([weak] {
          if (const auto alive = weak.lock()) alive->give_up({Errc::peer_failed, "the trunk is lost"});
        });
      });
      ours = (*trunk)->local_blob();
      if (!blob.empty()) {
        if (auto connected = (*trunk)->connect(blob); !connected) ours = std::unexpected(connected.error());
      }
    }
    loop->post([self, ours] { self->on_trunk(ours); });
  });
}

void Peering::on_trunk(const Result<fabric::ConnectionBlob>& ours) {
  if (stack_.is_ending_) return;
  if (!ours) return give_up(ours.error());
  has_offered_ = true;
  if (!is_dialler_) {
    set_ready();
    return say(Message::offer, *ours);
  }
  if (auto filled = control::fill_random(secret_); !filled) return give_up(filled.error());
  std::vector<std::byte> offer(secret_.begin(), secret_.end());
  offer.insert(offer.end(), ours->begin(), ours->end());
  say(Message::offer, offer);
}

void Peering::set_ready() {
  is_ready_ = true;
  patience_ = {};
}

/// Whoever waits for the dialled address hears of it.
void Peering::finish(const Result<std::shared_ptr<Mux>>& mux) {
  if (!dialled_) return;
  const Address at = *std::exchange(dialled_, std::nullopt);
  stack_.on_dialled(at, mux, host_of(channel_.local()));
  // Whether it is the same process, it has to show.
  for (const auto& follower : std::exchange(followers_, {}))
    if (follower->dialled_) follower->ask();
}

void Peering::on_closed(const Error& cause) {
  give_up(cause);
}

void Peering::give_up(const Error& cause) {
  if (stack_.is_ending_) return;
  const auto self = shared_from_this();
  patience_ = {};
  finish(std::unexpected(cause));
  if (carrier_ != nullptr) {
    const int error = cause.code == Errc::timed_out ? ETIMEDOUT : ECONNRESET;
    carrier_->post([self, error] {
      // Its last owner is to be on this thread: we may outlive this task on ours.
      if (const auto trunk = std::exchange(self->trunk_, nullptr)) trunk->lose(error);
    });
  }
  if (theirs_ && is_ready_) {
    const std::lock_guard lock(stack_.lock_);
    std::erase_if(stack_.known_, [&](const auto& known) { return known.second.mux == mux_; });
  }
  channel_.close();
  stack_.peerings_.erase(this);
}

}  // namespace rdmc::sockets
