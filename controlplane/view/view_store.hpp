// The interface of a view store, in which views are agreed. A store keeps one view of each group, and
// replaces a view only by the view of the next epoch. So of several proposals for one epoch, the store
// accepts exactly one. A store detects no failures, and is not needed while nothing fails. The
// implementations own their connections, and run on one control loop. Their answers are delivered later on
// the loop's thread, and never from inside a call.
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
  View current;  ///< The view that is in the store after the operation.
};

/// The kind of a store entry. In addition to a group's view, a store keeps the group's liveness query
/// (`claim`), which also has the form of a view. Its members are the joiners that ask whether any member is
/// alive. After a member has answered, it has no members. Stores keep the liveness query under a name of its
/// own.
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

  /// Reads the view of a group. The result is at least as new as every view that the store had, or that any
  /// client had got from it, when this function was called (linearizable). The epoch of the result is 0 if
  /// the group is unknown. Errors: peer_failed or timed_out if the store could not be asked, corrupt if the
  /// stored value is no view, authentication.
  virtual void read(const std::string& group, ReadDone done) = 0;

  /// Replaces the view of the preceding epoch by `next`. If the epoch of `next` is 1, the store must not have
  /// a view yet. `swapped` is false if the store has another view. After an error the view may nevertheless
  /// have been replaced, so the caller must read. Errors: those of read, and invalid_argument if the epoch is
  /// 0.
  virtual void compare_and_swap(const std::string& group, const View& next, SwapDone done) = 0;

  /// Sets a function for watch notifications. `hint` is called when the group's view may have changed. Its
  /// argument is the epoch of the new view, if this epoch is known. `hint` is called soon, but not at once,
  /// because the proposer itself informs the members. `hint` may be called without cause, and a change may be
  /// missed. So the caller must also read at intervals. watch() must be called at most once for each group.
  virtual void watch(const std::string& group, Hint hint) = 0;

  /// Reads all groups, ordered by name. Errors: those of read.
  virtual void list(ListDone done) = 0;
};

}  // namespace rdmc::view
