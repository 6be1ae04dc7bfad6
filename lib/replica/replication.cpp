#include "lib/replica/replication.hpp"

#include <string>

namespace rdmc::replica {
namespace {

class Sdr final : public ReplicationProtocol {
 public:
  Sdr(const Layout& layout, const ReplicaId& self) : ReplicationProtocol(layout, self) {}

  ReplicaSet acknowledged(Rank source, std::uint32_t from) const override {
    return living(source) & ~set_of(from);
  }
  std::unique_ptr<ReplicationProtocol> copy() const override { return std::make_unique<Sdr>(*this); }

 private:
  /// The replica of this process's rank that sends to replica `receiver` of any rank. The next living one
  /// takes the place of a dead one (Algorithm 1, lines 19 to 27). If the receiver's rank has more replicas,
  /// the senders take turns.
  std::uint32_t sender_to(std::uint32_t receiver) const {
    const std::uint32_t degree = layout().degree(self().rank);
    std::uint32_t sender = receiver % degree;
    while ((living(self().rank) & set_of(sender)) == 0) sender = (sender + 1) % degree;
    return sender;
  }
  Roles roles(Rank to) const override {
    Roles roles;
    for_each_replica(living(to), [&](std::uint32_t receiver) {
      (sender_to(receiver) == self().replica ? roles.receivers : roles.acknowledging) |= set_of(receiver);
    });
    return roles;
  }
};

class Mirror final : public ReplicationProtocol {
 public:
  Mirror(const Layout& layout, const ReplicaId& self) : ReplicationProtocol(layout, self) {}

  ReplicaSet acknowledged(Rank, std::uint32_t) const override { return 0; }
  std::unique_ptr<ReplicationProtocol> copy() const override { return std::make_unique<Mirror>(*this); }

 private:
  Roles roles(Rank to) const override { return {.receivers = living(to), .acknowledging = 0}; }
};

}  // namespace

ReplicationProtocol::ReplicationProtocol(const Layout& layout, const ReplicaId& self)
    : layout_(layout), self_(self), roles_(layout.ranks()) {
  for (std::uint32_t rank = 0; rank < layout.ranks(); ++rank) {
    const std::uint32_t degree = layout.degree(Rank{rank});
    living_.push_back(~ReplicaSet{0} >> (kMostDegree - degree));
    for (std::uint32_t i = 0; i < degree; ++i) replicas_.push_back({.rank = Rank{rank}, .replica = i});
  }
}

void ReplicationProtocol::on_died(const ReplicaId& dead) {
  living_[value_of(dead.rank)] &= ~set_of(dead.replica);
  update();
}

void ReplicationProtocol::on_replaced(const ReplicaId& replaced) {
  living_[value_of(replaced.rank)] |= set_of(replaced.replica);
  update();
}

void ReplicationProtocol::become(const ReplicaId& self) {
  self_ = self;
  update();
}

void ReplicationProtocol::update() {
  for (std::uint32_t rank = 0; rank < layout_.ranks(); ++rank) roles_[rank] = roles(Rank{rank});
}

Result<std::unique_ptr<ReplicationProtocol>> make_protocol(std::string_view name, const Layout& layout,
                                                           const ReplicaId& self) {
  if (layout.most_degree() > kMostDegree)
    return fail(Errc::unsupported, "a rank can have " + std::to_string(kMostDegree) + " replicas at most");
  std::unique_ptr<ReplicationProtocol> made;
  if (name == "sdr")
    made = std::make_unique<Sdr>(layout, self);
  else if (name == "mirror")
    made = std::make_unique<Mirror>(layout, self);
  else
    return fail(Errc::unsupported, "there is no replication protocol \"" + std::string(name) + "\"");
  made->update();
  return made;
}

}  // namespace rdmc::replica
