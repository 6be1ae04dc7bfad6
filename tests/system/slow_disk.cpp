// A library that is preloaded into a receiver. It makes every write at an offset slow, as on a bad disk. A
// library is used because no file system that a test can mount without privileges is slow.
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
