// Where views are agreed. A store keeps one view of each group and replaces it only by the one of the next
// epoch, so that of several proposals for one epoch exactly one ever stands. It detects nothing and is asked
// for nothing while nobody fails. Implementations own their connections and live on one control loop;
// answers come later, on the loop's thread, never from inside a call.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "controlplane/view/types.hpp"
#include "dataplane/base/error.hpp"

namespace rdmc::view {

struct SwapResult {
  bool swapped = false;
  View current;  ///< what stands now
};

/// Beside a group's view stands a second record of the same kind, for who asks whether any member lives: its
/// members are those that ask, or nobody once a member has answered. Stores keep it under a name of its own.
enum class StoreEntry : std::uint8_t { view, claim };
inline constexpr std::string_view kClaimSuffix = "?claim";
inline std::string name_of(StoreEntry entry, const std::string& group) {
  return entry == StoreEntry::view ? group : group + std::string(kClaimSuffix);
}
inline bool is_claim(const std::string& name) {
  return name.ends_with(kClaimSuffix);
}

struct GroupView {
  std::string group;
  View view;
};

class ViewStore {
 public:
  using ReadDone = std::move_only_function<void(Result<View>)>;
  using SwapDone = std::move_only_function<void(Result<SwapResult>)>;
  using ListDone = std::move_only_function<void(Result<std::vector<GroupView>>)>;
  using Hint = std::move_only_function<void(std::optional<Epoch>)>;

  virtual ~ViewStore() = default;

  /// The view that stands: no older than any that stood, or was answered to anybody, when this was called
  /// (linearizable). Epoch 0 when the group is not known. Errors: peer_failed or timed_out (no store could be
  /// asked), corrupt (what it keeps is no view), authentication.
  virtual void read(const std::string& group, ReadDone done) = 0;

  /// Puts `next` in the place of the view of the epoch before; of nothing, when its epoch is 1. Swapped is
  /// false when another view stands. After an error it may have been done all the same: read. Errors: as
  /// read's, and invalid_argument (epoch 0).
  virtual void compare_and_swap(const std::string& group, const View& next, SwapDone done) = 0;

  /// `hint` is called when the group's view may have changed, with the epoch of the one that stands if that
  /// is known; soon, not at once: who swaps tells those concerned. It may be called for nothing, and a change
  /// may be missed: whoever relies on it reads, and reads now and then without. Once for each group.
  virtual void watch(const std::string& group, Hint hint) = 0;

  /// All groups, ordered by name. Errors: as read's.
  virtual void list(ListDone done) = 0;
};

}  // namespace rdmc::view
