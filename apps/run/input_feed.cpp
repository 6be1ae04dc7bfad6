#include "apps/run/input_feed.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <utility>

namespace rdmc::run {
namespace {

/// The file gives back its beginning in pieces of this length.
constexpr std::uint64_t kGiveBackBytes = 1 << 20;
/// The largest number of bytes in a pipe, unless an administrator has changed it (fs.pipe-max-size).
constexpr std::uint64_t kMostPipeBytes = 1 << 20;

Descriptor temporary_file() {
  const char* const folder = std::getenv("TMPDIR");
  Descriptor file(::open(folder != nullptr ? folder : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file) file = Descriptor(::memfd_create("rdmc-input", MFD_CLOEXEC));
  return file;
}

}  // namespace

InputFeed::InputFeed(Poller& poller, int source, std::function<void(const Error&)> failed)
    : poller_(poller), source_(source), failed_(std::move(failed)) {}

InputFeed::~InputFeed() {
  while (!readers_.empty()) remove(readers_.begin()->first);
}

void InputFeed::add(std::uint32_t replica, Descriptor pipe) {
  readers_[replica].pipe = std::move(pipe);
}

void InputFeed::begin() {
  has_begun_ = true;
  watch_source();
}

void InputFeed::copy(std::uint32_t replica, std::uint32_t parent, Descriptor pipe) {
  const auto found = readers_.find(parent);
  if (found == readers_.end()) return;
  const Reader& original = found->second;
  // The copy gets the end of the input at once if the parent has closed its own.
  if (!original.pipe && !original.probe) return;
  int unread = 0;
  ::ioctl(original.pipe ? original.pipe.get() : original.probe.get(), FIONREAD, &unread);
  Reader& made = readers_[replica];
  made = Reader{.pipe = std::move(pipe), .offset = original.offset - static_cast<std::uint64_t>(unread)};
  feed_all();
}

void InputFeed::remove(std::uint32_t replica) {
  const auto found = readers_.find(replica);
  if (found == readers_.end()) return;
  if (found->second.pipe) poller_.remove(found->second.pipe.get());
  readers_.erase(found);
  watch_source();
}

/// The replica gets nothing more. If it has got all, its pipe can still have bytes that it has not read.
void InputFeed::end(Reader& reader) {
  if (reader.offset == size_) {
    const std::string path = "/proc/self/fd/" + std::to_string(reader.pipe.get());
    reader.probe = Descriptor(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  }
  poller_.remove(reader.pipe.get());
  reader.pipe.reset();
}

bool InputFeed::wants() const {
  return has_begun_ && !has_ended_ && std::ranges::any_of(readers_, [this](const auto& one) {
           return one.second.pipe && size_ - one.second.offset < kAheadBytes;
         });
}

void InputFeed::watch_source() {
  const bool is_wanted = wants();
  if (is_always_ready_ || is_wanted == is_watched_) return;
  is_watched_ = is_wanted;
  if (!is_wanted)
    poller_.remove(source_);
  else if (!poller_.add(source_, EPOLLIN, [this] { read_some(); }))
    is_always_ready_ = true;
}

void InputFeed::read_some() {
  std::array<char, 64 << 10> bytes;
  const ssize_t got = ::read(source_, bytes.data(), bytes.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got < 0) return fail_with(fail_errno("cannot read the standard input", errno).error());
  if (got == 0) {
    has_ended_ = true;
  } else {
    if (!store_) store_ = temporary_file();
    for (ssize_t done = 0; done < got;) {
      const ssize_t written = ::pwrite(store_.get(), bytes.data() + done,
                                       static_cast<std::size_t>(got - done), static_cast<off_t>(size_));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return fail_with(fail_errno("cannot store the standard input", errno).error());
      done += written;
      size_ += static_cast<std::uint64_t>(written);
    }
  }
  feed_all();
}

void InputFeed::feed_all() {
  for (auto& [replica, reader] : readers_)
    if (reader.pipe && !reader.waits && !feed(replica, reader)) end(reader);
  give_back();
  watch_source();
}

/// Writes as much as the replica takes. Returns false if it gets nothing more.
bool InputFeed::feed(std::uint32_t replica, Reader& reader) {
  std::array<char, 64 << 10> bytes;
  while (reader.offset < size_) {
    const auto most = std::min<std::uint64_t>(bytes.size(), size_ - reader.offset);
    const ssize_t got = ::pread(store_.get(), bytes.data(), most, static_cast<off_t>(reader.offset));
    if (got <= 0) {
      if (got < 0 && errno == EINTR) continue;
      fail_with(fail_errno("cannot read the stored input", got < 0 ? errno : EIO).error());
      return false;
    }
    const ssize_t written = ::write(reader.pipe.get(), bytes.data(), static_cast<std::size_t>(got));
    if (written > 0) {
      reader.offset += static_cast<std::uint64_t>(written);
    } else if (errno == EAGAIN) {
      if (reader.waits) return true;
      reader.waits = poller_.add(reader.pipe.get(), EPOLLOUT, [this, replica] {
        Reader& ready = readers_.at(replica);
        poller_.remove(ready.pipe.get());
        ready.waits = false;
        feed_all();
      });
      return true;
    } else if (errno != EINTR) {
      return false;  // The replica has closed its standard input.
    }
  }
  return !has_ended_;
}

void InputFeed::give_back() {
  std::uint64_t least = size_;
  for (const auto& [replica, reader] : readers_)
    if (reader.pipe || reader.probe) least = std::min(least, reader.offset);
  // A replica that is forked may need again what is still in a pipe.
  least -= std::min(least, kMostPipeBytes);
  const std::uint64_t end = least / kGiveBackBytes * kGiveBackBytes;
  if (end <= given_) return;
  // If the file system cannot do this, the file only needs more space.
  ::fallocate(store_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(given_),
              static_cast<off_t>(end - given_));
  given_ = end;
}

void InputFeed::fail_with(Error error) {
  if (std::exchange(has_ended_, true)) return;
  watch_source();
  failed_(error);
}

}  // namespace rdmc::run
