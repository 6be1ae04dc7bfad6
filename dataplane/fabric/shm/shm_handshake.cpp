// The shm handshake, by which two queue pairs connect: one side dials, and then both sides send a hello with
// their memory. This file also contains the functions that find payload in the peer's memory later.
#include <fcntl.h>

#include <algorithm>
#include <array>

#include "dataplane/fabric/shm/copy.hpp"
#include "dataplane/fabric/shm/process_memory.hpp"
#include "dataplane/fabric/shm/shm_fabric.hpp"
#include "dataplane/fabric/shm/shm_queue_pair.hpp"

namespace rdmc::fabric {
namespace {

using shm::LocalSocket;
using shm::Message;
using shm::MessageKind;

// The maximum number of arenas of one peer at a time.
constexpr std::size_t kMostArenas = 1024;
/// The maximum number of messages read in one turn, so that other work is not delayed; and the maximum number
/// of messages read to find an arena. The second number is more than can be queued before the message with
/// the arena.
constexpr std::size_t kMessagesPerTurn = 64, kMessagesBeforeArena = 2 * kMostArenas;
/// If the queue of a peer's listener is full, the peer is dialled again after this time.
constexpr Duration kDialAgain = milliseconds(10);
/// The smallest payload that the kernel copies. Such a copy needs a system call. Below this size, staging
/// with two copies in the cache is cheaper.
constexpr std::size_t kLeastFromProcess = 16 << 10;

}  // namespace

Result<void> ShmQueuePair::connect(std::span<const std::byte> peer_blob) {
  if (peer_) return rdmc::fail(Errc::invalid_argument, "the queue pair is connected already");
  const auto peer = shm::decode_shm_blob(peer_blob);
  if (!peer) return std::unexpected(peer.error());
  if (peer->queue_pair == local_.queue_pair)
    return rdmc::fail(Errc::invalid_argument, "a queue pair does not connect to itself");
  if (peer->host_id != local_.host_id)
    return rdmc::fail(Errc::unsupported, "the peer is on another host, or in another network namespace");
  if (peer->user != local_.user)
    return rdmc::fail(Errc::unsupported, "the peer's process belongs to another user");
  peer_ = *peer;
  if (dials()) {
    if (auto dialled = dial(); !dialled && dialled.error().code == Errc::would_block) {
      dial_at_ = Time{};
    } else if (!dialled) {
      fail(WorkStatus::retry_exceeded, dialled.error().what);
      return dialled;
    }
  } else if (early_hello_) {
    auto hello = std::move(*early_hello_);
    early_hello_.reset();
    if (auto known = on_hello(hello); !known) {
      fail(WorkStatus::retry_exceeded, known.error().what);
      return known;
    }
  }
  return {};
}

/// True on the side that dials. This is the side with the smaller token.
bool ShmQueuePair::dials() const {
  return local_.queue_pair < peer_->queue_pair;
}

Result<void> ShmQueuePair::dial() {
  auto socket = LocalSocket::dial(peer_->listener);
  if (!socket) return std::unexpected(socket.error());
  socket_ = std::move(*socket);
  if (auto said = send_hello(); !said) return said;
  return watch_socket();
}

void ShmQueuePair::dial_again(Time now) {
  dial_at_ = Time::never();
  const auto dialled = dial();
  if (dialled) return;
  if (dialled.error().code != Errc::would_block)
    return fail(WorkStatus::retry_exceeded, dialled.error().what);
  dial_at_ = now + kDialAgain;
}

Result<void> ShmQueuePair::watch_socket() {
  auto watched = fabric_.watch_->watch(socket_.descriptor(), serial_);
  if (watched && socket_.process_end()) watched = fabric_.watch_->watch(socket_.process_end(), serial_);
  return watched;
}

Result<void> ShmQueuePair::send_hello() {
  const std::array<int, 2> memory{memory_.descriptor().get(), fabric_.doorbell_.descriptor().get()};
  const auto sent = socket_.send({.kind = MessageKind::hello,
                                  .to = peer_->queue_pair,
                                  .from = local_.queue_pair,
                                  .a = reinterpret_cast<std::uint64_t>(&probe_),
                                  .b = probe_},
                                 memory);
  if (!sent) return std::unexpected(sent.error());
  if (!*sent) return rdmc::fail(Errc::resource_limit, "no room for a greeting to a peer on this host");
  return {};
}

void ShmQueuePair::visit(LocalSocket socket, LocalSocket::Received hello) {
  if (socket_ || failed_ || (peer_ && dials()))
    // This is a second or unwanted connection. Its other side sees that it is closed.
    return;
  socket_ = std::move(socket);
  if (!peer_) {
    early_hello_ = std::move(hello);
    return;
  }
  if (auto known = on_hello(hello); !known) fail(WorkStatus::retry_exceeded, known.error().what);
}

Result<void> ShmQueuePair::on_hello(LocalSocket::Received& hello) {
  const Message& message = hello.message;
  if (peer_memory_ || message.kind != MessageKind::hello || message.to != local_.queue_pair ||
      message.from != peer_->queue_pair)
    return rdmc::fail(Errc::protocol_error, "a greeting that is not the peer's");
  auto memory = memory::SharedPages::attach(std::move(hello.descriptors[0]), sizeof(shm::QueueMemory),
                                            memory::SharedPages::Peers::may_read);
  if (!memory) return std::unexpected(memory.error());
  auto doorbell = shm::Doorbell::attach(std::move(hello.descriptors[1]));
  if (!doorbell) return std::unexpected(doorbell.error());
  peer_memory_ = std::move(*memory);
  peer_doorbell_ = std::move(*doorbell);
  std::uint64_t number = 0;
  const bool readable = fabric_.options_.read_processes &&
                        shm::read_process(socket_.process(), message.a,
                                          std::as_writable_bytes(std::span(&number, 1))) == sizeof number;
  ours_.control.reads_processes.store(readable && number == message.b, std::memory_order_release);
  requester_.attach(peers());
  responder_.attach(peers());
  if (dials()) return {};
  if (auto said = send_hello(); !said) return said;
  return watch_socket();
}

void ShmQueuePair::on_socket() {
  if (failed_ || !peer_ || !socket_) return;
  // The end of the process is checked before the messages are read. So all messages that the process sent
  // before its end are read.
  const bool ended = socket_.has_process_ended();
  const auto done = read_socket(kMessagesPerTurn);
  if (ended || (!done && done.error().code == Errc::peer_failed)) return on_hang_up();
  if (!done) return fail(WorkStatus::retry_exceeded, done.error().what);
  (void)watch_socket();
}

Result<void> ShmQueuePair::read_socket(std::size_t most) {
  for (std::size_t taken = 0; taken < most; ++taken) {
    auto received = socket_.receive();
    if (!received) return std::unexpected(received.error());
    if (!*received) return {};
    LocalSocket::Received& news = **received;
    Result<void> done;
    switch (news.message.kind) {
      case MessageKind::hello: done = on_hello(news); break;
      case MessageKind::arena: done = on_arena(news); break;
      case MessageKind::ring: break;
      case MessageKind::pages: done = on_pages(news); break;
      case MessageKind::forget: done = on_forget(news.message); break;
      default: done = rdmc::fail(Errc::protocol_error, "an unknown message from the peer on this host");
    }
    if (!done) return done;
  }
  return {};
}

// The last actions of the peer still count: the peer may have refused a request, or completed a request that
// is in flight here.
void ShmQueuePair::on_hang_up() {
  requester_.turn();
  check_cores();
  if (failed_) return;
  const auto closed = peer_memory_ ? peers().control.closed.load() : 0;
  peer_left_ = static_cast<shm::Closed>(closed) == shm::Closed::left;
  socket_.close();
  if (!peer_left_) fail(WorkStatus::retry_exceeded, "the peer has gone");
}

Result<void> ShmQueuePair::on_arena(LocalSocket::Received& arena) {
  const auto number = static_cast<std::uint32_t>(arena.message.a);
  if (peer_arenas_.size() == kMostArenas || peer_arenas_.contains(number))
    return rdmc::fail(Errc::protocol_error, "too many pieces of memory from the peer on this host");
  auto pages = memory::SharedPages::attach(std::move(arena.descriptors[0]), arena.message.b,
                                           memory::SharedPages::Peers::may_read);
  if (!pages) return std::unexpected(pages.error());
  peer_arenas_.emplace(number, std::make_shared<const memory::SharedPages>(std::move(*pages)));
  return {};
}

std::shared_ptr<const PeerMemory> ShmQueuePair::peer_memory() const {
  if (ours_.control.reads_processes.load(std::memory_order_relaxed) == 0 || !socket_.process_end())
    return nullptr;
  Descriptor end(fcntl(socket_.process_end().get(), F_DUPFD_CLOEXEC, 0));
  return end ? std::make_shared<shm::ProcessMemory>(socket_.process(), std::move(end)) : nullptr;
}

bool ShmQueuePair::share_pages(const memory::SharedPages& pages) {
  const int descriptor = pages.descriptor().get();
  if (!socket_) return false;
  const auto sent = socket_.send({.kind = MessageKind::pages, .a = pages.bytes().size()}, {&descriptor, 1});
  return sent && *sent;
}

Result<void> ShmQueuePair::on_pages(LocalSocket::Received& received) {
  if (shared_pages_) return rdmc::fail(Errc::protocol_error, "shared memory that nobody has asked for");
  auto pages = memory::SharedPages::attach(std::move(received.descriptors[0]), received.message.a,
                                           memory::SharedPages::Peers::may_write);
  if (!pages) return std::unexpected(pages.error());
  shared_pages_ = std::move(*pages);
  return {};
}

Result<void> ShmQueuePair::on_forget(const Message& forget) {
  if (peer_arenas_.erase(static_cast<std::uint32_t>(forget.a)) == 0)
    return rdmc::fail(Errc::protocol_error, "the peer takes back memory that it never offered");
  return {};
}

/// Reports to the peer which arenas are gone in this process, except arenas that an unfinished request names.
/// The peer keeps the pages of an arena until it receives this message.
void ShmQueuePair::forget_arenas() {
  std::erase_if(arenas_sent_, [&](const auto& sent) {
    if (fabric_.arenas_.is_alive(sent.first) || !requester_.is_handled(sent.second)) return false;
    const auto told = socket_.send({.kind = MessageKind::forget, .a = sent.first}, {});
    return told && *told;
  });
}

/// Sends the arena to the peer, unless the peer has it. Returns true if the peer has the arena, or will have
/// it before the request that names it.
bool ShmQueuePair::send_arena(const shm::LocalArenas::Found& arena) {
  if (arenas_sent_.contains(arena.number)) return true;
  forget_arenas();
  if (arenas_sent_.size() == kMostArenas) return false;
  const int descriptor = arena.pages->descriptor().get();
  const auto sent = socket_.send(
      {.kind = MessageKind::arena, .a = arena.number, .b = arena.pages->bytes().size()}, {&descriptor, 1});
  return sent && *sent;
}

/// Finds the arena that contains `bytes`, and makes sure that the peer knows this arena. The caller must name
/// the arena in the next request or offer.
std::optional<shm::LocalArenas::Found> ShmQueuePair::named_arena(std::span<const std::byte> bytes) {
  auto found = fabric_.arenas_.find(bytes);
  if (!found || !send_arena(*found)) return std::nullopt;
  arenas_sent_[found->number] = requester_.posted() + 1;
  return found;
}

std::optional<MappingOffer> ShmQueuePair::offer_mapping(std::span<const std::byte> bytes) {
  if (failed_) return std::nullopt;
  const auto found = named_arena(bytes);
  return found ? std::optional(MappingOffer{found->number, found->offset}) : std::nullopt;
}

Result<MappedMemory> ShmQueuePair::map(const MappingOffer& offer, std::uint64_t bytes) {
  auto pages = peer_arena(offer.arena);
  if (!pages) return std::unexpected(pages.error());
  const std::span<const std::byte> all = (*pages)->bytes();
  if (offer.offset > all.size() || bytes > all.size() - offer.offset)
    return rdmc::fail(Errc::protocol_error, "a view beyond the peer's memory");
  return MappedMemory{all.subspan(offer.offset, bytes), std::move(*pages)};
}

/// Returns the peer's arena with this number. If it is not known yet, reads further messages from the socket:
/// an arena is sent before a request first names it. Errors: protocol_error if the arena was not sent, and
/// the errors of the socket.
Result<std::shared_ptr<const memory::SharedPages>> ShmQueuePair::peer_arena(std::uint32_t number) {
  auto found = peer_arenas_.find(number);
  if (found == peer_arenas_.end()) {
    if (auto read = read_socket(kMessagesBeforeArena); !read) return std::unexpected(read.error());
    found = peer_arenas_.find(number);
    if (found == peer_arenas_.end())
      return rdmc::fail(Errc::protocol_error, "memory that the peer has not offered");
  }
  return found->second;
}

std::optional<shm::PayloadLocator> ShmQueuePair::offer(std::span<const std::byte> bytes) {
  if (const auto found = named_arena(bytes))
    return shm::PayloadLocator{shm::Source::arena, found->number, found->offset};
  if (bytes.size() >= kLeastFromProcess &&
      peers().control.reads_processes.load(std::memory_order_acquire) != 0)
    return shm::PayloadLocator{shm::Source::process, 0, reinterpret_cast<std::uint64_t>(bytes.data())};
  return std::nullopt;
}

shm::PayloadSource::Outcome ShmQueuePair::pull(const shm::PayloadLocator& locator, std::uint64_t offset,
                                               std::span<std::byte> to, std::size_t extent) {
  switch (locator.source) {
    case shm::Source::arena: return pull_from_arena(locator, offset, to, extent);
    case shm::Source::process: return pull_from_process(locator.where + offset, to);
    default: return Outcome::malformed;
  }
}

shm::PayloadSource::Outcome ShmQueuePair::pull_from_arena(const shm::PayloadLocator& locator,
                                                          std::uint64_t offset, std::span<std::byte> to,
                                                          std::size_t extent) {
  const auto arena = peer_arena(locator.arena);
  if (!arena) return arena.error().code == Errc::peer_failed ? Outcome::gone : Outcome::malformed;
  const auto bytes = (*arena)->bytes();
  if (locator.where > bytes.size() || offset > bytes.size() - locator.where ||
      to.size() > bytes.size() - locator.where - offset)
    return Outcome::malformed;
  const auto from = bytes.subspan(locator.where + offset, to.size());
  if (extent <= shm::cached_bytes())
    shm::copy_through_cache(to, from);
  else
    shm::copy_past_cache(to, from);
  fabric_.counters_.bytes_from_arenas += to.size();
  return Outcome::copied;
}

// After the peer's process has ended, its process id may belong to another process. Then the socket has ended
// too, which is checked after the copy.
shm::PayloadSource::Outcome ShmQueuePair::pull_from_process(std::uint64_t address, std::span<std::byte> to) {
  if (ours_.control.reads_processes.load(std::memory_order_relaxed) == 0) return Outcome::malformed;
  if (shm::read_process(socket_.process(), address, to) != to.size() || !socket_ || socket_.is_hung_up())
    return Outcome::gone;
  fabric_.counters_.bytes_from_processes += to.size();
  return Outcome::copied;
}

}  // namespace rdmc::fabric
