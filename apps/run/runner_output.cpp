// The part of the Runner that reads the standard output and error of the processes.
#include <unistd.h>

#include <array>
#include <cerrno>

#include "apps/run/runner.hpp"

namespace rdmc::run {
namespace {

constexpr std::size_t kReadBytes = 64 << 10;
/// A longer line of the standard error is printed in parts.
constexpr std::size_t kMostErrorLine = 64 << 10;

}  // namespace

/// Watches the pipes whose text can be used now. The others are not read, so their writers wait.
void Runner::watch_pipes(std::uint32_t number) {
  Process& process = processes_[number];
  const auto watch = [&](const Descriptor& pipe, bool& reads, bool is_wanted, auto read) {
    if (!pipe || reads == is_wanted) return;
    reads = is_wanted;
    if (is_wanted)
      poller_.add(pipe.get(), EPOLLIN, read);
    else
      poller_.remove(pipe.get());
  };
  const bool wants = mergers_[value_of(process.id.rank)].wants(process.id.replica);
  watch(process.child.output, process.reads_output, wants && !reporter_.is_output_full(),
        [this, number] { read_output(number); });
  watch(process.child.errors, process.reads_errors, !reporter_.is_errors_full(),
        [this, number] { read_errors(number); });
}

void Runner::watch_all_pipes() {
  if (reporter_.is_output_broken() && !is_output_closed_) {
    // The processes see it as if they wrote to the closed pipe themselves.
    is_output_closed_ = true;
    reporter_.report("the standard output has no reader any more");
    for (std::uint32_t i = 0; i < processes_.size(); ++i) close_output(i);
  }
  for (std::uint32_t i = 0; i < processes_.size(); ++i) {
    watch_pipes(i);
    // A pipe may stay open in a process that has left the group. It ends when the process's own text is read.
    if (!processes_[i].has_ended) continue;
    if (processes_[i].reads_output) read_output(i);
    if (processes_[i].reads_errors) read_errors(i);
  }
}

/// Reads some of the output. Returns false if there is nothing to read now, or if it was closed.
bool Runner::read_output(std::uint32_t number) {
  Process& process = processes_[number];
  if (!process.child.output) return false;
  OutputMerger& merger = mergers_[value_of(process.id.rank)];
  std::array<char, kReadBytes> bytes;
  const ssize_t got = ::read(process.child.output.get(), bytes.data(), bytes.size());
  if (got > 0) {
    merger.write(process.id.replica, {bytes.data(), static_cast<std::size_t>(got)});
    print_merged(process.id.rank);
    return true;
  }
  if (got == 0 ? process.has_ended : (errno == EAGAIN && process.has_ended)) {
    close_output(number);
  } else if (got == 0) {
    // The process has closed its standard output. Whether this was in order is known when it has ended.
    poller_.remove(process.child.output.get());
  }
  return false;
}

/// Reads everything that a process which has ended has written, and closes its pipes.
void Runner::finish_output(std::uint32_t number) {
  while (read_output(number)) {
  }
  close_output(number);
  while (processes_[number].child.errors) read_errors(number);
}

void Runner::close_output(std::uint32_t number) {
  Process& process = processes_[number];
  if (!process.child.output) return;
  poller_.remove(process.child.output.get());
  process.child.output.reset();
  process.reads_output = false;
  --open_pipes_;
  mergers_[value_of(process.id.rank)].close(process.id.replica,
                                            state_.has_ended_well(options_.layout.process(process.id)));
  print_merged(process.id.rank);
}

void Runner::print_merged(Rank rank) {
  OutputMerger& merger = mergers_[value_of(rank)];
  for (const OutputPart& part : merger.take_parts()) reporter_.output(rank, part);
  for (const Difference& difference : merger.take_differences()) {
    ++differing_;
    // One message for each rank is enough: after it, the replicas of the rank are no longer equal.
    if (!std::exchange(has_said_difference_[value_of(rank)], 1)) reporter_.differs(rank, difference);
  }
}

void Runner::read_errors(std::uint32_t number) {
  Process& process = processes_[number];
  if (!process.child.errors) return;
  std::array<char, kReadBytes> bytes;
  const ssize_t got = ::read(process.child.errors.get(), bytes.data(), bytes.size());
  if (got > 0)
    take_error_text(process, {bytes.data(), static_cast<std::size_t>(got)});
  else if (got == 0 || (errno == EAGAIN && process.has_ended))
    close_errors(number);
}

void Runner::take_error_text(Process& process, std::string_view bytes) {
  while (!bytes.empty()) {
    const std::string_view next = bytes.substr(0, kMostErrorLine - process.error_text.size());
    const auto newline = next.find('\n');
    process.error_text += next.substr(0, newline);
    bytes.remove_prefix(newline == next.npos ? next.size() : newline + 1);
    if (newline == next.npos && process.error_text.size() < kMostErrorLine) return;
    reporter_.error_line(process.id, process.error_text);
    process.error_text.clear();
  }
}

void Runner::close_errors(std::uint32_t number) {
  Process& process = processes_[number];
  poller_.remove(process.child.errors.get());
  process.child.errors.reset();
  process.reads_errors = false;
  --open_pipes_;
  if (!process.error_text.empty()) reporter_.error_line(process.id, std::exchange(process.error_text, {}));
}

}  // namespace rdmc::run
