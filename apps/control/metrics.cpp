#include "apps/control/metrics.hpp"

#include <algorithm>

#include "apps/control/view_json.hpp"
#include "apps/program/exposition.hpp"

namespace rdmc::control_app {
namespace {

void expose(Exposition& to, const control::IdentityWatch& identity) {
  to.gauge("rdmc_identity_readable",
           "0 while the key file, or the certificates, cannot be read and what was read before is in use",
           identity.readable() ? 1 : 0);
  to.counter("rdmc_identity_failures_total", "How often they ceased to be readable", identity.failures());
}

}  // namespace

std::string exposition(const std::string& group, const membership::Membership& membership,
                       const control::IdentityWatch& identity) {
  const view::FailureView& core = membership.view();
  const view::FailureView::Counters& views = core.counters();
  const membership::Counters links = membership.counters();
  const bool member = core.state() == view::FailureView::State::member;
  Exposition to({{"group", group}});
  to.gauge("rdmc_view_epoch", "Epoch of the newest view that is known to be agreed",
           static_cast<double>(value_of(core.view().epoch)));
  to.gauge("rdmc_view_members", "Members of that view", static_cast<double>(core.view().members.size()));
  to.gauge("rdmc_view_is_member", "1 while this process is in it", member ? 1 : 0);
  to.gauge("rdmc_store_up", "0 while the store does not answer and the view cannot change",
           core.store_reachable() ? 1 : 0);
  auto& suspicion =
      to.gauges("rdmc_member_suspicion", "Suspicion level (phi) of each other member, at most 300");
  auto& reachable =
      to.gauges("rdmc_member_reachable",
                "0 while the link to that member is bad in at least one direction, and it stays in the view");
  for (const view::Member& one : core.view().members) {
    if (one.id == core.self().id) continue;
    const prometheus::Labels labels{{"member", id_text(one.id)}, {"name", one.name}};
    suspicion.Add(labels).Set(std::max(0.0, core.level(one.id)));
    reachable.Add(labels).Set(core.reaches(one.id) ? 1 : 0);
  }
  to.gauge("rdmc_lease_held", "1 while this process may serve what its view gives to it",
           membership.holds_lease(core.view().epoch) ? 1 : 0);
  to.counter("rdmc_leases_lost_total", "How often its lease has ended without being renewed",
             views.leases_lost);
  to.counter("rdmc_unreachable_total", "How often the link to a member that stayed has become bad",
             views.unreachable);
  to.counter("rdmc_view_changes_total", "Views that this process has installed", links.installed);
  to.counter("rdmc_view_proposals_total", "Views that it has proposed", views.proposals);
  to.counter("rdmc_view_conflicts_total", "Proposals that another one had come before", views.conflicts);
  to.counter("rdmc_suspicions_total", "Members that it ceased to hear", views.suspicions);
  to.gauge("rdmc_absence_longest_seconds",
           "Longest time in which this process did not listen to the others, because it was not running",
           static_cast<double>(views.longest_absence.ns) / 1e9);
  to.counter("rdmc_address_claims_denied_total",
             "How often a joiner named a member's address and was not found to listen there",
             views.address_claims_denied);
  to.counter("rdmc_deaths_seen_total", "Deaths that an operating system has told of", links.deaths_seen);
  to.counter("rdmc_store_failures_total", "Requests that the store has not answered", views.store_failures);
  to.counter("rdmc_connections_refused_total", "Control connections that were refused", links.refused);
  to.counter("rdmc_data_paths_refused_total",
             "Processes of another group, or of which one side encrypts and the other does not",
             links.mismatched);
  to.counter("rdmc_messages_fenced_total", "Messages of an epoch that was over", links.fenced);
  to.counter("rdmc_messages_dropped_total", "Messages that came faster than they were taken in",
             links.dropped);
  to.counter("rdmc_packets_refused_total", "Packets of nobody that we are connected to",
             links.packets_refused);
  expose(to, identity);
  return to.text();
}

std::string exposition(std::size_t node, const Pulse::Latest& pulse, const control::IdentityWatch& identity) {
  const store::NodeStatus& status = pulse.status;
  const bool up = pulse.node_answers;
  Exposition to({{"node", std::to_string(node)}});
  to.gauge("rdmc_node_up", "0 while its thread does not go round, or its disk does not answer", up ? 1 : 0);
  to.gauge("rdmc_node_serves", "1 while it takes part in agreements",
           up && status.stage == store::Stage::serving ? 1 : 0);
  to.gauge("rdmc_node_epoch",
           "Of the configuration of nodes: each node that lost its state begins another one",
           static_cast<double>(status.epoch));
  to.gauge("rdmc_node_groups", "Groups, and claims to one, whose views it keeps",
           static_cast<double>(status.groups));
  to.counter("rdmc_node_proposals_accepted_total", "Views that it has accepted since it started",
             status.accepted);
  to.counter("rdmc_node_proposals_overtaken_total", "Proposals that a higher ballot had come before",
             status.overtaken);
  to.gauge("rdmc_node_clients", "Connections of clients and other nodes",
           static_cast<double>(status.clients));
  to.gauge("rdmc_node_watches", "Groups that they watch", static_cast<double>(status.watches));
  to.counter("rdmc_node_requests_total", "What clients and other nodes have asked", status.requests);
  auto& refused = to.counters("rdmc_node_connections_refused_total", "Connections that were refused");
  for (const Errc reason : {Errc::authentication, Errc::version_mismatch, Errc::protocol_error,
                            Errc::timed_out, Errc::peer_failed, Errc::resource_limit}) {
    const auto found = status.refused.find(reason);
    refused.Add({{"reason", std::string(name(reason))}})
        .Increment(found == status.refused.end() ? 0 : static_cast<double>(found->second));
  }
  expose(to, identity);
  return to.text();
}

}  // namespace rdmc::control_app
