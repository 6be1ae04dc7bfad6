// Preloaded into a receiver, it makes every write at an offset take long, as a bad disk would: no file system
// that a test can have without privileges does.
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

extern "C" {

ssize_t pwrite64(int fd, const void* bytes, size_t count, off64_t offset) {
  const timespec delay{0, 40'000'000};
  ::nanosleep(&delay, nullptr);
  return ::syscall(SYS_pwrite64, fd, bytes, count, offset);
}
}
