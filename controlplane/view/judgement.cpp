#include "controlplane/view/judgement.hpp"

namespace rdmc::view {
namespace {

/// Members with a say about `subject`.
std::vector<MemberId> voters(const View& view, const Testimony& testimony, MemberId subject) {
  std::vector<MemberId> result;
  for (const Member& member : view.members)
    if (member.id != subject && (member.id == testimony.self || testimony.hears.contains(member.id)))
      result.push_back(member.id);
  return result;
}

const Row* row_of(const Testimony& testimony, MemberId id) {
  if (id == testimony.self) return &testimony.hears;
  const auto found = testimony.rows.find(id);
  return found == testimony.rows.end() ? nullptr : &found->second;
}

/// `row` of nobody yet heard about this view complains of nobody.
bool complains(const Row* row, MemberId of) {
  return row != nullptr && !row->contains(of);
}

}  // namespace

Judgement judge(const View& view, const Testimony& testimony) {
  Judgement judgement;
  std::size_t present = 0, staying = 0;
  for (const Member& member : view.members) {
    const bool gone = testimony.gone.contains(member.id);
    const Row* const own = row_of(testimony, member.id);
    std::size_t bad = 0;
    const auto all = voters(view, testimony, member.id);
    for (const MemberId voter : all)
      bad += complains(row_of(testimony, voter), member.id) || complains(own, voter) ? 1 : 0;
    const bool stays = !gone && bad * 2 <= all.size();
    if (!stays) judgement.removed.insert(member.id);
    if (stays && member.id == testimony.self) judgement.turn = staying;
    present += gone ? 0 : 1;
    staying += stays ? 1 : 0;
  }
  // The last one closes the door.
  if (staying == 0 && testimony.gone.contains(testimony.self)) judgement.turn = 0;
  judgement.minority = staying * 2 < present;
  return judgement;
}

bool may_join(const View& view, const Testimony& testimony, MemberId joiner, const Row& row) {
  std::size_t good = 0;
  const auto all = voters(view, testimony, joiner);
  for (const MemberId voter : all) {
    const Row* const of_voter = row_of(testimony, voter);
    good += of_voter != nullptr && of_voter->contains(joiner) && row.contains(voter) ? 1 : 0;
  }
  return good * 2 > all.size();
}

}  // namespace rdmc::view
