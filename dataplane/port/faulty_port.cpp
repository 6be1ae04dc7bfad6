#include "dataplane/port/faulty_port.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace rdmc::port {

FaultyPort::FaultyPort(Port& inner, const sim::FaultRates& rates, std::uint64_t seed, Clock clock)
    : inner_(inner), rates_(rates), random_(seed), clock_(std::move(clock)) {
  refresh_info();
}

void FaultyPort::refresh_info() {
  info_ = inner_.info();
  info_.same_host_only = false;
}

void FaultyPort::close_flow(FlowId flow) {
  std::erase_if(held_, [flow](const Held& held) { return held.source == flow; });
  inner_.close_flow(flow);
}

std::size_t FaultyPort::send_burst(std::span<const TxTrain> trains) {
  release_due();
  // The inner port may have found that it cannot send trains.
  if (inner_.info().train_segments != info_.train_segments) refresh_info();
  if (!rates_.any()) return inner_.send_burst(trains);
  for (std::size_t i = 0; i < trains.size(); ++i)
    if (!send(trains[i])) return i;
  return trains.size();
}

std::size_t FaultyPort::receive_burst(ScatterPlanner& planner, std::span<RxTrain> out) {
  release_due();
  return inner_.receive_burst(planner, out);
}

void FaultyPort::wait(Time deadline) {
  inner_.wait(std::min(deadline, next_release()));
  release_due();
}

Time FaultyPort::next_release() const {
  return held_.empty() ? Time::never() : held_.front().due;
}

// Returns false if the inner port refused a train without faults; the caller keeps that train. A train with a
// fault is always accepted.
bool FaultyPort::send(const TxTrain& train) {
  const std::uint32_t count =
      train.total_bytes == 0 ? 1 : (train.total_bytes + train.segment_bytes - 1) / train.segment_bytes;
  std::uint32_t untouched = 0;  // The first datagram that has not been handled yet.
  bool struck = false;
  for (std::uint32_t k = 0; k < count; ++k) {
    const sim::Fate fate = sim::draw_fate(rates_, random_, faults_);
    if (!fate.lost && !fate.corrupted && !fate.duplicated && fate.extra == Duration{}) continue;
    struck = true;
    forward(train, untouched, k);
    untouched = k + 1;
    if (fate.lost) continue;
    const Time now = clock_();
    hold(train, k, now + fate.extra, fate.corrupted);
    if (fate.duplicated) hold(train, k, now + fate.duplicate_extra, false);
    release_due();
  }
  if (!struck) return inner_.send_burst({&train, 1}) == 1;
  forward(train, untouched, count);
  return true;
}

// Sends the datagrams [first, last) of a train. If the inner port has no space, the datagrams are held and
// sent later.
void FaultyPort::forward(const TxTrain& train, std::uint32_t first, std::uint32_t last) {
  if (first == last) return;
  const TxTrain part = slice(train, first, last);
  if (inner_.send_burst({&part, 1}) == 1) return;
  for (std::uint32_t k = first; k < last; ++k) hold(train, k, clock_(), false);
}

TxTrain FaultyPort::slice(const TxTrain& train, std::uint32_t first, std::uint32_t last) {
  std::size_t skip = std::size_t{first} * train.segment_bytes;
  std::size_t take = std::min<std::size_t>(std::size_t{last} * train.segment_bytes, train.total_bytes) - skip;
  TxTrain part = train;
  part.total_bytes = static_cast<std::uint32_t>(take);
  pieces_.clear();
  for (const iovec& piece : train.pieces) {
    const std::size_t skipped = std::min(skip, piece.iov_len);
    const std::size_t taken = std::min(take, piece.iov_len - skipped);
    if (taken > 0) pieces_.push_back({static_cast<std::byte*>(piece.iov_base) + skipped, taken});
    skip -= skipped;
    take -= taken;
  }
  part.pieces = pieces_;
  return part;
}

void FaultyPort::hold(const TxTrain& train, std::uint32_t segment, Time due, bool damaged) {
  const TxTrain one = slice(train, segment, segment + 1);
  Held held{due, one.destination, one.source, one.ecn_capable, {}};
  held.bytes.reserve(one.total_bytes);
  for (const iovec& piece : one.pieces) {
    const auto* from = static_cast<const std::byte*>(piece.iov_base);
    held.bytes.insert(held.bytes.end(), from, from + piece.iov_len);
  }
  if (damaged && !held.bytes.empty()) sim::corrupt(held.bytes, random_);
  const auto later = [](Time a, const Held& b) { return a < b.due; };
  held_.insert(std::upper_bound(held_.begin(), held_.end(), due, later), std::move(held));
}

void FaultyPort::release_due() {
  if (held_.empty()) return;
  const Time now = clock_();
  std::size_t sent = 0;
  for (; sent < held_.size() && held_[sent].due <= now; ++sent) {
    Held& held = held_[sent];
    const iovec piece{held.bytes.data(), held.bytes.size()};
    const auto size = static_cast<std::uint32_t>(held.bytes.size());
    const TxTrain train{.destination = held.destination,
                        .source = held.source,
                        .pieces = {&piece, 1},
                        .segment_bytes = std::max(size, 1u),
                        .total_bytes = size,
                        .ecn_capable = held.ecn_capable};
    if (inner_.send_burst({&train, 1}) == 0) break;
  }
  held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(sent));
}

}  // namespace rdmc::port
