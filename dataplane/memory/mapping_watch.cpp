#include "dataplane/memory/mapping_watch.hpp"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <utility>

#include "dataplane/base/signal_masked_thread.hpp"
#include "dataplane/memory/arena.hpp"

namespace rdmc::memory {
namespace {

const std::byte* at(std::uint64_t address) {
  return reinterpret_cast<const std::byte*>(address);
}

}  // namespace

Result<std::unique_ptr<MappingWatch>> MappingWatch::open() {
  // Handling page faults that happen in the kernel would need a privilege. This watch causes no page faults,
  // so faults in user mode are enough.
  Descriptor fault(static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY)));
  if (!fault) return fail(Errc::unsupported, "this kernel has no userfaultfd for us");
  std::unique_ptr<MappingWatch> self(new MappingWatch(std::move(fault), Descriptor(eventfd(0, EFD_CLOEXEC))));
  uffdio_api api{.api = UFFD_API,
                 .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_EVENT_REMAP |
                             UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_UNMAP,
                 .ioctls = 0};
  if (ioctl(self->fault_.get(), UFFDIO_API, &api) != 0)
    return fail(Errc::unsupported, "this kernel does not tell of unmapped memory");
  if (!self->stop_) return fail_errno("eventfd", errno);
  // Signals are blocked in this thread: a signal handler might unmap memory, and then wait for this same
  // thread.
  auto thread = start_signal_masked_thread("to watch mappings", [watch = self.get()] {
    pthread_setname_np(pthread_self(), "rdmc-mappings");
    watch->listen();
  });
  if (!thread) return std::unexpected(thread.error());
  self->thread_ = std::move(*thread);
  return self;
}

MappingWatch::~MappingWatch() {
  // A forked child keeps the userfaultfd open. If memory stayed watched, a thread that unmaps this memory
  // would wait forever. So the watch of all memory must end here. The listening thread is still running at
  // this point, and it closes the descriptor itself before it ends. The reason is that the end of a thread
  // may have to wait for another thread that unmaps memory, and this other thread may wait until the
  // descriptor is closed.
  for (const Range& range : watched_) unregister(range);
  if (thread_.joinable()) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = write(stop_.get(), &one, sizeof one);
    thread_.join();
  }
}

Result<void> MappingWatch::watch(std::span<const std::byte> memory) {
  if (memory.empty()) return {};
  if (const std::scoped_lock lock(mutex_); dead_) return fail(Errc::unsupported, "the watch has ended");
  const Range range = pages_around(memory);
  uffdio_register wanted{.range = {.start = range.begin, .len = range.end - range.begin},
                         .mode = UFFDIO_REGISTER_MODE_WP,
                         .ioctls = 0};
  if (ioctl(fault_.get(), UFFDIO_REGISTER, &wanted) != 0)
    return fail(Errc::unsupported, "the kernel does not watch this memory");
  if (std::ranges::find(watched_, range) == watched_.end()) watched_.push_back(range);
  return {};
}

void MappingWatch::unwatch(std::span<const std::byte> memory) {
  if (memory.empty()) return;
  const Range range = pages_around(memory);
  if (std::erase(watched_, range) != 0) unregister(range);
}

MappingWatch::Range MappingWatch::pages_around(std::span<const std::byte> memory) {
  const auto begin = reinterpret_cast<std::uint64_t>(memory.data());
  return {begin / kPageBytes * kPageBytes, round_up_to_page(begin + memory.size())};
}

void MappingWatch::unregister(const Range& range) {
  uffdio_range gone{.start = range.begin, .len = range.end - range.begin};
  // This call fails if the memory is no longer mapped, which does no harm.
  ioctl(fault_.get(), UFFDIO_UNREGISTER, &gone);
}

void MappingWatch::listen() {
  std::array<pollfd, 2> watched{{{.fd = fault_.get(), .events = POLLIN, .revents = 0},
                                 {.fd = stop_.get(), .events = POLLIN, .revents = 0}}};
  for (;;) {
    const int ready = poll(watched.data(), watched.size(), -1);
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0 || watched[1].revents != 0) break;
    const std::scoped_lock lock(mutex_);
    uffd_msg event{};
    while (read(fault_.get(), &event, sizeof event) == sizeof event) {
      switch (event.event) {
        case UFFD_EVENT_UNMAP:
        case UFFD_EVENT_REMOVE: note(event.arg.remove.start, event.arg.remove.end); break;
        case UFFD_EVENT_REMAP: note(event.arg.remap.from, event.arg.remap.from + event.arg.remap.len); break;
        default: break;
      }
    }
  }
  // The destructor uses the userfaultfd before it writes to the eventfd. So this thread closes the
  // userfaultfd only after it has read the eventfd. Without the read, poll() alone would not order the
  // actions of the two threads.
  if (watched[1].revents != 0) {
    std::uint64_t stopped = 0;
    [[maybe_unused]] const auto bytes = read(stop_.get(), &stopped, sizeof stopped);
  }
  const std::scoped_lock lock(mutex_);
  dead_ = true;
  fault_.reset();
}

void MappingWatch::note(std::uint64_t begin, std::uint64_t end) {
  if (gone_.count == Gone::kRoom) {
    gone_.everything = true;
  } else {
    gone_.ranges[gone_.count++] = {at(begin), at(end)};
  }
}

MappingWatch::Gone MappingWatch::take() {
  const std::scoped_lock lock(mutex_);
  if (dead_) gone_.everything = true;
  if (gone_.count == 0 && !gone_.everything) return {};
  return std::exchange(gone_, {});
}

bool MappingWatch::Gone::touches(std::span<const std::byte> memory) const {
  const std::less<const std::byte*> before;
  return everything || std::ranges::any_of(std::span(ranges).first(count), [&](const auto& range) {
           return before(range.data(), memory.data() + memory.size()) &&
                  before(memory.data(), range.data() + range.size());
         });
}

}  // namespace rdmc::memory
