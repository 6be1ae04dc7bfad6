#include "lib/replica/links.hpp"

#include <algorithm>
#include <cassert>
#include <utility>

#include "lib/replica/process_fork.hpp"

namespace rdmc::replica {
namespace {

fabric::FrameLinkOptions link_options() {
  fabric::FrameLinkOptions options{.queue_pair = {}, .ring_bytes = Links::kRingBytes};
  options.queue_pair.send_depth = Links::kMostWrites;
  options.queue_pair.ack_timeout = Links::kSilence / (options.queue_pair.retry_limit + 1);
  return options;
}

}  // namespace

Links::Links(peer::FabricThread& thread, ProcessId own, std::uint32_t processes, Dial dial)
    : thread_(&thread), own_(own), dial_(std::move(dial)), entries_(processes) {
  thread_->engine().add(*this);
}

Links::~Links() {
  thread_->engine().remove(*this);
}

void Links::on_recovering(ProcessId process, Incarnation incarnation) {
  Entry& dead = entry(process);
  assert(dead.state == State::failed && !dead.link);
  dead = Entry{.state = State::expected, .incarnation = incarnation};
}

void Links::on_joined(ProcessId process) {
  Entry& joined = entry(process);
  if (joined.state != State::expected) return;
  joined.state = State::none;
  if (std::exchange(joined.lacks_room, false)) messenger_->on_room(process);
}

void Links::forget_all(peer::FabricThread& thread, ProcessId own) {
  thread_ = &thread;
  own_ = own;
  may_dial_ = false;
  for (Entry& one : entries_) {
    if (one.link) keep_unused(std::move(one.link));
    const bool is_without = one.state == State::failed || one.state == State::expected;
    one = Entry{.state = is_without ? one.state : State::none, .incarnation = one.incarnation};
  }
  entry(own).state = State::none;
  keep_unused(std::exchange(exposed_, {}));
  active_.clear();
  dirty_.clear();
  failing_.clear();
  broken_.clear();
  send_deferred_at_ = release_at_ = chase_at_ = judge_at_ = Time::never();
  hold_.reset();
  connections_ = 0;
  thread_->engine().add(*this);
}

void Links::connect_again() {
  may_dial_ = true;
  for (std::uint32_t i = 0; i < entries_.size(); ++i)
    if (entries_[i].state == State::none && std::exchange(entries_[i].lacks_room, false))
      messenger_->on_room(ProcessId{i});
}

Result<void> Links::make_link(Entry& entry) {
  auto link = fabric::FrameLink::create(thread_->fabric(), link_options());
  if (!link) return std::unexpected(link.error());
  entry.link = std::move(*link);
  return {};
}

Result<fabric::ConnectionBlob> Links::accept(ProcessId from, std::span<const std::byte> blob) {
  Entry& peer = entry(from);
  // If both dial at the same time, the dial of the process with the lower number is used.
  if (peer.state == State::connected || peer.state == State::open ||
      (peer.state == State::dialing && own_ < from))
    return rdmc::fail(Errc::already_exists, "the two processes are being connected already");
  if (peer.state == State::failed || peer.state == State::broken)
    return rdmc::fail(Errc::peer_failed, "that process counts as dead here");
  if (!peer.link)
    if (auto made = make_link(peer); !made) return std::unexpected(made.error());
  auto ours = peer.link->local_blob();
  peer.state = State::dialing;
  if (auto connected = connect(from, blob); !connected) return std::unexpected(connected.error());
  return ours;
}

Result<void> Links::connect(ProcessId to, std::span<const std::byte> blob) {
  Entry& peer = entry(to);
  if (peer.state != State::dialing) return rdmc::fail(Errc::cancelled, "the link has ended in between");
  if (auto connected = peer.link->connect(blob); !connected) return connected;
  peer.state = State::connected;
  active_.push_back(to);
  ++connections_;
  return {};
}

void Links::open(ProcessId process) {
  Entry& peer = entry(process);
  if (peer.state != State::connected) return;
  peer.state = State::open;
  messenger_->on_room(process);
}

void Links::fail(ProcessId process, const Error& cause) {
  if (messenger_->protocol().layout().most_degree() == 1) return on_died(process, cause);
  Entry& failed = entry(process);
  if (failed.state == State::failed || failed.state == State::broken) return;
  failed.state = State::broken;
  std::erase(active_, process);
  broken_.add(process, cause);
}

void Links::on_died(ProcessId process, const Error& cause) {
  Entry& dead = entry(process);
  if (dead.state == State::failed) return;
  dead.state = State::failed;
  std::erase(active_, process);
  broken_.remove(process);
  if (perturbation_) perturbation_->release(*messenger_, process);
  messenger_->on_failed(process, cause);
  dead.link.reset();
}

void Links::give_up(ProcessId process, const Error& cause) {
  const State state = entry(process).state;
  if (state == State::dialing || state == State::connected) fail(process, cause);
}

void Links::close(const Error& cause) {
  for (std::uint32_t i = 0; i < entries_.size(); ++i)
    if (entries_[i].state != State::none) on_died(ProcessId{i}, cause);
}

std::span<std::byte> Links::room(ProcessId to, std::size_t least) {
  Entry& peer = entry(to);
  if (peer.state == State::open) {
    const auto room = peer.link->room(least);
    if (!room.empty()) return room;
  } else if (peer.state == State::none && may_dial_) {
    peer.state = State::dialing;
    if (auto made = make_link(peer); made)
      dial_(to, peer.incarnation, peer.link->local_blob());
    else
      failing_.emplace_back(to, made.error());
  }
  peer.lacks_room = true;
  return {};
}

void Links::fill(ProcessId to, std::size_t bytes) {
  Entry& peer = entry(to);
  peer.link->fill(bytes, true);
  if (!std::exchange(peer.is_dirty, true)) dirty_.push_back(to);
}

std::size_t Links::flush() {
  std::size_t sent = 0;
  while (!dirty_.empty()) {
    const ProcessId to = dirty_.back();
    dirty_.pop_back();
    Entry& peer = entry(to);
    peer.is_dirty = false;
    if (peer.state != State::open) continue;
    const auto before = peer.link->frames_sent();
    const auto flushed = peer.link->flush();
    sent += peer.link->frames_sent() - before;
    if (!flushed && flushed.error().code != Errc::would_block) fail(to, flushed.error());
  }
  return sent;
}

void Links::flush_when_due() {
  for (const ProcessId to : dirty_) {
    Entry& peer = entry(to);
    // An error shows up as the failure of the queue pair.
    if (peer.state == State::open) static_cast<void>(peer.link->flush_when_due(false));
  }
}

bool Links::can_write(ProcessId to) {
  Entry& peer = entry(to);
  return peer.state == State::open && peer.link->can_write();
}

void Links::write(ProcessId to, const Write& write) {
  // An error shows up as the failure of the queue pair.
  static_cast<void>(entry(to).link->write({.work_id = write.transfer,
                                           .bytes = write.bytes,
                                           .remote_address = write.remote_address,
                                           .remote_key = write.remote_key,
                                           .immediate = write.arrival}));
}

Result<Links::Exposed> Links::expose(ProcessId from, std::span<std::byte> memory, std::size_t piece) {
  Entry& peer = entry(from);
  if (peer.state == State::broken) return rdmc::fail(Errc::would_block, "the link has failed");
  if (peer.state != State::open) return rdmc::fail(Errc::peer_failed, "the link has ended");
  auto region = peer.link->register_memory(memory, RemoteAccess::write);
  if (!region) return std::unexpected(region.error());
  const Exposed exposed{.handle = exposed_.add(nullptr),
                        .remote_address = (*region)->remote_address(),
                        .remote_key = (*region)->remote_key()};
  for (std::size_t at = 0; at < memory.size(); at += piece)
    peer.link->expect_write(exposed.remote_key, exposed.remote_address + at,
                            static_cast<std::uint32_t>(std::min(piece, memory.size() - at)));
  exposed_[static_cast<std::uint32_t>(exposed.handle)] = std::move(*region);
  return exposed;
}

void Links::withdraw(std::uint64_t handle) {
  exposed_.remove(static_cast<std::uint32_t>(handle));
}

std::size_t Links::work(Time now) {
  std::size_t done = failing_.size();
  for (const auto& [process, cause] : std::exchange(failing_, {})) fail(process, cause);
  for (std::size_t i = 0; i < active_.size(); ++i) {
    const ProcessId from = active_[i];
    done += poll(from, entry(from));
    if (i < active_.size() && active_[i] != from) --i;  // The link has failed.
  }
  if (!messenger_->has_deferred()) {
    send_deferred_at_ = Time::never();
  } else if (send_deferred_at_ == Time::never()) {
    send_deferred_at_ = now + kDeferral;
  } else if (now >= send_deferred_at_) {
    send_deferred_at_ = Time::never();
    messenger_->send_deferred();
  }
  watch_hold(now);
  watch_sends(now);
  if (perturbation_) perturb(now);
  return done + flush();
}

void Links::watch_sends(Time now) {
  const std::uint64_t changed = messenger_->sends_changed();
  if (changed != sends_changed_) {
    sends_changed_ = changed;
    judge_at_ = messenger_->are_sends_uncompared() ? now + kDivergedPatience : Time::never();
  } else if (now >= judge_at_) {
    judge_at_ = Time::never();
    messenger_->judge_waiting();
  }
}

void Links::perturb(Time now) {
  if (perturb_at_ == Time::never() && perturbation_->has_delayed()) perturb_at_ = now + kPerturbation;
  if (now < perturb_at_) return;
  for (const auto& [process, cause] : perturbation_->turn(*messenger_)) fail(process, cause);
  perturb_at_ = perturbation_->has_delayed() ? now + kPerturbation : Time::never();
}

void Links::watch_hold(Time now) {
  const auto oldest = messenger_->oldest_hold();
  if (oldest != hold_) {
    hold_ = oldest;
    release_at_ = oldest ? now + kHoldPatience : Time::never();
    chase_at_ = oldest ? now + kChasePeriod : Time::never();
  } else if (oldest && now >= release_at_) {
    messenger_->release_hold();
  } else if (oldest && now >= chase_at_) {
    chase_at_ = now + kChasePeriod;
    messenger_->chase_hold();
  }
}

std::size_t Links::poll(ProcessId from, Entry& peer) {
  const std::size_t count = peer.link->poll(polled_);
  for (std::size_t i = 0; i < count; ++i) {
    if (auto handled = on_completion(from, peer, polled_[i]); !handled) {
      fail(from, handled.error());
      return count;
    }
  }
  if (peer.link->has_failed()) {
    // If more has arrived, it is handled first.
    if (count < polled_.size()) fail(from, {Errc::peer_failed, peer.link->error_cause()});
  } else if (count == 0 && peer.is_leaving) {
    fail(from, {Errc::peer_failed, "the other process has ended"});
  } else if (count != 0 && peer.state == State::open) {
    if (!std::exchange(peer.is_dirty, true)) dirty_.push_back(from);  // A report of credit may be due.
    if (std::exchange(peer.lacks_room, false)) messenger_->on_room(from);
  }
  return count;
}

Result<void> Links::on_completion(ProcessId from, Entry& peer, const fabric::Completion& completion) {
  using Work = fabric::FrameLink::Work;
  if (completion.status != fabric::WorkStatus::success)
    return rdmc::fail(Errc::peer_failed, peer.link->error_cause());
  switch (fabric::FrameLink::kind_of(completion.work_id)) {
    case Work::frame: peer.link->frame_done(); return {};
    case Work::write:
      peer.link->write_done();
      messenger_->on_written(from, static_cast<std::uint32_t>(completion.work_id));
      return {};
    case Work::receive: break;
  }
  // A process sends only when both sides are connected. Its message may be faster than its Ready.
  open(from);
  const std::uint32_t immediate = completion.immediate.value_or(0);
  if (immediate >> 16 == fabric::FrameLink::kFrameSlot) {
    const auto records = peer.link->frame(completion);
    if (!records) return std::unexpected(records.error());
    auto handled = perturbation_ ? perturbation_->on_records(*messenger_, from, *records)
                                 : messenger_->on_records(from, *records);
    if (!handled) return handled;
  } else if (auto handled = messenger_->on_write_arrived(from, immediate, completion.byte_count); !handled) {
    return handled;
  }
  return peer.link->repost(completion.work_id);
}

void Links::on_out_of_memory() {
  for (std::uint32_t i = 0; i < entries_.size(); ++i)
    if (entries_[i].link)
      fail(ProcessId{i}, {Errc::resource_limit, "this process had no memory for its messages"});
}

}  // namespace rdmc::replica
