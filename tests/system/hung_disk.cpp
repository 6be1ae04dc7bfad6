// A library that is preloaded into an agent. It acts as a disk that never answers: fsync creates a mark file
// and then never returns. The mark file shows the test that fsync was called.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

extern "C" int fsync(int) {
  if (const char* const mark = std::getenv("RDMC_HUNG_DISK_MARK")) ::open(mark, O_CREAT | O_WRONLY, 0600);
  for (;;) ::pause();
}
