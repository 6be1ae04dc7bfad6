#include "controlplane/view/judgement.hpp"

namespace rdmc::view {
namespace {

const Row* row_of(const Testimony& testimony, MemberId id) {
  if (id == testimony.self) return &testimony.hears;
  const auto found = testimony.rows.find(id);
  return found == testimony.rows.end() ? nullptr : &found->second;
}

/// A member whose opinion about other members counts, and its row if the row is known.
struct Voter {
  MemberId id;
  const Row* row;
};

std::vector<Voter> voters(const View& view, const Testimony& testimony) {
  std::vector<Voter> result;
  for (const Member& member : view.members)
    if (member.id == testimony.self || testimony.hears.contains(member.id))
      result.push_back({member.id, row_of(testimony, member.id)});
  return result;
}

/// True if the owner of `row` does not hear `of`, and this complaint counts. A null row complains about no
/// member.
bool complains(const Testimony& testimony, const Row* row, MemberId of) {
  return row != nullptr && !row->contains(of) && !testimony.returned.contains(of);
}

}  // namespace

Judgement judge(const View& view, const Testimony& testimony) {
  Judgement judgement;
  std::size_t present = 0, staying = 0;
  const auto all = voters(view, testimony);
  for (const Member& member : view.members) {
    const bool gone = testimony.gone.contains(member.id);
    const Row* const own = row_of(testimony, member.id);
    std::size_t bad = 0, of = 0;
    for (const Voter& voter : all) {
      if (voter.id == member.id || testimony.doubtful.contains(voter.id)) continue;
      ++of;
      bad += complains(testimony, voter.row, member.id) || complains(testimony, own, voter.id) ? 1 : 0;
    }
    const bool stays = !gone && bad * 2 <= of;
    if (!stays) judgement.removed.insert(member.id);
    if (stays && member.id == testimony.self) judgement.turn = staying;
    present += gone ? 0 : 1;
    staying += stays ? 1 : 0;
  }
  // If all members leave, the last one may propose its own removal.
  if (staying == 0 && testimony.gone.contains(testimony.self)) judgement.turn = 0;
  judgement.minority = staying * 2 < present;
  return judgement;
}

bool may_join(const View& view, const Testimony& testimony, MemberId joiner, const Row& row) {
  std::size_t good = 0;
  const auto all = voters(view, testimony);
  for (const Voter& voter : all)
    good += voter.row != nullptr && voter.row->contains(joiner) && row.contains(voter.id) ? 1 : 0;
  return good * 2 > all.size();
}

}  // namespace rdmc::view
