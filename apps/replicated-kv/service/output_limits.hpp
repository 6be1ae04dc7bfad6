// The parameter client-output-buffer-limit: how many bytes may wait for a client that does not read them. The
// text is that of Redis: for each class of clients its name, the hard limit, the soft limit, and the seconds
// for which the soft limit may be exceeded. The functions are pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "apps/replicated-kv/data/database.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::kv {

struct OutputLimits {
  /// 0 means that there is no limit.
  struct Class {
    std::size_t hard = 0, soft = 0;
    Milliseconds patience = 0;
  };
  Class normal, replica, pubsub;

  /// Changes the classes that `text` names. Errors: invalid_argument, with the text of Redis.
  Result<void> set(std::string_view text);
  std::string text() const;
};

}  // namespace rdmc::kv
