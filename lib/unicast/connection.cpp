// The handles that applications use: a connection, a region, and the encoding of a peer's memory.
#include <algorithm>

#include "dataplane/base/bytes.hpp"
#include "lib/unicast/data_path.hpp"

namespace rdmc {
namespace {

constexpr std::size_t kAtomicBytes = 8;

std::unexpected<Error> no_connection() {
  return fail(Errc::peer_failed, "no connection");
}

/// Checks that the bytes lie in `memory`. Errors: invalid_argument.
Result<void> check_range(const RemoteMemory& memory, std::uint64_t offset, std::size_t bytes) {
  if (offset > memory.length || bytes > memory.length - offset)
    return fail(Errc::invalid_argument, std::to_string(bytes) + " bytes at " + std::to_string(offset) +
                                            " of " + std::to_string(memory.length) + " bytes of a peer's");
  return {};
}

Result<void> check_atomic(const RemoteMemory& memory, std::uint64_t offset) {
  if ((memory.address + offset) % kAtomicBytes != 0)
    return fail(Errc::invalid_argument, "an atomic operation at no multiple of 8");
  return check_range(memory, offset, kAtomicBytes);
}

/// Asks the link for a write. `link` may be null.
Result<void> ask_for_write(unicast::Link* link, std::span<const std::byte> bytes, const RemoteMemory& to,
                           std::uint64_t offset, std::uint64_t work_id,
                           std::optional<std::uint32_t> immediate) {
  if (link == nullptr) return no_connection();
  if (auto checked = check_range(to, offset, bytes.size()); !checked) return checked;
  return link->ask(fabric::WriteRequest{.work_id = work_id,
                                        .bytes = bytes,
                                        .remote_address = to.address + offset,
                                        .remote_key = to.key,
                                        .immediate = immediate});
}

}  // namespace

std::array<std::byte, RemoteMemory::kEncodedBytes> RemoteMemory::encode() const {
  std::array<std::byte, kEncodedBytes> bytes;
  store_be(bytes.data(), address);
  store_be(bytes.data() + 8, length);
  store_be(bytes.data() + 16, value_of(key));
  return bytes;
}

Result<RemoteMemory> RemoteMemory::decode(std::span<const std::byte> bytes) {
  if (bytes.size() != kEncodedBytes)
    return fail(Errc::protocol_error,
                "a peer's memory is named in 20 bytes, not in " + std::to_string(bytes.size()));
  return RemoteMemory{load_be<std::uint64_t>(bytes.data()), load_be<std::uint64_t>(bytes.data() + 8),
                      RemoteKey{load_be<std::uint32_t>(bytes.data() + 16)}};
}

ConnectionId Connection::id() const {
  return link_ ? link_->id() : ConnectionId{};
}

const PeerInfo& Connection::peer() const {
  static const PeerInfo kNobody;
  return link_ ? link_->peer() : kNobody;
}

bool Connection::is_open() const {
  return link_ && link_->is_open();
}

Result<void> Connection::send(std::span<const std::byte> bytes, std::uint64_t work_id,
                              std::optional<std::uint32_t> immediate) const {
  if (!link_) return no_connection();
  return link_->ask(
      fabric::SendRequest{.work_id = work_id, .bytes = bytes, .immediate = immediate, .invalidate = {}});
}

Result<void> Connection::send_copy(std::span<const std::byte> bytes, std::uint64_t work_id,
                                   std::optional<std::uint32_t> immediate) const {
  if (!link_) return no_connection();
  if (bytes.size() > Endpoint::kMostCopiedBytes)
    return fail(Errc::invalid_argument, "at most " + std::to_string(Endpoint::kMostCopiedBytes) +
                                            " bytes are copied, not " + std::to_string(bytes.size()));
  return link_->ask_copy(bytes, work_id, immediate);
}

Result<void> Connection::post_receive(std::span<std::byte> bytes, std::uint64_t work_id) const {
  if (!link_) return no_connection();
  return link_->ask(fabric::ReceiveRequest{.work_id = work_id, .bytes = bytes});
}

Result<void> Connection::write(std::span<const std::byte> bytes, const RemoteMemory& to, std::uint64_t offset,
                               std::uint64_t work_id) const {
  return ask_for_write(link_.get(), bytes, to, offset, work_id, std::nullopt);
}

Result<void> Connection::write_with_immediate(std::span<const std::byte> bytes, const RemoteMemory& to,
                                              std::uint64_t offset, std::uint32_t immediate,
                                              std::uint64_t work_id) const {
  return ask_for_write(link_.get(), bytes, to, offset, work_id, immediate);
}

Result<void> Connection::read(std::span<std::byte> bytes, const RemoteMemory& from, std::uint64_t offset,
                              std::uint64_t work_id) const {
  if (!link_) return no_connection();
  if (auto checked = check_range(from, offset, bytes.size()); !checked) return checked;
  return link_->ask(fabric::ReadRequest{
      .work_id = work_id, .bytes = bytes, .remote_address = from.address + offset, .remote_key = from.key});
}

Result<void> Connection::compare_and_swap(const RemoteMemory& at, std::uint64_t offset,
                                          std::uint64_t expected, std::uint64_t swap,
                                          std::uint64_t work_id) const {
  if (!link_) return no_connection();
  if (auto checked = check_atomic(at, offset); !checked) return checked;
  return link_->ask(fabric::AtomicRequest{.work_id = work_id,
                                          .kind = fabric::AtomicRequest::Kind::compare_swap,
                                          .remote_address = at.address + offset,
                                          .remote_key = at.key,
                                          .swap_or_add = swap,
                                          .compare = expected});
}

Result<void> Connection::fetch_and_add(const RemoteMemory& at, std::uint64_t offset, std::uint64_t add,
                                       std::uint64_t work_id) const {
  if (!link_) return no_connection();
  if (auto checked = check_atomic(at, offset); !checked) return checked;
  return link_->ask(fabric::AtomicRequest{.work_id = work_id,
                                          .kind = fabric::AtomicRequest::Kind::fetch_add,
                                          .remote_address = at.address + offset,
                                          .remote_key = at.key,
                                          .swap_or_add = add});
}

void Connection::disconnect() const {
  if (link_) link_->disconnect();
}

Region& Region::operator=(Region&& other) noexcept {
  if (this != &other) {
    const Region former(std::move(*this));  // ends the region of this handle
    state_ = std::move(other.state_);
  }
  return *this;
}

/// If the endpoint has ended, the region has ended with it.
Region::~Region() {
  if (!state_) return;
  if (const auto data_path = state_->data_path.lock()) data_path->remove(*state_);
}

std::span<std::byte> Region::bytes() const {
  return state_ ? state_->memory : std::span<std::byte>();
}

Result<RemoteMemory> Region::grant(const Connection& connection, const GrantOptions& options) {
  if (!state_) return fail(Errc::invalid_argument, "no region");
  const auto data_path = state_->data_path.lock();
  if (!data_path || !connection.link_) return no_connection();
  return data_path->grant(*state_, *connection.link_, options);
}

Result<void> Region::revoke(const Connection& connection) {
  if (!state_ || !connection.link_) return {};
  const auto data_path = state_->data_path.lock();
  return data_path ? data_path->revoke(*state_, *connection.link_) : Result<void>();
}

}  // namespace rdmc
