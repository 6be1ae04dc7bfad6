#include "lib/socket/trunk.hpp"

#include <array>
#include <cerrno>
#include <utility>

#include "lib/socket/lane_memory.hpp"

namespace rdmc::sockets {
namespace {

/// A peer may be stopped for a while, in a debugger or by an operator. It must still be connected when it
/// continues. It may be silent for 224 acknowledgement timeouts, which is 15 s. The control channel reports a
/// peer's death at once.
constexpr std::uint8_t kRetries = 223;
/// The number of frames and writes that are handled before the lock is released. Other trunks and the
/// application also need the lock.
constexpr std::size_t kHeardAtOnce = 256;

}  // namespace

Result<std::shared_ptr<Trunk>> Trunk::create(fabric::Fabric& fabric, FairMutex& lock,
                                             std::shared_ptr<Mux> mux) {
  auto link = group::Link::create(fabric, group::PeerId{},
                                  {.queue_pair = {.retry_limit = kRetries}, .ring_bytes = kRingBytes});
  if (!link) return std::unexpected(link.error());
  std::shared_ptr<Trunk> trunk(new Trunk(fabric, lock, std::move(mux)));
  trunk->link_ = std::move(*link);
  return trunk;
}

std::size_t Trunk::work(bool kicked) {
  std::array<fabric::Completion, 64> completions;
  std::size_t done = 0, count = 0;
  std::unique_lock lock(lock_, std::defer_lock);
  Result<void> well;
  if (!has_lanes_) {  // This is done without the lock, because memory is made and mapped.
    auto lanes = exchange_lanes();
    if (!lanes) {
      well = std::unexpected(lanes.error());
    } else if (*lanes != nullptr) {
      lock.lock();
      mux_->use_lanes(std::move(*lanes), !mux_->offers_lanes());
      ++done;
    }
  }
  while (well) {
    count = link_->poll(completions);
    done += count;
    if (count != 0 && !lock.owns_lock()) lock.lock();
    for (std::size_t i = 0; i < count && well; ++i) well = on_completion(completions[i]);
    if (count < completions.size() || done >= kHeardAtOnce)
      break;  // The rest is handled in the next turn of
              // the engine.
  }
  const bool are_all_heard = count < completions.size();
  if (well && are_all_heard && link_->has_failed()) well = fail(Errc::peer_failed, link_->error_cause());
  if (well && !leaving_ && (done != 0 || kicked)) {
    if (!lock.owns_lock()) lock.lock();
    const auto said = say(lock);
    if (said)
      done += *said;
    else
      well = std::unexpected(said.error());
  }
  if (well) return done;
  if (lock.owns_lock()) lock.unlock();
  const int error = leaving_ ? leaving_->error : ECONNRESET;
  lose(well.error().code == Errc::protocol_error ? EPROTO : error);
  return done + 1;
}

std::size_t Trunk::end_turn(std::size_t done) {
  if (!leaving_ || is_lost()) return 0;
  if (leaving_->last_turns.are_over(done)) lose(leaving_->error);
  return 1;
}

/// Makes or receives the memory for lanes, once. If both processes are on one host, the side that dialled
/// makes it. Returns null if there is no memory for lanes now.
Result<std::shared_ptr<LanePool>> Trunk::exchange_lanes() {
  auto* const local = link_->local_peer();
  if (local == nullptr) return nullptr;
  if (mux_->offers_lanes()) {
    has_lanes_ = true;  // The exchange is tried only once.
    const auto made = make_lanes(local->peer_memory());
    return made && local->share_pages(*made->pages) ? made->pool : nullptr;
  }
  auto pages = local->take_shared_pages();
  if (!pages) return nullptr;
  if (pages->bytes().size() != LanePool::kBytes)
    return fail(Errc::protocol_error, "a peer shares memory of a strange size");
  has_lanes_ = true;
  return make_lanes(std::move(*pages), false, local->peer_memory()).pool;
}

Result<void> Trunk::on_completion(const fabric::Completion& completion) {
  if (completion.status != fabric::WorkStatus::success) return fail(Errc::peer_failed, link_->error_cause());
  if (group::Link::kind_of(completion.work_id) == group::Link::Work::frame) {
    link_->frame_done();
    return {};
  }
  if (group::Link::kind_of(completion.work_id) == group::Link::Work::write) {
    link_->write_done();
    const auto [stream, chunk] = std::move(under_way_.front());
    under_way_.pop_front();
    stream->on_chunk_sent(chunk);
    return {};
  }
  const bool is_frame = completion.kind == fabric::WorkKind::receive_write_immediate &&
                        completion.immediate.value_or(0) >> 16 == group::Link::kFrameSlot;
  if (!is_frame) return on_chunk(completion);
  const auto records = link_->frame(completion);
  if (!records) return std::unexpected(records.error());
  if (auto heard = mux_->on_frame(*records); !heard) return heard;
  return link_->repost(completion.work_id);
}

Result<void> Trunk::on_chunk(const fabric::Completion& completion) {
  if (completion.kind != fabric::WorkKind::receive_write_immediate)
    return fail(Errc::protocol_error, "a peer has sent a message where it may only write");
  if (auto heard = mux_->on_chunk(completion.immediate.value_or(0) >> 16, completion.byte_count); !heard)
    return heard;
  return link_->repost(completion.work_id);
}

/// Makes the slots for the peer's large messages. Without memory for slots, large messages are copied as
/// small messages are. The memory is made and registered without the lock, because registering pins it for a
/// NIC, which takes milliseconds. On other fabrics, a slot gets its pages when it is first written to,
/// because most trunks never use all slots.
void Trunk::make_slots(std::unique_lock<FairMutex>& lock) {
  constexpr std::size_t kBytes = SlotMemory::kSlots * SlotMemory::kSlotBytes;
  lock.unlock();
  auto arena = fabric_.make_arena(kBytes, memory::Touch::when_used);
  auto region = arena ? fabric_.register_memory(arena->bytes().first(kBytes))
                      : Result<std::unique_ptr<fabric::MemoryRegion>>(std::unexpected(arena.error()));
  lock.lock();
  if (!region) return mux_->use_slots(nullptr);
  slots_region_ = std::move(*region);
  mux_->use_slots(std::make_shared<SlotMemory>(std::move(*arena), slots_region_->remote_key(),
                                               slots_region_->remote_address()));
}

/// Writes chunks after the frames that were written before. Flushes an open frame first.
Result<std::size_t> Trunk::write_chunks() {
  std::size_t count = 0;
  for (; link_->can_write(); ++count) {
    auto next = mux_->next_chunk();
    if (!next) break;
    const auto& [chunk, grant] = next->second;
    auto written = link_->write({.work_id = group::Link::block_write_id(0, 0, 0),
                                 .bytes = chunk.bytes,
                                 .remote_address = grant.address,
                                 .remote_key = RemoteKey{grant.key},
                                 .immediate = grant.slot << 16});
    under_way_.emplace_back(std::move(next->first), chunk);
    if (!written) return std::unexpected(written.error());
  }
  return count;
}

Result<std::size_t> Trunk::say(std::unique_lock<FairMutex>& lock) {
  std::size_t frames = 0;
  if (!link_->is_connected()) return frames;
  if (mux_->wants_slots()) make_slots(lock);
  while (mux_->has_something()) {
    const auto room = link_->room(kMostControlBytes);
    if (room.empty()) break;
    const std::size_t used = mux_->fill(room);
    if (used == 0) break;
    link_->fill(used);
    if (auto flushed = link_->flush(); !flushed) return std::unexpected(flushed.error());
    ++frames;
  }
  for (const Grant& grant : mux_->take_granted())
    link_->expect_write(RemoteKey{grant.key}, grant.address, SlotMemory::kSlotBytes);
  const auto chunks = write_chunks();
  if (!chunks) return chunks;
  frames += *chunks;
  // Gives the peer credit for its frames if no frame of this side does so.
  if (auto flushed = link_->flush(); !flushed) return std::unexpected(flushed.error());
  return frames;
}

void Trunk::lose(int error) {
  link_->shut();
  {
    const std::lock_guard lock(lock_);
    mux_->lose(error);
    for (const auto& [stream, chunk] : std::exchange(under_way_, {})) stream->on_chunk_sent(chunk);
    slots_region_.reset();
  }
  if (const auto lost = std::exchange(on_lost_, nullptr)) lost();
}

}  // namespace rdmc::sockets
