// The requests to etcd's HTTP/JSON gateway (v3), and its answers. Requests are JSON texts. Keys and values in
// them are encoded in base64. Every field of an answer is checked, because the process that listens at the
// address need not be etcd. The functions have no state. Any thread may call them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "controlplane/view/types.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::store {

/// The value of a key. If the key does not exist, the epoch and the revision are 0.
struct EtcdEntry {
  std::string key;
  view::View view;
  std::int64_t revision = 0;  ///< The revision of the key's last change (mod_revision).
};

struct EtcdSwap {
  bool swapped = false;
  EtcdEntry entry;  ///< The current value. After a successful swap, only its revision is set.
};

/// Return the body of a /v3/kv/range request, for one key or for all keys that begin with `prefix`.
std::string range_request(std::string_view key);
std::string prefix_request(std::string_view prefix);
/// Returns the body of a /v3/kv/txn request. The transaction writes `view` if the revision of the key's last
/// change is `revision`. The value 0 means that the key must not exist. If the comparison fails, the
/// transaction reads the key.
std::string swap_request(std::string_view key, std::int64_t revision, const view::View& view);
/// Returns the body of a /v3/watch request for one key.
std::string watch_request(std::string_view key);

/// Parse the answer to a request. Errors: protocol_error if the answer is not from etcd, corrupt if a value
/// is no view.
Result<std::vector<EtcdEntry>> parse_range(std::string_view answer);
Result<EtcdSwap> parse_swap(std::string_view answer);
/// Returns the epoch that an event of a watch reports. Returns nullopt if `piece` is another message, or only
/// a part of a message.
std::optional<Epoch> watched_epoch(std::string_view piece);
/// Returns etcd's error message for people, or the beginning of `answer` if there is none.
std::string error_text(std::string_view answer);

}  // namespace rdmc::store
