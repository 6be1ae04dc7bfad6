// Whose files these are not.
#pragma once

#include <sys/fsuid.h>
#include <sys/types.h>

namespace rdmc::port::dpdk::testing {

/// The calling thread has the rights of nobody in particular, as to files, while it is there. Where it was
/// not root it keeps its own: a file's owner can take the rights to it from himself.
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
