// Writes a copy of the state to a file while the server goes on: a forked child has the state as it was, and
// writes it. One thread uses it.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "apps/replicated-kv/log/forked_child.hpp"
#include "apps/replicated-kv/log/frames.hpp"
#include "dataplane/base/descriptor.hpp"

namespace rdmc::kv {

class Copier {
 public:
  using Save = std::function<void(const std::function<void(std::vector<std::byte>)>&)>;

  /// Begins to write a copy to an empty file. None must be on its way. Errors: those of fork().
  Result<void> begin(Descriptor file, const FileHead& head, const Save& save);
  /// Is readable when finished() has something. It is another one for each copy, and -1 if there is none.
  int descriptor() const { return child_.descriptor(); }
  /// Returns the result: the length of the file, which is on disk then. Errors: those of the file system.
  std::optional<Result<std::uint64_t>> finished();
  /// Ends a copy that is on its way.
  void stop();
  bool is_busy() const { return child_.is_running(); }

 private:
  ForkedChild child_;
  Descriptor file_;  // of the copy
};

}  // namespace rdmc::kv
