// Lets a test access files without the rights of their owner.
#pragma once

#include <sys/fsuid.h>
#include <sys/types.h>

namespace rdmc::port::dpdk::testing {

/// While this object exists, the calling thread accesses files with the rights of an unprivileged user. If
/// the process does not run as root, it keeps its own rights. The tests still work in this case, because the
/// owner of a file can remove its own rights to the file.
class OtherUser {
 public:
  OtherUser() : before_(setfsuid(kNobody)) {}
  ~OtherUser() { setfsuid(static_cast<uid_t>(before_)); }
  OtherUser(const OtherUser&) = delete;
  OtherUser& operator=(const OtherUser&) = delete;

 private:
  static constexpr uid_t kNobody = 65534;
  int before_;
};

}  // namespace rdmc::port::dpdk::testing
