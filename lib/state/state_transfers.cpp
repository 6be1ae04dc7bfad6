// The part of a replicated state for the transfers of the state between replicas. The thread of take() makes
// and ends the groups of transfers, because an upcall must not do that.
#include <atomic>
#include <utility>

#include "dataplane/base/clock.hpp"
#include "lib/state/replicated_state_impl.hpp"

namespace rdmc {

using namespace state;

/// Ends the transfer if the application drops the writer before it has finished.
class StateWriter::Impl {
 public:
  explicit Impl(std::shared_ptr<Donor> donor) : donor_(std::move(donor)) {}
  ~Impl();

  void write(Bytes bytes) { donor_->write(std::move(bytes)); }
  void finish() {
    donor_->finish();
    is_finished_ = true;
  }
  std::size_t waiting_bytes() const { return donor_->waiting_bytes(); }

 private:
  const std::shared_ptr<Donor> donor_;
  std::atomic<bool> is_finished_ = false;
};

StateWriter::Impl::~Impl() {
  if (!is_finished_) donor_->close();
}
void StateWriter::write(std::vector<std::byte> bytes) {
  impl_->write(std::move(bytes));
}
void StateWriter::finish() {
  impl_->finish();
}
std::size_t StateWriter::waiting_bytes() const {
  return impl_->waiting_bytes();
}

/// False if the transfer is over already.
bool ReplicatedState::Impl::is_wanted(const Save& save) {
  const std::lock_guard lock(mutex_);
  return donors_.contains(save.serial);
}

/// If the group cannot be made, the other replica gives up after a while, and gets another transfer.
std::optional<StateChange> ReplicatedState::Impl::act(Save& save) {
  const auto head = decode_snapshot_head(*save.head);
  std::shared_ptr<Donor> donor;
  if (is_wanted(save))
    if (auto made = Donor::open(membership_, group_of(options_.number, save.group), *save.head))
      donor = std::move(*made);
  if (!donor || !head) return std::nullopt;
  {
    const std::lock_guard lock(mutex_);
    const auto found = donors_.find(save.serial);
    if (found != donors_.end()) found->second = donor;
  }
  // Without this, the application could wait forever for a replica that is gone.
  if (!is_wanted(save)) return std::nullopt;
  return SaveState{StateWriter(std::make_shared<StateWriter::Impl>(donor)), head->position};
}

std::optional<StateChange> ReplicatedState::Impl::act(SaveOver& over) {
  std::shared_ptr<Donor> donor;
  {
    const std::lock_guard lock(mutex_);
    if (auto found = donors_.extract(over.serial)) donor = std::move(found.mapped());
  }
  if (donor) donor->close();
  return std::nullopt;
}

std::optional<StateChange> ReplicatedState::Impl::act(Load& load) {
  recipient_.reset();
  loads_ = load.serial;
  load_began_ = monotonic_now();
  const auto head = std::make_shared<SnapshotHead>();
  Recipient::Hooks hooks{
      .begun = [head](SnapshotHead read) { *head = std::move(read); },
      .got =
          [this, serial = load.serial](std::shared_ptr<const Bytes> piece) {
            update([&] {
              if (!core_.loads(serial)) return;
              push(Piece{{.step = LoadState::Step::bytes, .bytes = *piece, .keeper = piece}, serial});
            });
          },
      .ended =
          [this, head, serial = load.serial] {
            update([&] {
              if (!core_.loaded(serial, *head)) return;
              ordered_ = head->position;
              push(Piece{{.step = LoadState::Step::end,
                          .position = head->position,
                          .epoch = head->epoch,
                          .time = head->time},
                         serial});
            });
          },
      .failed = [this, serial = load.serial] { update([&] { core_.load_failed(serial); }); },
      .has_room =
          [this] {
            // Events that wait for the state must not keep the state from coming.
            const std::lock_guard lock_for_room(mutex_);
            return waiting_bytes_ < options_.most_waiting_bytes;
          }};
  // If the group cannot be made now, look_after() gives up this transfer, and another one follows.
  auto recipient = Recipient::open(membership_, group_of(options_.number, load.group), load.from, hooks);
  if (recipient) recipient_ = std::move(*recipient);
  return LoadState{.step = LoadState::Step::begin};
}

/// An earlier transfer may still have sent something after a later one was ordered.
std::optional<StateChange> ReplicatedState::Impl::act(Piece& piece) {
  if (piece.serial != loads_ || has_begun_anew_) return std::nullopt;
  if (piece.load.step == LoadState::Step::end) {
    recipient_.reset();
    loads_.reset();
  }
  return StateChange(std::move(piece.load));
}

/// No part of a state may come after this.
std::optional<StateChange> ReplicatedState::Impl::act(Fault& fault) {
  recipient_.reset();
  loads_.reset();
  return StateEnded{fault.cause};
}

}  // namespace rdmc
