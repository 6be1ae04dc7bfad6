// The calls that make no copy. Data to be sent is in memory of the library, and the application reads
// received chunks in the slots.
#include <poll.h>

#include <cerrno>

#include "lib/socket/stack.hpp"

namespace rdmc::sockets {
namespace {

/// The longest piece that is returned for bytes that did not arrive in a slot.
constexpr std::size_t kCopiedAtOnce = 256 * 1024;

bool is_of_bytes(const OpenSocket& socket) {
  return socket.socket.kind() == ConnectionKind::bytes && !socket.group;
}

}  // namespace

std::expected<void*, int> Stack::allocate(std::size_t bytes) {
  if (bytes == 0) return std::unexpected(EINVAL);
  const UnderWay counted(under_way_);
  control::ControlLoop* loop = nullptr;
  {
    const Lock lock(lock_);
    if (!is_over_) loop = loop_.get();
  }
  const auto all = loop == nullptr ? std::vector<Carrier*>() : loop->call([this] { return carriers(); });
  auto made = all.size() == 1 ? all.front()->make_arena(bytes) : memory::Arena::make(bytes);
  if (!made) return std::unexpected(ENOMEM);
  const auto arena = std::make_shared<memory::Arena>(std::move(*made));
  const Lock lock(lock_);
  allocations_[arena->bytes().data()] = arena;
  return arena->bytes().data();
}

Answer Stack::deallocate(void* memory) {
  // This is destroyed without the lock, because unmapping much memory takes long.
  std::shared_ptr<memory::Arena> last;
  const Lock lock(lock_);
  const auto found = allocations_.find(static_cast<const std::byte*>(memory));
  if (found == allocations_.end()) return std::unexpected(EINVAL);
  last = std::move(found->second);
  allocations_.erase(found);
  return 0;
}

/// Returns the allocation that contains all of `bytes`, or null if there is no such allocation.
std::shared_ptr<const void> Stack::owner_of(std::span<const std::byte> bytes) const {
  auto after = allocations_.upper_bound(bytes.data());
  if (after == allocations_.begin()) return nullptr;
  const auto& arena = std::prev(after)->second;
  const auto offset = static_cast<std::size_t>(bytes.data() - arena->bytes().data());
  const bool is_inside = offset <= arena->bytes().size() && bytes.size() <= arena->bytes().size() - offset;
  return is_inside ? arena : nullptr;
}

Answer Stack::send_in_place(int fd, std::span<const std::byte> bytes, int flags, std::uint64_t& number) {
  Lock lock(lock_);
  auto found = find(fd);
  if (!found) return std::unexpected(found.error());
  const Held socket = std::move(*found);
  if (!is_of_bytes(*socket)) return std::unexpected(EOPNOTSUPP);
  if ((flags & ~(MSG_DONTWAIT | MSG_NOSIGNAL)) != 0) return std::unexpected(EOPNOTSUPP);
  const auto owner = owner_of(bytes);
  if (owner == nullptr) return std::unexpected(EFAULT);
  const auto sent = until_done(
      lock, socket, may_wait(*socket, flags), deadline_of(socket->send_timeout),
      [&] { return socket->socket.stream()->send_in_place(bytes, owner, number); }, EAGAIN, Wants::room);
  if (!sent && sent.error() == EAGAIN) socket->show_full();
  if (!sent && sent.error() == EPIPE && (flags & MSG_NOSIGNAL) == 0) raise_broken_pipe(lock);
  return sent;
}

Answer Stack::wait_sent(int fd, std::uint64_t number, int flags) {
  Lock lock(lock_);
  auto found = find(fd);
  if (!found) return std::unexpected(found.error());
  const Held socket = std::move(*found);
  if (!is_of_bytes(*socket) || socket->socket.backlog() != nullptr) return std::unexpected(EOPNOTSUPP);
  if ((flags & ~MSG_DONTWAIT) != 0) return std::unexpected(EOPNOTSUPP);
  if (!socket->socket.stream()->has_given(number)) return std::unexpected(EINVAL);
  return until_done(lock, socket, may_wait(*socket, flags), deadline_of(socket->send_timeout),
                    [&]() -> Answer {
                      return socket->socket.stream()->is_sent(number) ? Answer(0) : std::unexpected(EAGAIN);
                    });
}

Answer Stack::receive_in_place(int fd, void** bytes, int flags) {
  Lock lock(lock_);
  auto found = find(fd);
  if (!found) return std::unexpected(found.error());
  const Held socket = std::move(*found);
  if (!is_of_bytes(*socket)) return std::unexpected(EOPNOTSUPP);
  if ((flags & ~(MSG_DONTWAIT | MSG_NOSIGNAL)) != 0) return std::unexpected(EOPNOTSUPP);
  if (bytes == nullptr) return std::unexpected(EFAULT);
  std::vector<std::byte> room;
  Bounce bounce;
  return until_done(
      lock, socket, may_wait(*socket, flags), deadline_of(socket->receive_timeout),
      [&]() -> Answer {
        std::optional<ArrivedChunk> chunk;
        if (socket->socket.backlog() == nullptr) chunk = socket->socket.stream()->take_chunk();
        if (!chunk) {  // Without a chunk, the result is a copied piece, the end of the stream, or an error.
          room.resize(kCopiedAtOnce);
          const auto got = receive_some(lock, socket->socket, room, false, bounce);
          if (!got || *got == 0) return got;
          bounce.deliver();
          room.resize(*got);
          chunk.emplace();
          chunk->copied = std::move(room);
          chunk->bytes = chunk->copied;
        }
        *bytes = chunk->bytes.data();
        const std::size_t count = chunk->bytes.size();
        loans_.emplace(chunk->bytes.data(), LentChunk{socket->socket.stream(), std::move(*chunk)});
        return count;
      },
      EAGAIN, Wants::bytes);
}

Answer Stack::release(void* bytes) {
  const Lock lock(lock_);
  const auto found = loans_.find(static_cast<const std::byte*>(bytes));
  if (found == loans_.end()) return std::unexpected(EINVAL);
  LentChunk loan = std::move(found->second);
  loans_.erase(found);
  if (loan.chunk.slot) loan.stream->give_back(std::move(*loan.chunk.slot));
  return 0;
}

}  // namespace rdmc::sockets
