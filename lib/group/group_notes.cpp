// The notes that members send to the root in addition to their reports. A note is sent in pieces up the tree.
// Each member sends the pieces on to its own parent.
#include <algorithm>

#include "lib/group/group.hpp"

namespace rdmc::group {
namespace {

constexpr std::size_t kPieceBytes = 2048;  // Every ring has space for several pieces.

}  // namespace

void Group::tell_root(std::span<const std::byte> bytes) {
  while (bytes.size() > kPieceBytes) {
    add_note(config_.rank, bytes.first(kPieceBytes), false);
    bytes = bytes.subspan(kPieceBytes);
  }
  add_note(config_.rank, bytes, true);
}

void Group::add_note(Rank from, std::span<const std::byte> bytes, bool is_last) {
  notes_.push_back({.from = from, .is_last = is_last, .bytes = {bytes.begin(), bytes.end()}});
}

// A member's own notes are not counted, because only the notes of other members can be too many.
Result<void> Group::on_note(Edge& edge, const Note& note) {
  const auto at = static_cast<std::size_t>(&edge - edges_.data());
  if (std::ranges::find(tree_children_, at) == tree_children_.end() ||
      value_of(note.from) >= config_.members.size() || value_of(note.from) == 0)
    return rdmc::fail(Errc::protocol_error, "a note that does not come up the tree");
  if ((note_bytes_[note.from] += note.bytes.size()) > kMostNoteBytes)
    return rdmc::fail(Errc::protocol_error, "a note that is too long");
  if (!is_root()) {
    add_note(note.from, note.bytes, note.is_last);
    return {};
  }
  auto& parts = note_parts_[note.from];
  parts.insert(parts.end(), note.bytes.begin(), note.bytes.end());
  if (!note.is_last) return {};
  const auto whole = std::move(parts);
  note_parts_.erase(note.from);
  note_bytes_.erase(note.from);
  observer_.told(note.from, whole);
  return {};
}

std::size_t Group::pass_notes() {
  std::size_t done = 0;
  for (; !notes_.empty(); notes_.pop_front(), ++done) {
    const KeptNote& next = notes_.front();
    if (!edges_[*tree_parent_].link->send(config_.name, Note{next.from, next.is_last, next.bytes})) break;
    if (next.from != config_.rank) note_bytes_[next.from] -= next.bytes.size();
  }
  return done;
}

}  // namespace rdmc::group
