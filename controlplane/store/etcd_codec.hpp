// What is said to etcd's HTTP/JSON gateway (v3): requests as JSON texts with keys and values in base64, and
// answers with every field checked, since what listens there need not be etcd. Stateless; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "controlplane/view/types.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::store {

/// What stands under a key. Without one: epoch 0, revision 0.
struct EtcdEntry {
  std::string key;
  view::View view;
  std::int64_t revision = 0;  ///< of the key's last change (mod_revision)
};

struct EtcdSwap {
  bool swapped = false;
  EtcdEntry entry;  ///< what stands now; after a swap only its revision
};

/// /v3/kv/range of one key, or of all that begin with `prefix`.
std::string range_request(std::string_view key);
std::string prefix_request(std::string_view prefix);
/// /v3/kv/txn: puts `view` if the key's last change is that `revision` (0: there is no key); else reads it.
std::string swap_request(std::string_view key, std::int64_t revision, const view::View& view);
/// /v3/watch of one key.
std::string watch_request(std::string_view key);

/// Errors: protocol_error (not etcd's words), corrupt (a value that is no view).
Result<std::vector<EtcdEntry>> parse_range(std::string_view answer);
Result<EtcdSwap> parse_swap(std::string_view answer);
/// The epoch that an event of a watch shows; nothing when it has another form, or is in pieces.
std::optional<Epoch> watched_epoch(std::string_view piece);
/// What etcd says of its error, for people; else the begin of `answer`.
std::string error_text(std::string_view answer);

}  // namespace rdmc::store
