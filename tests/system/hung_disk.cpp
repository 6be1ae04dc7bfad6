// A library to preload into an agent. It acts like a disk that never answers: fsync creates a mark file,
// which shows the test that fsync was called, and does not return.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

extern "C" int fsync(int) {
  if (const char* const mark = std::getenv("RDMC_HUNG_DISK_MARK")) ::open(mark, O_CREAT | O_WRONLY, 0600);
  for (;;) ::pause();
}
