// The part of a Job that forks the process when rdmc_run wants a new replica. The process is forked inside of
// a call of the program, so the program's memory is consistent, and the copy goes on inside of the same call.
#include <fcntl.h>
#include <unistd.h>

#include <utility>

#include "dataplane/base/clock.hpp"
#include "lib/replica/job_state.hpp"

namespace rdmc::replica {
namespace {

/// The longest time for which a call of the program waits until the process can be forked. After that, the
/// program goes on, and the process is forked in a later call.
constexpr Duration kForkPatience = milliseconds(200);
/// The longest wait for one turn of the engine.
constexpr Duration kForkLook = milliseconds(20);

}  // namespace

void JobState::note(const Recovering& recovering, EventNumber number) {
  network_.links->on_recovering(recovering.process, value_of(number));
  messenger_->on_recovering(recovering.process, recovering.parent, value_of(number));
  if (fork_ && fork_->process == recovering.process && recovering.parent == assignment_.process())
    fork_->recovery = number;
}

void JobState::note(const Joined& joined) {
  if (joined.process == assignment_.process()) return;
  network_.connections->set_address(joined.process, joined.address);
  network_.links->on_joined(joined.process);
}

void JobState::turn(Call& call, Duration longest) {
  call.turn(longest);
  if (fork_) serve_fork(call);
}

void JobState::refuse_fork(ForkNumber request, const std::string& reason, bool is_final) {
  fork_.reset();
  static_cast<void>(network_.run->fork_refused(request, reason, is_final));
}

// The program is inside of a call now. It should stay there: if it computed for long, the others would wait
// for the new replica.
void JobState::serve_fork(Call& call) {
  if (!std::exchange(fork_->is_ready, true)) {
    if (const auto thread = other_thread())
      return refuse_fork(fork_->request, "its program has more than one thread (" + *thread + ")", true);
    static_cast<void>(network_.run->fork_ready(fork_->request));
  }
  const Time latest = monotonic_now() + kForkPatience;
  while (fork_ && !end_ && !are_all_done_ && monotonic_now() < latest) {
    if (fork_->recovery && messenger_->may_fork(fork_->process)) return fork_now(call);
    call.turn(kForkLook);
  }
}

void JobState::fork_now(Call& call) {
  const Fork fork = *fork_;
  fork_.reset();
  if (const auto thread = other_thread())
    return refuse_fork(fork.request, "its program has more than one thread (" + *thread + ")", true);
  auto passed = take_descriptors(assignment_.fork_descriptor, fork.request);
  if (!passed) return refuse_fork(fork.request, passed.error().what, false);
  // The copy closes all descriptors that belong to the library, but not these ones.
  int numbers[] = {passed->input.release(), passed->output.release(), passed->errors.release(),
                   passed->socket.release()};
  const OpenFiles files = OpenFiles::now();
  Result<bool> is_copy = false;
  network_.run->while_parked([&] {
    is_copy = fork_orphan();
    return !is_copy || !*is_copy;
  });
  if (is_copy && *is_copy) {
    is_forked = false;
    drop_inherited();
  }
  const PassedDescriptors mine{.input = Descriptor(numbers[0]),
                               .output = Descriptor(numbers[1]),
                               .errors = Descriptor(numbers[2]),
                               .socket = Descriptor(numbers[3])};
  if (!is_copy) return refuse_fork(fork.request, is_copy.error().what, false);
  if (*is_copy) {
    files.open_again();
    if (!become_replica(mine, fork.process, *fork.recovery)) ::_exit(1);
    return;
  }
  messenger_->on_forked(fork.process);
  static_cast<void>(network_.run->forked(fork.request));
  network_.links->flush();
  // Until rdmc_run has noted the fork, the program must neither read nor write its standard streams.
  while (!end_ && noted_fork_ != fork.request) call.turn(kForkLook);
}

// This process is the copy. Its own connections are made anew.
Result<void> JobState::become_replica(const PassedDescriptors& passed, ProcessId process,
                                      EventNumber recovery) {
  streams_.replace(passed);
  if (::dup3(passed.socket.get(), assignment_.fork_descriptor, O_CLOEXEC) < 0)
    return fail(Errc::resource_limit, "no descriptor socket");
  assignment_.self = assignment_.layout.replica(process);
  recovery_ = recovery;
  keep_unused(std::move(network_.connections));
  keep_unused(std::move(network_.run));
  keep_unused(std::move(network_.context));
  if (auto opened = network_.driver->open_again(); !opened) return opened;
  network_.links->forget_all(network_.driver->thread(), process);
  network_.driver->thread().engine().add(*this);
  messenger_->become(process);
  if (auto opened = open_run(); !opened) return opened;
  auto started = join_run();
  if (!started) return std::unexpected(started.error());
  network_.connections->set_addresses(std::move(started->addresses));
  network_.links->connect_again();
  if (is_done_) return network_.run->done();
  return {};
}

}  // namespace rdmc::replica
