// What a replicated store keeps: a view of each group, changed by commands that every replica applies in one
// order, so that all come to the same. Pure; one thread.
#pragma once

#include <map>
#include <string>

#include "controlplane/view/view_store.hpp"

namespace rdmc::store {

/// Puts `next` in the place of the view of the epoch before.
struct SwapCommand {
  std::string group;
  view::View next;
};

/// Names of groups and their claims: 1 to this many bytes.
inline constexpr std::size_t kMaxGroupBytes = view::kMaxGroupBytes + view::kClaimSuffix.size();

class ViewMap {
 public:
  view::SwapResult apply(const SwapCommand& command);
  view::View read(const std::string& group) const;
  std::vector<view::GroupView> list() const;
  std::size_t size() const { return views_.size(); }

  /// All of it, for a snapshot.
  view::Bytes encode() const;
  /// Errors: corrupt; nothing has changed then.
  Result<void> restore(std::span<const std::byte> bytes);

 private:
  std::map<std::string, view::View> views_;
};

view::Bytes encode(const SwapCommand& command);
/// Errors: corrupt.
Result<SwapCommand> decode_command(std::span<const std::byte> bytes);

}  // namespace rdmc::store
