// The reports by which the replicas of a rank compare what they send. Reports go to the other replicas of the
// rank, whatever the replication protocol is. They are deferred like acknowledgements.
#include "lib/replica/messenger.hpp"

namespace rdmc::replica {

void Messenger::note_sent(Rank to, const Envelope& envelope, std::span<const std::byte> bytes) {
  comparison_.note_sent(
      {.context = envelope.context, .rank = to, .tag = envelope.tag},
      {.bytes = bytes.size(), .digest = options_.verification.digest(envelope.context, envelope.tag, bytes)});
  if (comparison_.has_many_unreported()) begin_reports();
}

void Messenger::begin_reports() {
  comparison_.begin_reports();
  for_each_replica(comparison_.due(), [&](std::uint32_t replica) {
    const ProcessId to = protocol_->process(own_rank_, replica);
    if (peer(to).failure) return;
    peer(to).is_reporting = true;
    pump(to);
  });
}

// Sends the reports that are due. Returns false if there is no space.
bool Messenger::send_reports(ProcessId to) {
  const std::uint32_t replica = protocol_->replica(to).replica;
  while (const auto report = comparison_.next_report(replica)) {
    const auto room = carrier_->room(to, encoded_bytes(*report));
    if (room.empty()) return false;
    carrier_->fill(to, encode(*report, room));
    ++counters_.reports;
    comparison_.note_reported(replica);
  }
  peer(to).is_reporting = false;
  return true;
}

void Messenger::end_sends() {
  if (!comparison_.is_active()) return;
  comparison_.end();
  begin_reports();
}

Result<void> Messenger::handle(ProcessId from, const SendReport& report) {
  if (rank_of(from) != own_rank_ || value_of(report.channel.rank) >= rank_failures_.size() ||
      report.channel.rank == own_rank_)
    return fail(Errc::protocol_error, "a report that is not for this rank");
  // All messages of a channel that was forgotten have been compared.
  if (has_ended(report.channel.context) && !comparison_.knows(report.channel)) return {};
  return comparison_.on_report(protocol_->replica(from).replica, report);
}

Result<void> Messenger::handle(ProcessId from, const SendsEnded&) {
  if (rank_of(from) != own_rank_) return fail(Errc::protocol_error, "the end of the sends of another rank");
  comparison_.on_ended(protocol_->replica(from).replica);
  return {};
}

}  // namespace rdmc::replica
