#include "lib/group/peers.hpp"

#include <algorithm>
#include <cassert>
#include <new>

namespace rdmc::group {

Peers::Peers(fabric::Fabric& fabric, const PeersConfig& config)
    : fabric_(fabric), config_(config), early_(config.early) {}

Peers::~Peers() {
  assert(by_name_.empty());
}

Link* Peers::find(PeerId peer) const {
  const auto found = std::ranges::find_if(links_, [&](const Entry& e) { return e.link->peer() == peer; });
  return found == links_.end() ? nullptr : found->link.get();
}

GroupPart* Peers::find(const GroupName& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : parts_[found->second];
}

Result<Link*> Peers::link_to(PeerId peer) {
  if (Link* const known = find(peer)) return known;
  auto made = Link::create(fabric_, peer, config_.link);
  if (!made) return std::unexpected(made.error());
  // Reserved now, so that losing a link needs no memory.
  lost_.reserve(lost_.size() + links_.size() + 1);
  links_.push_back({.link = std::move(*made), .number = links_made_ + 1});
  ++links_made_;
  return links_.back().link.get();
}

Result<fabric::ConnectionBlob> Peers::offer(PeerId peer) {
  const auto link = link_to(peer);
  if (!link) return std::unexpected(link.error());
  return (*link)->local_blob();
}

Result<void> Peers::connect(PeerId peer, std::span<const std::byte> blob) {
  Link* const link = find(peer);
  if (link == nullptr) {
    return fail(Errc::not_found,
                "nothing was offered to peer " + std::to_string(value_of(peer)) + ", nor has a group asked");
  }
  auto connected = link->connect(blob);
  if (connected && config_.counts != nullptr) config_.counts->connections_made += 1;
  return connected;
}

bool Peers::is_connected(PeerId peer) const {
  const Link* const link = find(peer);
  return link != nullptr && link->is_connected();
}

std::optional<std::uint64_t> Peers::host_of(PeerId peer) const {
  const Link* const link = find(peer);
  if (link == nullptr || !link->is_connected() || link->peer_host() == 0) return std::nullopt;
  return link->peer_host();
}

bool Peers::is_quiet() const {
  return std::ranges::all_of(links_, [](const Entry& entry) { return entry.link->is_quiet(); });
}

void Peers::disconnect(PeerId peer, const Error& cause, std::uint64_t made) {
  const auto found = std::ranges::find_if(links_, [&](const Entry& e) { return e.link->peer() == peer; });
  if (found != links_.end() && found->number <= made) lose(*found->link, cause);
}

void Peers::disconnect_all(const Error& cause) {
  while (!links_.empty()) lose(*links_.back().link, cause);
}

/// Closes the link, and then informs the groups. At that time, the peer cannot access anything any more, and
/// the link's own memory still exists.
void Peers::lose(Link& link, const Error& cause) {
  const auto found = std::ranges::find_if(links_, [&](const Entry& e) { return e.link.get() == &link; });
  if (found == links_.end()) return;
  if (config_.counts != nullptr && (link.is_connected() || link.has_failed()))
    config_.counts->connections_ended += 1;
  link.shut();
  lost_.push_back(std::move(found->link));
  links_.erase(found);
  early_.forget(link.peer());
  for (std::uint32_t i = 0; i < parts_end_; ++i) {
    if (parts_[i] != nullptr && parts_[i]->uses(link)) parts_[i]->on_link_lost(link, cause);
  }
}

void Peers::on_out_of_memory() {
  for (std::uint32_t i = 0; i < parts_end_; ++i) {
    if (parts_[i] != nullptr) parts_[i]->on_out_of_memory();
  }
}

Result<std::uint32_t> Peers::add(GroupPart& part) {
  const auto text = [&] {
    return "group " + std::to_string(part.name().number) + ", epoch " + std::to_string(part.name().epoch);
  };
  if (by_name_.contains(part.name())) return fail(Errc::already_exists, text() + ", is there already");
  if (early_.is_over(part.name()))
    return fail(Errc::already_exists, text() + ", is over: take another epoch");
  const auto free = std::ranges::find(parts_, nullptr);
  if (free == parts_.end())
    return fail(Errc::resource_limit, "more than " + std::to_string(kMostGroups) + " groups");
  newcomers_.reserve(newcomers_.size() + 1);
  by_name_.emplace(part.name(), static_cast<std::uint32_t>(free - parts_.begin()));
  *free = &part;  // Nothing fails from here on.
  const auto index = static_cast<std::uint32_t>(free - parts_.begin());
  parts_end_ = std::max(parts_end_, index + 1);
  newcomers_.push_back(part.name());
  early_.forget_before(part.name());
  return index;
}

void Peers::remove(GroupPart& part) {
  const auto found = by_name_.find(part.name());
  assert(found != by_name_.end() && parts_[found->second] == &part);
  parts_[found->second] = nullptr;
  by_name_.erase(found);
  try {
    early_.set_over(part.name());
  } catch (const std::bad_alloc&) {  // In this case late records are kept for a while, like early records.
  }
}

}  // namespace rdmc::group
