#include "lib/socket/carrier.hpp"

#include <algorithm>
#include <new>
#include <utility>

namespace rdmc::sockets {

Address fabric_address(Address local) {
  local.port = 0;
  return !local.ipv6 && local.bytes[0] == 127 ? Address::ipv4(127, 0, 0, 1, 0) : local;
}

Result<std::unique_ptr<Carrier>> Carrier::open(peer::Context& context,
                                               const peer::FabricThreadOptions& options, FairMutex& lock) {
  auto thread = context.fabric_thread(options);
  if (!thread) return std::unexpected(thread.error());
  std::unique_ptr<Carrier> carrier(new Carrier(std::move(*thread), lock));
  carrier->thread_->call([&] { carrier->thread_->engine().add(*carrier); });
  return carrier;
}

Carrier::~Carrier() {
  stop();
}

/// The trunks must end on the fabric thread, because they belong to it.
void Carrier::stop() {
  if (thread_ == nullptr) return;
  thread_->call([this] {
    thread_->engine().remove(*this);
    lose_all(ECONNRESET);
  });
  thread_.reset();
}

/// Removes the trunks one after the other. If there is no memory even for this, the function can be called
/// again.
void Carrier::lose_all(int error) {
  for (; !trunks_.empty(); trunks_.pop_back()) trunks_.back()->lose(error);
}

void Carrier::kick() {
  if (!kicked_.exchange(true)) thread_->notify();
}

Result<std::shared_ptr<Trunk>> Carrier::make_trunk(std::shared_ptr<Mux> mux) {
  auto trunk = Trunk::create(thread_->fabric(), lock_, std::move(mux));
  if (trunk) trunks_.push_back(*trunk);
  return trunk;
}

std::size_t Carrier::work(Time) {
  const bool kicked = kicked_.exchange(false);
  std::size_t done = 0;
  for (const auto& trunk : trunks_) {
    try {
      const std::size_t done_here = trunk->work(kicked);
      done += done_here + trunk->end_turn(done_here + thread_->last_progress());
    } catch (const std::bad_alloc&) {
      // There was no memory for the data that this peer has sent. The loss of the trunk frees the memory that
      // the trunk used.
      trunk->lose(ENOBUFS);
    }
  }
  std::erase_if(trunks_, [](const auto& trunk) { return trunk->is_lost(); });
  return done;
}

bool Carrier::is_quiet() const {
  return std::ranges::all_of(trunks_, [](const auto& trunk) { return trunk->is_quiet(); });
}

}  // namespace rdmc::sockets
