#include "lib/socket/peering.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "dataplane/base/address_kind.hpp"

namespace rdmc::sockets {
namespace {

Address host_of(Address address) {
  address.port = 0;
  return address;
}

}  // namespace

bool is_on_this_host(const Address& local, const Address& peer) {
  return is_loopback(local) || host_of(local) == host_of(peer);
}

Result<Carrier*> Stack::carrier(const Address& local) {
  if (is_ending_) return fail(Errc::cancelled, "the process ends its sockets");
  const auto found = carriers_.find(local);
  if (found != carriers_.end()) return found->second.get();
  auto opened = Carrier::open(
      *options_.context,
      {.fabric = options_.fabric, .address = local, .device = options_.device, .encrypt = options_.encrypt},
      lock_);
  if (!opened) return std::unexpected(opened.error());
  return (carriers_[local] = std::move(*opened)).get();
}

/// Returns the peering with this process, or null if there is none.
std::shared_ptr<Peering> Peering::with(const Stack& stack, const peer::Peer& process) {
  const auto found = stack.peerings_.find(process.number());
  return found == stack.peerings_.end() ? nullptr : found->second;
}

/// If the trunk with the process was lost, makes a new peering. This side may notice the loss before the
/// other process does.
void Peering::find(Stack& stack, const peer::Peer& process, const Address& at) {
  if (stack.is_ending_) return;
  if (const auto known = with(stack, process)) {
    if (known->is_ready_ && !known->is_lost())
      return stack.on_dialled(at, known->mux_, host_of(known->process_.local()));
    if (!known->is_ready_) return known->dialled_.push_back(at);
    known->give_up({Errc::peer_failed, "the trunk is lost"});
  }
  const auto peering = begin(stack, process, true);
  peering->dialled_.push_back(at);
  peering->make_trunk({});
}

void Peering::on_request(Stack& stack, peer::Request request) {
  if (stack.is_ending_) return;
  const peer::Peer process = request.peer();
  std::vector<Address> dialled;
  if (const auto known = with(stack, process)) {
    const bool is_lost = known->is_ready_ && known->is_lost();
    const bool is_crossing = !known->is_ready_ && known->is_opener_;
    if (!is_lost && (!is_crossing || process.was_dialed_by_us()))
      return request.refuse({Errc::already_exists, "this connection has a trunk"});
    if (is_crossing) dialled = std::exchange(known->dialled_, {});
    known->give_up({Errc::peer_failed, "the trunk is lost"});
  }
  if (has_too_many(stack, process))
    return request.refuse({Errc::resource_limit, "a process that dials again and again"});
  const auto peering = begin(stack, process, false);
  peering->dialled_ = std::move(dialled);
  auto blob = std::move(request.offer().blob);
  peering->request_.emplace(std::move(request));
  peering->make_trunk(std::move(blob));
}

std::shared_ptr<Peering> Peering::begin(Stack& stack, peer::Peer process, bool is_opener) {
  std::shared_ptr<Peering> peering(new Peering(stack, std::move(process), is_opener));
  stack.peerings_[peering->process_.number()] = peering;
  peering->patience_ = stack.loop_->after(stack.options_.introduction, [weak = std::weak_ptr(peering)] {
    if (const auto self = weak.lock()) self->give_up({Errc::timed_out, "a peer does not share its trunk"});
  });
  return peering;
}

bool Peering::is_lost() const {
  const std::lock_guard lock(stack_.lock_);
  return mux_->is_lost();
}

/// True if processes with this identity on the same host have opened kMostTrunks trunks. Then the process
/// dials again and again without using its connection, or other processes of its host use its identity.
bool Peering::has_too_many(const Stack& stack, const peer::Peer& process) {
  return std::ranges::count_if(stack.peerings_, [&](const auto& entry) {
           const Peering& other = *entry.second;
           return !other.is_opener_ && other.process_.identity() == process.identity() &&
                  host_of(other.process_.address()) == host_of(process.address());
         }) >= kMostTrunks;
}

/// Makes the trunk on the fabric thread. On the side that has opened the channel, `their_blob` is empty,
/// because this side gets the peer's blob later.
void Peering::make_trunk(std::vector<std::byte> their_blob) {
  const auto carrier = stack_.carrier(fabric_address(process_.local()));
  if (!carrier) return give_up(carrier.error());
  carrier_ = *carrier;
  mux_ = std::make_shared<Mux>(static_cast<Opens&>(stack_), is_opener_, carrier_->fabric_name());
  if (!is_on_this_host(process_.local(), process_.address())) mux_->set_elsewhere();
  mux_->on_kick([to = carrier_] { to->kick(); });
  on_carrier(
      [this, loop = stack_.loop_.get(), blob = std::move(their_blob)]() -> Result<fabric::ConnectionBlob> {
        const auto trunk = carrier_->make_trunk(mux_);
        if (!trunk) return std::unexpected(trunk.error());
        trunk_ = *trunk;
        trunk_->on_lost([loop, weak = weak_from_this()] {
          loop->post([weak] {
            const auto self = weak.lock();
            if (self && !self->is_crossed_) self->give_up({Errc::peer_failed, "the trunk is lost"});
          });
        });
        auto ours = trunk_->local_blob();
        if (is_opener_) return ours;
        if (auto connected = trunk_->connect(blob); !connected) return std::unexpected(connected.error());
        return ours;
      },
      [this](const Result<fabric::ConnectionBlob>& ours) { on_trunk(ours); });
}

/// Runs `work` on the fabric thread. Then runs `then` with the result on the control loop, unless the peering
/// has ended. The last reference to the peering also goes to the control loop, because the destructors of
/// some members wait for that loop.
template <typename Work, typename Then>
void Peering::on_carrier(Work work, Then then) {
  carrier_->post(
      [self = shared_from_this(), loop = stack_.loop_.get(), work = std::move(work), then]() mutable {
        loop->post([then, result = work(), self = std::move(self)] {
          if (!self->is_over_ && !self->stack_.is_ending_) then(result);
        });
      });
}

void Peering::on_trunk(const Result<fabric::ConnectionBlob>& ours) {
  if (!ours) return give_up(ours.error());
  if (is_opener_) {
    return peer::Peer(process_).open(
        kService, {.greeting = {}, .blob = *ours},
        [weak = weak_from_this()](Result<control::Channel> channel, peer::Offer theirs) {
          if (const auto self = weak.lock(); self && !self->is_over_)
            self->on_opened(std::move(channel), std::move(theirs.blob));
        });
  }
  auto channel = request_->accept({.greeting = {}, .blob = *ours});
  request_.reset();
  if (!channel) return give_up(channel.error());
  start(std::move(*channel));
  set_ready();
}

void Peering::on_opened(Result<control::Channel> channel, std::vector<std::byte> their_blob) {
  if (!channel) {
    Error cause = channel.error();
    // The peer asks for a trunk at the same time, and the peer's request has precedence. It will arrive soon.
    if (cause.code == Errc::already_exists && !process_.was_dialed_by_us()) {
      is_crossed_ = true;
      return lose_trunk(ECONNRESET);
    }
    if (cause.code == Errc::not_found) cause.code = Errc::peer_failed;  // The process has no sockets.
    if (cause.code == Errc::resource_limit)
      cause.code = Errc::cancelled;  // The limit is a limit of the peer.
    return give_up(cause);
  }
  start(std::move(*channel));
  on_carrier(
      [this, blob = std::move(their_blob)]() -> Result<void> {
        return trunk_ ? trunk_->connect(blob) : fail(Errc::cancelled, "given up");
      },
      [this](const Result<void>& connected) { connected ? set_ready() : give_up(connected.error()); });
}

void Peering::start(control::Channel channel) {
  channel_.emplace(std::move(channel));
  channel_->start(
      [weak = weak_from_this()](const std::vector<std::byte>&) {
        if (const auto self = weak.lock())
          self->give_up({Errc::protocol_error, "a peer's sockets say something"});
      },
      [weak = weak_from_this()](const Error& cause) {
        if (const auto self = weak.lock()) self->give_up(cause);
      });
}

void Peering::set_ready() {
  is_ready_ = true;
  patience_ = {};
  finish(mux_);
}

/// Reports the outcome to the sockets that wait for the dialled addresses.
void Peering::finish(const Result<std::shared_ptr<Mux>>& mux) {
  for (const Address& at : std::exchange(dialled_, {})) stack_.on_dialled(at, mux, host_of(process_.local()));
}

void Peering::lose_trunk(int error) {
  end_trunk([error](Trunk& trunk) { trunk.lose(error); });
}

template <typename End>
void Peering::end_trunk(End end) {
  if (carrier_ == nullptr) return;
  on_carrier(
      [this, end]() -> Result<void> {
        // The last owner of the trunk must be on this thread.
        if (const auto trunk = std::exchange(trunk_, nullptr)) end(*trunk);
        return {};
      },
      [](const Result<void>&) {});
}

void Peering::give_up(const Error& cause) {
  if (stack_.is_ending_ || std::exchange(is_over_, true)) return;
  const auto self = shared_from_this();
  patience_ = {};
  stack_.peerings_.erase(process_.number());
  finish(std::unexpected(cause));
  const int error = cause.code == Errc::timed_out ? ETIMEDOUT : ECONNRESET;
  end_trunk([error](Trunk& trunk) { trunk.leave(error); });
  if (is_ready_) {
    const std::lock_guard lock(stack_.lock_);
    std::erase_if(stack_.known_, [&](const auto& known) { return known.second.mux == mux_; });
  }
  if (request_) std::exchange(request_, std::nullopt)->refuse(cause);
  if (channel_) channel_->close();
}

}  // namespace rdmc::sockets
