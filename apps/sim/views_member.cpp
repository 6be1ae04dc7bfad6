#include "apps/sim/views_member.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "dataplane/base/bytes.hpp"

namespace rdmc::sim_app {
namespace {

// The first byte of a datagram gives the kind of the datagram. In a control message, the sender's id follows.
// In a question to the listener at an address, the id of the asking process and the id of the request follow.
// The answer repeats these two ids and adds the listener's id.
constexpr std::byte kControl{1}, kData{2}, kWhoListens{3}, kListener{4};
constexpr std::size_t kControlHead = 9, kDataBytes = 17, kWhoListensBytes = 17, kListenerBytes = 25;

view::Member describe(const sim::Network& network, sim::HostId host, sim::HostId at, view::MemberId id,
                      const ViewsMember::Nature& nature) {
  Address address = network.address(at);
  address.port = kViewsPort;
  return {.id = id,
          .name = "host " + std::to_string(value_of(host)),
          .address = address,
          .fabrics = {"udp"},
          .host = nature.machine,
          .lease = nature.lease};
}

}  // namespace

ViewsMember::ViewsMember(sim::Network& network, SimStore& store, sim::HostId host, sim::HostId at,
                         view::MemberId id, const view::Timing& timing, const Nature& nature,
                         const Observer& observer)
    : network_(network),
      store_(store),
      host_(host),
      core_(describe(network, host, at, id, nature), timing),
      observer_(observer),
      process_(network.simulation().add_process(host, *this)),
      clock_offset_(nature.clock_offset),
      clock_rate_(nature.clock_rate) {
  network_.bind(process_, kViewsPort, *this);
  store_.watch(host_, [this] {
    if (!alive() || removed_) return false;
    post([this](Time clock) { core_.on_hint(std::nullopt, clock); });
    return true;
  });
}

void ViewsMember::post(std::function<void(Time)> action) {
  posted_.push_back(std::move(action));
  network_.simulation().wake(process_);
}

void ViewsMember::deliver(sim::DatagramId datagram) {
  arrived_.push_back(datagram);
  network_.simulation().wake(process_);
}

void ViewsMember::tell_refused(view::MemberId member, bool had_connection) {
  post([=, this](Time clock) { core_.on_refused(member, had_connection, clock); });
}

void ViewsMember::tell_exited(view::MemberId member) {
  post([=, this](Time clock) { core_.on_exited(member, clock); });
}

void ViewsMember::remove(view::MemberId member) {
  post([=, this](Time clock) { static_cast<void>(core_.remove(member, clock)); });
}

void ViewsMember::leave() {
  post([this](Time clock) { core_.leave(clock); });
}

void ViewsMember::run(Time now) {
  const bool asked = !posted_.empty() || !arrived_.empty() || !listens_.empty() || now >= timer_;
  for (const auto& action : std::exchange(posted_, {})) {
    action(clock(now));
    drain();
  }
  if (!starved_) listen(now);
  if (now >= timer_) core_.on_timer(clock(now));
  drain();
  if (now >= next_data_) send_data(now);
  observer_.turned(*this);
  if (!asked) return;
  // A timer expires after its duration, even if the process's clock jumps meanwhile.
  const Time deadline = core_.next_deadline();
  timer_ = deadline == Time::never() ? deadline : now + (deadline - clock(now));
}

void ViewsMember::starve(bool starved) {
  starved_ = starved;
  if (!starved && alive()) network_.simulation().wake(process_);
}

/// Does the work of the network thread in one turn.
void ViewsMember::listen(Time now) {
  for (const auto& [to, bytes] : std::exchange(unsent_, {})) send(to, bytes);
  for (const sim::DatagramId id : std::exchange(arrived_, {})) {
    take_in(network_[id].bytes(), network_[id].source, clock(now));
    network_.release(id);
  }
  for (const view::RequestId request : std::exchange(listens_, {})) {
    core_.on_listened(request, clock(now));
    drain();
  }
}

Time ViewsMember::next_deadline() {
  return timer_ == Time::never() ? timer_ : std::min(next_data_, timer_);
}

void ViewsMember::take_in(std::span<const std::byte> bytes, const Address& from, Time clock) {
  if (bytes.size() < kControlHead) return;
  if (bytes[0] == kControl) {
    const auto speaker = view::MemberId{load_be<std::uint64_t>(&bytes[1])};
    static_cast<void>(core_.on_message(bytes.subspan(kControlHead), {speaker, from, true}, clock));
    drain();
    return;
  }
  if (bytes[0] == kWhoListens && bytes.size() == kWhoListensBytes) return say_who_listens(bytes, from);
  if (bytes[0] == kListener && bytes.size() == kListenerBytes) return hear_who_listens(bytes, clock);
  if (bytes[0] != kData || bytes.size() != kDataBytes) return;
  const auto epoch = Epoch{load_be<std::uint64_t>(&bytes[1])};
  const auto sender = view::MemberId{load_be<std::uint64_t>(&bytes[9])};
  if (core_.admits(epoch, sender)) observer_.delivered(*this, epoch, sender);
}

void ViewsMember::ask_who_listens(const view::AskListener& asked) {
  std::array<std::byte, kWhoListensBytes> question{kWhoListens};
  store_be(&question[1], value_of(id()));
  store_be(&question[9], value_of(asked.request));
  send(asked.address, question);
}

void ViewsMember::say_who_listens(std::span<const std::byte> question, const Address& asker) {
  if (removed_) return;
  std::array<std::byte, kListenerBytes> answer;
  std::ranges::copy(question, answer.begin());
  answer[0] = kListener;
  store_be(&answer[kWhoListensBytes], value_of(id()));
  send(asker, answer);
}

/// Handles an answer of a listener. Ignores an answer to another process. The process on the host outside the
/// group has the same address as a process of the group, so an answer can reach the wrong one of these two.
void ViewsMember::hear_who_listens(std::span<const std::byte> answer, Time clock) {
  if (load_be<std::uint64_t>(&answer[1]) != value_of(id())) return;
  const auto listener = view::MemberId{load_be<std::uint64_t>(&answer[kWhoListensBytes])};
  core_.on_listener(view::RequestId{load_be<std::uint64_t>(&answer[9])}, listener, clock);
  drain();
}

void ViewsMember::drain() {
  while (auto output = core_.poll()) handle(*output);
}

void ViewsMember::handle(view::Output& output) {
  if (auto* const transmit = std::get_if<view::Transmit>(&output)) {
    std::array<std::byte, kControlHead> head{kControl};
    store_be(&head[1], value_of(id()));
    transmit->message.insert(transmit->message.begin(), head.begin(), head.end());
    for (const Address& to : transmit->to) send(to, transmit->message);
    for (const view::Member& member : core_.view().members)
      if (refused_ && std::ranges::find(transmit->to, member.address) != transmit->to.end())
        tell_refused(member.id, false);
  } else if (const auto* const read = std::get_if<view::ReadStore>(&output)) {
    store_.read(host_, read->entry, [this, request = read->request](Result<view::View> result) {
      if (alive()) post([=, this](Time clock) { core_.on_read(request, result, clock); });
    });
  } else if (const auto* const swap = std::get_if<view::SwapStore>(&output)) {
    store_.compare_and_swap(host_, swap->entry, swap->next,
                            [this, request = swap->request](Result<view::SwapResult> result) {
                              if (alive())
                                post([=, this](Time clock) { core_.on_swapped(request, result, clock); });
                            });
    if (swap->entry == view::StoreEntry::view) observer_.proposing(*this);
  } else if (const auto* const installed = std::get_if<view::Installed>(&output)) {
    observer_.installed(*this, installed->view);
    installed_ = installed->view.epoch;
  } else if (std::holds_alternative<view::Removed>(output)) {
    removed_ = true;
    observer_.removed(*this);
  } else if (const auto* const listen = std::get_if<view::Listen>(&output)) {
    listens_.push_back(listen->request);
    network_.simulation().wake(process_);
  } else if (const auto* const asked = std::get_if<view::AskListener>(&output)) {
    ask_who_listens(*asked);
  } else if (std::holds_alternative<view::StoreLost>(output)) {
    ++stores_lost_;
  }
}

void ViewsMember::send(const Address& to, std::span<const std::byte> bytes) {
  if (starved_) return unsent_.emplace_back(to, std::vector(bytes.begin(), bytes.end())), void();
  const sim::DatagramId id = network_.allocate(static_cast<std::uint32_t>(bytes.size()));
  sim::Datagram& datagram = network_[id];
  std::memcpy(datagram.bytes().data(), bytes.data(), bytes.size());
  datagram.source = core_.self().address;
  datagram.destination = to;
  network_.send(host_, id);
}

void ViewsMember::send_data(Time now) {
  next_data_ = now + kSendEvery;
  // A member that was removed and does not know this yet still sends.
  if (core_.state() != view::FailureView::State::member) return;
  std::array<std::byte, kDataBytes> bytes{kData};
  store_be(&bytes[1], value_of(core_.view().epoch));
  store_be(&bytes[9], value_of(id()));
  for (const view::Member& member : core_.view().members)
    if (member.id != id()) send(member.address, bytes);
}

}  // namespace rdmc::sim_app
