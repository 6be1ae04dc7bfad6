#include "dataplane/roce/requester.hpp"

#include <algorithm>

namespace rdmc::roce {
namespace {

CompletionKind kind_of(SendOpcode opcode) {
  switch (opcode) {
    case SendOpcode::send:
    case SendOpcode::send_immediate:
    case SendOpcode::send_invalidate: return CompletionKind::send;
    case SendOpcode::write:
    case SendOpcode::write_immediate: return CompletionKind::write;
    case SendOpcode::read: return CompletionKind::read;
    case SendOpcode::compare_swap:
    case SendOpcode::fetch_add: return CompletionKind::atomic;
  }
  __builtin_unreachable();
}

}  // namespace

Requester::Requester(const ConnectionConfig& config, FixedRing<WorkCompletion>& completions,
                     ConnectionCounters& counters)
    : config_(config),
      completions_(completions),
      counters_(counters),
      space_(config.send_psn),
      congestion_({.enabled = config.congestion_control,
                   .selective_repeat = config.selective_repeat,
                   .path_mtu = config.path_mtu,
                   .window_bytes = config.window_bytes}),
      works_(config.send_depth),
      credits_(config.end_to_end_credits),
      rd_atomics_(config.send_depth),
      requests_(config.max_rd_atomic) {}

Result<void> Requester::post(const SendWork& work) {
  if (is_rd_atomic(work.opcode)) return fail(Errc::invalid_argument, "a READ or atomic posted as a SEND");
  return enqueue(work);
}

Result<void> Requester::enqueue(const SendWork& work) {
  if (work.bytes.size() > kMaxMessageBytes) return fail(Errc::invalid_argument, "longer than 2^31 - 1 bytes");
  if (outstanding_ == config_.send_depth) return fail(Errc::would_block, "send queue full");
  const auto bytes = static_cast<std::uint32_t>(work.bytes.size());
  const std::uint32_t packets = bytes == 0 ? 1 : (bytes - 1) / config_.path_mtu + 1;
  works_.push({.work = work, .first = assigned_, .packets = packets});
  assigned_ += packets;
  ++outstanding_;
  return {};
}

void Requester::complete_works() {
  while (!works_.empty()) {
    const Posted& posted = works_.front();
    if (posted.first + posted.packets > una_) return;
    WorkCompletion done{.work_id = posted.work.work_id,
                        .kind = kind_of(posted.work.opcode),
                        .byte_count = static_cast<std::uint32_t>(posted.work.bytes.size())};
    if (is_rd_atomic(posted.work.opcode)) {
      if (done.kind == CompletionKind::atomic) done.byte_count = kAtomicAckBytes;
      done.original = rd_atomics_.front().original;
      rd_atomics_.pop();
    }
    completions_.push(done);
    works_.pop();
  }
}

FailureCause Requester::fail_at(Sequence s, FailureCause cause) {
  for (std::uint64_t i = works_.head(); i != works_.tail(); ++i) {
    if (s < works_[i].first + works_[i].packets) {
      fault_ = i;
      break;
    }
  }
  return cause;
}

void Requester::flush(FailureCause cause) {
  rd_atomics_.clear();
  requests_.clear();
  for (; !works_.empty(); works_.pop()) {
    const SendWork& work = works_.front().work;
    completions_.push({.work_id = work.work_id,
                       .kind = kind_of(work.opcode),
                       .cause = cause,
                       .flushed = works_.head() != fault_});
  }
}

}  // namespace rdmc::roce
