// Writes a copy of the state to a file while the server goes on: a child process, made by fork(), has the
// state as it was, and writes it. One thread uses it.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <vector>

#include "apps/replicated-kv/log/frames.hpp"
#include "dataplane/base/descriptor.hpp"

namespace rdmc::kv {

class Copier {
 public:
  using Save = std::function<void(const std::function<void(std::vector<std::byte>)>&)>;

  ~Copier() { stop(); }
  /// Begins to write a copy to an empty file. None must be on its way. Errors: those of fork().
  Result<void> begin(Descriptor file, const FileHead& head, const Save& save);
  /// Is readable when finished() has something. It is another one for each copy, and -1 if there is none.
  int descriptor() const { return child_.get(); }
  /// Returns the result: the length of the file, which is on disk then. Errors: those of the file system.
  std::optional<Result<std::uint64_t>> finished();
  /// Ends a copy that is on its way.
  void stop();
  bool is_busy() const { return static_cast<bool>(child_); }

 private:
  Descriptor child_, file_;  // a pidfd, and the file of the copy
  pid_t pid_ = 0;
};

}  // namespace rdmc::kv
