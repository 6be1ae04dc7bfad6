// Preloaded into an agent, this is a disk that never answers: fsync leaves a mark, for the test to see that
// it has come so far, and does not return.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>

extern "C" int fsync(int) {
  if (const char* const mark = std::getenv("RDMC_HUNG_DISK_MARK")) ::open(mark, O_CREAT | O_WRONLY, 0600);
  for (;;) ::pause();
}
