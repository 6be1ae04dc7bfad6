// One epoch at a receiver: form, connect, move data, end.
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
          .completed = [](Epoch) {},
          .failed =
              [weak](Epoch epoch, std::optional<Rank> peer, const Error& error) {
                if (const auto self = weak.lock()) self->on_data_failed(epoch, peer, error);
              }};
}

void Reception::handle(session::FormRequested& request) {
  auto parameters = decode_parameters(request.parameters, job_.shape);
  if (!parameters) return give_up(std::move(parameters.error()));
  if (!file_) return give_up({Errc::protocol_error, "the coordinator formed an epoch for a dry run"});
  const EpochPlan plan{.algorithm = parameters->algorithm,
                       .members = static_cast<std::uint32_t>(request.members.size()),
                       .block_bytes = job_.shape.block_size,
                       .message_bytes = VirtualBlocks(job_.shape, parameters->blocks).size(),
                       .give_up_after = parameters->suspect_after};
  epoch_blocks_ = std::move(parameters->blocks);
  data_plane_->form(
      request.epoch, request.rank, plan,
      [weak = weak_from_this(), epoch = request.epoch](Result<std::vector<session::PeerBlob>> blobs) {
        const auto self = weak.lock();
        if (!self) return;
        if (blobs)
          self->participant_.local_blobs(epoch, *blobs, monotonic_now());
        else
          self->give_up(std::move(blobs.error()));
        self->pump();
      });
}

void Reception::handle(session::PeersReady& peers) {
  data_plane_->connect(std::move(peers.blobs),
                       [weak = weak_from_this(), epoch = peers.epoch](Result<void> connected) {
                         const auto self = weak.lock();
                         if (!self) return;
                         if (connected)
                           self->participant_.local_ready(epoch, monotonic_now());
                         else if (connected.error().code != Errc::peer_failed)  // that is a suspicion by now
                           self->give_up(std::move(connected.error()));
                         self->pump();
                       });
}

void Reception::handle(const session::StartData&) {
  auto sink = FileSink::start(*file_, epoch_blocks_, data_plane_->ring(),
                              [plane = data_plane_.get()] { plane->wake(); });
  if (!sink) return give_up(std::move(sink.error()));
  sink_ = std::move(*sink);
  data_plane_->start(*sink_, [weak = weak_from_this()](Result<void> started) {
    const auto self = weak.lock();
    if (!self || started) return;
    self->give_up(std::move(started.error()));
    self->pump();
  });
}

void Reception::handle(const session::EndData& end) {
  tear_down([weak = weak_from_this(), epoch = end.epoch] {
    if (const auto self = weak.lock(); self && self->file_)
      self->participant_.ended_state(epoch, encode_held(self->file_->held()), monotonic_now());
  });
}

void Reception::on_delivered(Epoch epoch) {
  if (!file_) return;  // the job has ended meanwhile
  const auto digest = file_->digest();
  if (!digest) return give_up({Errc::io_error, "the file is not whole although every block has come"});
  outcome_.event.digest = to_hex(*digest);
  const auto now = monotonic_now();
  participant_.progress(job_.shape.size, now);
  participant_.delivered(epoch, encode(*digest), now);
  pump();
}

void Reception::on_data_failed(Epoch epoch, std::optional<Rank> peer, const Error& error) {
  if (peer)
    participant_.suspect(epoch, *peer, error.what, monotonic_now());
  else
    give_up(error);
  pump();
}

}  // namespace rdmc::bcast
