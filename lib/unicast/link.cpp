#include "lib/unicast/link.hpp"

#include <algorithm>
#include <concepts>
#include <new>

#include "dataplane/fabric/shm/requester.hpp"

namespace rdmc::unicast {
namespace {

constexpr std::uint32_t kSlots = Endpoint::kMostCopies;
constexpr std::size_t kSlotBytes = Endpoint::kMostCopiedBytes;
/// The shm fabric always stages messages of this length, so a peer need not map the pages of the slots.
static_assert(kSlotBytes <= fabric::shm::Requester::kAlwaysStaged);

bool is_receive(WorkKind kind) {
  return kind == WorkKind::receive || kind == WorkKind::receive_write_immediate;
}

WorkKind kind_of(const Work& work) {
  struct Kind {
    WorkKind operator()(const fabric::SendRequest&) const { return WorkKind::send; }
    WorkKind operator()(const fabric::WriteRequest&) const { return WorkKind::write; }
    WorkKind operator()(const fabric::ReadRequest&) const { return WorkKind::read; }
    WorkKind operator()(const fabric::AtomicRequest&) const { return WorkKind::atomic; }
    WorkKind operator()(const fabric::ReceiveRequest&) const { return WorkKind::receive; }
  };
  return std::visit(Kind(), work);
}

std::uint64_t work_id_of(const Work& work) {
  return std::visit([](const auto& request) { return request.work_id; }, work);
}

std::size_t length_of(const Work& work) {
  return std::visit(
      [](const auto& request) {
        if constexpr (std::same_as<decltype(request), const fabric::AtomicRequest&>)
          return sizeof(std::uint64_t);
        else
          return request.bytes.size();
      },
      work);
}

/// The code of the error that ends a connection, from the status of the first operation that failed.
Errc code_of(WorkStatus status) {
  switch (status) {
    case WorkStatus::remote_access: return Errc::permission_denied;
    case WorkStatus::remote_invalid_request:
    case WorkStatus::bad_response:
    case WorkStatus::local_length: return Errc::protocol_error;
    case WorkStatus::success:
    case WorkStatus::retry_exceeded:
    case WorkStatus::rnr_retry_exceeded:
    case WorkStatus::remote_operational:
    case WorkStatus::flushed: return Errc::peer_failed;
  }
  return Errc::peer_failed;
}

}  // namespace

Link::Link(ConnectionId id, const LinkOptions& options, std::function<void()> kick)
    : id_(id),
      options_(options),
      kick_(std::move(kick)),
      sends_(options.send_depth),
      receives_(options.receive_depth) {
  // Allocates everything now, so that asking for an operation needs no memory.
  asked_.reserve(std::size_t{options.send_depth} + options.receive_depth);
  posting_.reserve(asked_.capacity());
  free_slots_.reserve(kSlots);
  for (std::uint32_t slot = kSlots; slot > 0; --slot) free_slots_.push_back(slot - 1);
}

Result<void> Link::check(const Work& work) const {
  const Capabilities& can = options_.capabilities;
  if (!can.atomics && std::holds_alternative<fabric::AtomicRequest>(work))
    return fail(Errc::unsupported, "this fabric has no atomic operations");
  if (length_of(work) > can.largest_message)
    return fail(Errc::invalid_argument,
                "more than " + std::to_string(can.largest_message) + " bytes in one operation");
  return {};
}

/// Counts a new operation against the depth. Precondition: mutex_ is held. The error texts are short, so they
/// need no memory.
Result<void> Link::reserve(bool receives) {
  if (state_ != State::open) return fail(Errc::peer_failed, "the connection is over");
  std::atomic<std::uint32_t>& held = receives ? receives_held_ : sends_held_;
  if (held == (receives ? options_.receive_depth : options_.send_depth))
    return fail(Errc::would_block, "queue is full");
  ++held;
  return {};
}

/// Stores an operation. The first operation of a batch wakes the fabric thread. Precondition: mutex_ is held.
void Link::note(Asked asked) {
  asked_.push_back(std::move(asked));
  if (asked_.size() > 1) return;
  has_asked_ = true;
  kick_();
}

Result<void> Link::ask(const Work& work) {
  if (auto checked = check(work); !checked) return checked;
  const std::lock_guard lock(mutex_);
  if (auto reserved = reserve(is_receive(kind_of(work))); !reserved) return reserved;
  note({work, std::nullopt});
  return {};
}

Result<void> Link::ask_copy(std::span<const std::byte> bytes, std::uint64_t work_id,
                            std::optional<std::uint32_t> immediate) {
  const std::lock_guard lock(mutex_);
  if (state_ == State::open && free_slots_.empty()) return fail(Errc::would_block, "too many copies");
  if (auto reserved = reserve(false); !reserved) return reserved;
  const std::uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  const auto copy = bytes_of(slot).first(bytes.size());
  std::ranges::copy(bytes, copy.begin());
  note({fabric::SendRequest{.work_id = work_id, .bytes = copy, .immediate = immediate, .invalidate = {}},
        slot});
  return {};
}

void Link::disconnect() {
  const std::lock_guard lock(mutex_);
  if (state_ == State::open) wish_end({Errc::cancelled, "disconnected"});
}

void Link::ask_for_end(Error cause) noexcept {
  const std::lock_guard lock(mutex_);
  wish_end(std::move(cause));
}

/// Precondition: mutex_ is held.
void Link::wish_end(Error cause) noexcept {
  if (end_wish_) return;
  end_wish_.emplace(std::move(cause));
  has_end_wish_ = true;
  kick_();
}

std::optional<Error> Link::take_end_wish() {
  if (!has_end_wish_) return std::nullopt;
  const std::lock_guard lock(mutex_);
  has_end_wish_ = false;
  return std::exchange(end_wish_, std::nullopt);
}

void Link::hand_over(std::span<const Completion> completions) {
  const auto receives = static_cast<std::uint32_t>(
      std::ranges::count_if(completions, [](const Completion& one) { return is_receive(one.kind); }));
  receives_held_ -= receives;
  sends_held_ -= static_cast<std::uint32_t>(completions.size()) - receives;
}

Result<fabric::ConnectionBlob> Link::make_queue_pair(fabric::Fabric& fabric) {
  auto slots = memory::Arena::make(kSlots * kSlotBytes, memory::Touch::when_used);
  if (!slots) return std::unexpected(slots.error());
  slots_ = std::move(*slots);
  if (fabric.info().pins_memory) {
    auto pinned = fabric.register_memory(slots_.bytes(), fabric::MemoryUse::general, RemoteAccess::none);
    if (!pinned) return std::unexpected(pinned.error());
    pinned_ = std::move(*pinned);
  }
  auto made = fabric.create_queue_pair({.send_depth = options_.send_depth,
                                        .receive_depth = options_.receive_depth,
                                        .rnr_patience = options_.receive_patience});
  if (!made) return std::unexpected(made.error());
  queue_pair_ = std::move(*made);
  return queue_pair_->local_blob();
}

bool Link::open(PeerInfo peer) {
  const std::lock_guard lock(mutex_);
  if (state_ != State::connecting) return false;
  peer_ = std::move(peer);
  was_opened_ = true;
  state_ = State::open;
  return true;
}

void Link::close() {
  const std::lock_guard lock(mutex_);
  state_ = State::closed;
}

Result<void> Link::post(const Work& work) {
  struct Post {
    fabric::QueuePair& to;
    Result<void> operator()(const fabric::SendRequest& request) const { return to.post_send(request); }
    Result<void> operator()(const fabric::WriteRequest& request) const { return to.post_write(request); }
    Result<void> operator()(const fabric::ReadRequest& request) const { return to.post_read(request); }
    Result<void> operator()(const fabric::AtomicRequest& request) const { return to.post_atomic(request); }
    Result<void> operator()(const fabric::ReceiveRequest& request) const { return to.post_receive(request); }
  };
  return std::visit(Post{*queue_pair_}, work);
}

/// Posts the stored operations. If the queue pair refuses an operation, this operation and all later ones are
/// flushed in order. If memory runs out while an operation is posted, it is not known whether the queue pair
/// has the operation. So the operation is not posted again.
std::size_t Link::post_asked() {
  if (!has_asked_) return 0;
  {
    const std::lock_guard lock(mutex_);
    has_asked_ = false;
    std::swap(asked_, posting_);
  }
  for (const Asked& asked : posting_) {
    const WorkKind kind = kind_of(asked.work);
    (is_receive(kind) ? receives_ : sends_).push({work_id_of(asked.work), kind, asked.slot});
    if (fault_ || queue_pair_ == nullptr) continue;
    try {
      if (auto posted = post(asked.work); !posted) fault_ = std::move(posted.error());
    } catch (const std::bad_alloc&) {
      fault_ = Error{Errc::resource_limit, "no memory"};
    }
  }
  const std::size_t count = posting_.size();
  posting_.clear();
  return count;
}

std::size_t Link::poll(std::span<fabric::Completion> polled, std::span<Completion> out) {
  if (queue_pair_ == nullptr) return 0;
  const std::size_t count = queue_pair_->poll_completions(polled);
  for (std::size_t i = 0; i < count; ++i) {
    const fabric::Completion& one = polled[i];
    if (one.status != WorkStatus::success && first_failure_ == WorkStatus::success)
      first_failure_ = one.status;
    roce::FixedRing<Posted>& posted = is_receive(one.kind) ? receives_ : sends_;
    give_back(posted.front().slot);
    posted.pop();
    out[i] = {.connection = id_,
              .work_id = one.work_id,
              .kind = one.kind,
              .status = one.status,
              .byte_count = is_receive(one.kind) ? one.byte_count : 0,
              .immediate = one.immediate,
              .original = one.original};
  }
  return count;
}

void Link::give_back(std::optional<std::uint32_t> slot) {
  if (!slot) return;
  const std::lock_guard lock(mutex_);
  free_slots_.push_back(*slot);
}

std::span<std::byte> Link::bytes_of(std::uint32_t slot) const {
  return slots_.bytes().subspan(slot * kSlotBytes, kSlotBytes);
}

std::optional<Link::Fault> Link::fault() const {
  if (queue_pair_ != nullptr && queue_pair_->state() == fabric::QueuePairState::error) {
    const bool is_explained = first_failure_ != WorkStatus::success && first_failure_ != WorkStatus::flushed;
    return Fault{.error = {code_of(first_failure_), queue_pair_->error_cause()},
                 .is_explained = is_explained,
                 .is_our_refusal = first_failure_ == WorkStatus::local_length};
  }
  if (fault_) return Fault{.error = *fault_, .is_explained = true};
  return std::nullopt;
}

void Link::destroy_queue_pair() {
  queue_pair_.reset();
  pinned_.reset();
  slots_ = {};
}

std::size_t Link::flush(std::span<Completion> out) {
  post_asked();  // appends to the rings all operations that were never posted
  std::size_t count = 0;
  for (roce::FixedRing<Posted>* const posted : {&sends_, &receives_}) {
    for (; count < out.size() && !posted->empty(); posted->pop())
      out[count++] = {.connection = id_,
                      .work_id = posted->front().work_id,
                      .kind = posted->front().kind,
                      .status = WorkStatus::flushed};
  }
  return count;
}

}  // namespace rdmc::unicast
