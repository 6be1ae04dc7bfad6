#include "controlplane/store/caspaxos/view_register.hpp"

#include "controlplane/view/messages.hpp"

namespace rdmc::store {

Proposer::Change swap_to(const view::View& next) {
  return [next](const Accepted& current) -> std::optional<Bytes> {
    const auto stands = view_in(current);
    if (!stands || next.epoch != view::next(stands->epoch)) return std::nullopt;
    return view::encode_view(next);
  };
}

Result<view::View> view_in(const Accepted& accepted) {
  if (accepted.empty()) return view::View{};
  auto view = view::decode_view(accepted.value);
  if (!view) return fail(Errc::corrupt, "the store keeps something that is no view: it " + view.error().what);
  return view;
}

}  // namespace rdmc::store
