// The interface of a view store, in which views are agreed. A store keeps one view of each group, and
// replaces it only by the view of the next epoch. So of several proposals for one epoch exactly one is ever
// accepted. A store detects no failures, and is not needed while nothing fails. Implementations own their
// connections and run on one control loop. Answers come later on the loop's thread, never from inside a call.
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
  View current;  ///< The view that the store has now.
};

/// The kind of a store entry. Beside a group's view, a store keeps the group's liveness query (`claim`),
/// which also has the form of a view. Its members are the joiners that ask whether any member is alive. It
/// has no members once a member has answered. Stores keep it under a name of its own.
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

  /// Reads the view of a group. It is no older than any view that the store had, or had given to any client,
  /// when this was called (linearizable). Its epoch is 0 if the group is unknown. Errors: peer_failed or
  /// timed_out if the store could not be asked, corrupt if the stored value is no view, authentication.
  virtual void read(const std::string& group, ReadDone done) = 0;

  /// Replaces the view of the epoch before by `next`. If the epoch of `next` is 1, there must be no view yet.
  /// `swapped` is false if the store has another view. After an error the view may nevertheless have been
  /// replaced, so the caller must read. Errors: those of read, and invalid_argument if the epoch is 0.
  virtual void compare_and_swap(const std::string& group, const View& next, SwapDone done) = 0;

  /// `hint` is called when the group's view may have changed, with the epoch of the new view if it is known.
  /// It is called soon, but not at once, because the proposer itself informs the members. It may be called
  /// without cause, and a change may be missed. So the caller must also read at intervals, without a hint.
  /// Must be called at most once for each group.
  virtual void watch(const std::string& group, Hint hint) = 0;

  /// Reads all groups, ordered by name. Errors: those of read.
  virtual void list(ListDone done) = 0;
};

}  // namespace rdmc::view
