// One epoch at a receiver, in four steps: form, connect, move data, end.
#include <utility>

#include "apps/bcast-cli/reception.hpp"
#include "dataplane/base/clock.hpp"

namespace rdmc::bcast {

DataPlane::Events Reception::data_plane_events() {
  const auto weak = weak_from_this();
  return {.delivered =
              [weak](Epoch epoch) {
                if (const auto self = weak.lock()) self->on_delivered(epoch);
              },
          .failed = plane_answers().failed()};
}

void Reception::handle(session::FormRequested& request) {
  auto parameters = decode_parameters(request.parameters, job_.shape);
  if (!parameters) return give_up(std::move(parameters.error()));
  if (!file_) return give_up({Errc::protocol_error, "the coordinator formed an epoch for a dry run"});
  const auto members = static_cast<std::uint32_t>(request.members.size());
  if (parameters->racks.is_known() && parameters->racks.members() != members)
    return give_up({Errc::protocol_error, "an epoch whose racks have another number of members"});
  if (parameters->stragglers >= members)
    return give_up({Errc::protocol_error, "an epoch of nobody but stragglers"});
  const EpochPlan plan{.algorithm = parameters->algorithm,
                       .members = members,
                       .racks = parameters->racks,
                       .stragglers = parameters->stragglers,
                       .block_bytes = job_.shape.block_size,
                       .message_bytes = VirtualBlocks(job_.shape, parameters->blocks).size(),
                       .suspect_after = parameters->suspect_after};
  epoch_blocks_ = std::move(parameters->blocks);
  wishes_ = {parameters->algorithm, parameters->suspect_after, racks_of(request.members, parameters->racks)};
  is_source_ = request.rank == session::kRootRank;
  is_straggler_ = value_of(request.rank) >= members - plan.stragglers;
  data_plane_->form(request.epoch, request.rank, plan, plane_answers().to_form(request.epoch));
}

void Reception::handle(session::PeersReady& peers) {
  data_plane_->connect(std::move(peers.blobs), plane_answers().to_connect(peers.epoch));
}

/// Makes the store for the epoch. The store is a sink for the blocks. If other members lack blocks that this
/// member sends, the store is a source.
Result<group::Store*> Reception::make_store() {
  const auto wake = [plane = data_plane_.get()] { plane->wake(); };
  if (!is_source_) {
    auto sink = FileSink::start(*file_, epoch_blocks_, data_plane_->ring(), wake, unwanted_.get_token(),
                                is_straggler_);
    if (!sink) return std::unexpected(sink.error());
    sink_ = std::move(*sink);
    return sink_.get();
  }
  if (!(epoch_blocks_ & file_->held().complement()).ranges().empty())
    return fail(Errc::protocol_error, "an epoch that sends what its source does not have");
  auto own = SourceFile::of(*file_);
  if (!own) return std::unexpected(own.error());
  own_source_ = std::move(*own);
  auto source = FileSource::start(*own_source_, epoch_blocks_, data_plane_->ring(),
                                  {.limit_rate = job_.limit_rate, .wake = wake, .announce = {}});
  if (!source) return std::unexpected(source.error());
  source_ = std::move(*source);
  return source_.get();
}

void Reception::handle(const session::StartData& start) {
  const auto store = make_store();
  if (!store) return give_up(store.error());
  data_plane_->start(**store, [weak = weak_from_this()](Result<void> started) {
    const auto self = weak.lock();
    if (!self || started) return;
    self->give_up(std::move(started.error()));
    self->pump();
  });
  watch_ = DataWatch::start(
      loop_, *data_plane_,
      [weak = weak_from_this(), epoch = start.epoch](const DataPlaneProxy::Standing& standing) {
        const auto self = weak.lock();
        if (!self) return;
        self->participant_.waits(epoch, standing.wait, monotonic_now());
        self->participant_.lags(epoch, standing.lagging, monotonic_now());
        self->pump();
      });
}

void Reception::handle(const session::EndData& end) {
  tear_down([weak = weak_from_this(), epoch = end.epoch] {
    const auto self = weak.lock();
    if (!self || !self->file_) return;
    self->in_background([file = self->file_.get()] { return file->whole_digest(); },
                        [epoch](Reception& ended, Result<std::optional<Digest>> digest) {
                          if (!digest) return ended.give_up(std::move(digest.error()));
                          if (!ended.file_) return;
                          std::optional<session::Bytes> report;
                          if (*digest) report = encode(**digest);
                          if (*digest) ended.outcome_.event.digest = to_hex(**digest);
                          ended.participant_.ended_state(epoch, encode_held(ended.file_->held()),
                                                         std::move(report), monotonic_now());
                        });
  });
}

void Reception::on_delivered(Epoch epoch) {
  if (!file_ || is_source_) return;  // The job has ended, or this member is the source.
  const auto now = monotonic_now();
  const auto digest = file_->digest();
  if (digest) {
    outcome_.event.digest = to_hex(*digest);
    participant_.progress(job_.shape.size, now);
    participant_.delivered(epoch, encode(*digest), now);
  } else {
    participant_.complete(epoch, now);
  }
  pump();
}

}  // namespace rdmc::bcast
