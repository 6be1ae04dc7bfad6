#include "controlplane/store/store_messages.hpp"

#include "controlplane/view/messages.hpp"

// Generated code does not hold our warning level.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "controlplane/store/store.pb.h"
#pragma GCC diagnostic pop

namespace rdmc::store {
namespace {

template <typename Wire>
view::Bytes serialize(const Wire& from) {
  view::Bytes bytes(from.ByteSizeLong());
  from.SerializeToArray(bytes.data(), static_cast<int>(bytes.size()));
  return bytes;
}

void store(wire::GroupView& to, const std::string& group, const view::View& view) {
  const view::Bytes bytes = view::encode_view(view);
  to.set_group(group);
  to.set_view(bytes.data(), bytes.size());
}

bool is_group(const std::string& name) {
  return !name.empty() && name.size() <= kMaxGroupBytes;
}

Result<view::GroupView> load(const wire::GroupView& from) {
  auto view = view::decode_view(std::as_bytes(std::span(from.view())));
  if (!view) return std::unexpected(view.error());
  if (!is_group(from.group())) return fail(Errc::protocol_error, "sent a group without a proper name");
  return view::GroupView{from.group(), std::move(*view)};
}

template <typename Repeated>
Result<std::vector<view::GroupView>> load_all(const Repeated& from) {
  std::vector<view::GroupView> groups;
  for (const wire::GroupView& group : from) {
    auto loaded = load(group);
    if (!loaded) return std::unexpected(loaded.error());
    groups.push_back(std::move(*loaded));
  }
  return groups;
}

template <typename Wire>
Result<Wire> parse(std::span<const std::byte> bytes) {
  Wire to;
  if (!to.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return fail(Errc::protocol_error, "sent a malformed message about stored views");
  return to;
}

std::unexpected<Error> corrupt(const Error& error) {
  return fail(Errc::corrupt, "the store's log: somebody " + error.what);
}

}  // namespace

view::Bytes encode(const SwapCommand& command) {
  wire::GroupView to;
  store(to, command.group, command.next);
  return serialize(to);
}

Result<SwapCommand> decode_command(std::span<const std::byte> bytes) {
  const auto from = parse<wire::GroupView>(bytes);
  if (!from) return corrupt(from.error());
  auto group = load(*from);
  if (!group) return corrupt(group.error());
  return SwapCommand{std::move(group->group), std::move(group->view)};
}

view::Bytes ViewMap::encode() const {
  wire::Snapshot to;
  for (const auto& [group, view] : views_) store(*to.add_groups(), group, view);
  return serialize(to);
}

Result<void> ViewMap::restore(std::span<const std::byte> bytes) {
  const auto from = parse<wire::Snapshot>(bytes);
  if (!from) return corrupt(from.error());
  auto groups = load_all(from->groups());
  if (!groups) return corrupt(groups.error());
  views_.clear();
  for (view::GroupView& group : *groups) views_[group.group] = std::move(group.view);
  return {};
}

view::Bytes encode(const Request& request) {
  wire::Request to;
  to.set_id(request.id);
  if (const auto* const read = std::get_if<ReadRequest>(&request.body)) to.set_read(read->group);
  if (const auto* const swap = std::get_if<SwapCommand>(&request.body))
    store(*to.mutable_swap(), swap->group, swap->next);
  if (std::holds_alternative<ListRequest>(request.body)) to.set_list(true);
  if (const auto* const watch = std::get_if<WatchRequest>(&request.body)) to.set_watch(watch->group);
  return serialize(to);
}

Result<Request> decode_request(std::span<const std::byte> bytes) {
  const auto from = parse<wire::Request>(bytes);
  if (!from) return std::unexpected(from.error());
  const auto of_group = [&](const std::string& group, auto body) -> Result<Request> {
    if (!is_group(group)) return fail(Errc::protocol_error, "asked for a group without a proper name");
    return Request{from->id(), std::move(body)};
  };
  switch (from->body_case()) {
    case wire::Request::kRead: return of_group(from->read(), ReadRequest{from->read()});
    case wire::Request::kWatch: return of_group(from->watch(), WatchRequest{from->watch()});
    case wire::Request::kList: return Request{from->id(), ListRequest{}};
    case wire::Request::kSwap: {
      auto group = load(from->swap());
      if (!group) return std::unexpected(group.error());
      return Request{from->id(), SwapCommand{std::move(group->group), std::move(group->view)}};
    }
    case wire::Request::BODY_NOT_SET: break;
  }
  return fail(Errc::protocol_error, "asked the store for something unknown");
}

view::Bytes encode(const Reply& reply) {
  wire::Reply to;
  to.set_id(reply.id);
  to.set_swapped(reply.swapped);
  for (const auto& [group, view] : reply.groups) store(*to.add_groups(), group, view);
  to.set_hint(reply.hint);
  to.set_refused(reply.refused);
  return serialize(to);
}

Result<Reply> decode_reply(std::span<const std::byte> bytes) {
  const auto from = parse<wire::Reply>(bytes);
  if (!from) return std::unexpected(from.error());
  auto groups = load_all(from->groups());
  if (!groups) return std::unexpected(groups.error());
  return Reply{from->id(), from->swapped(), std::move(*groups), from->hint(), from->refused()};
}

}  // namespace rdmc::store
