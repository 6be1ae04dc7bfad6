// `example [LAUNCHER]` runs in each process that mpirun, srun or RDMC_HOSTS names. The processes agree on a
// view. Each line that is typed at the root goes to all others. If a process is killed, the others go on; if
// it was the root, the next member becomes the root. A process exits when its input ends, and the others see
// its death.
#include <cstdio>
#include <deque>
#include <iostream>
#include <rdmc/membership.hpp>
#include <string>

int main(int argc, char** argv) {
  const auto job = rdmc::launched_job({.launcher = argc > 1 ? argv[1] : "auto"});
  if (!job) return std::fprintf(stderr, "%s\n", job.error().what.c_str()), 1;
  auto options = rdmc::membership_options(*job);
  if (!options) return std::fprintf(stderr, "%s\n", options.error().what.c_str()), 1;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);

  rdmc::MembershipCallbacks told;
  told.installed = [](const rdmc::View& view) {
    std::string names;
    for (const rdmc::Member& member : view.members) names += (names.empty() ? "" : ", ") + member.name;
    std::printf("members: %s\n", names.c_str());
  };
  const auto membership = rdmc::Membership::join(*options, told);
  if (!membership) return std::fprintf(stderr, "%s\n", membership.error().what.c_str()), 2;

  std::deque<std::string> received, sent;  // the memory of the messages
  rdmc::MemberGroupCallbacks on;
  on.incoming = [&](std::uint64_t, std::uint64_t bytes) {
    return std::as_writable_bytes(std::span(received.emplace_back(bytes, ' ')));
  };
  on.delivered = [&](std::uint64_t message, std::span<std::byte>) {
    std::printf("message %d: %s\n", static_cast<int>(message), received.back().c_str());
  };
  on.continued = [&](const rdmc::GroupView& group) {
    const bool is_root = group.root == (*membership)->id();
    std::printf("%s of %zu\n", is_root ? "root" : "receiver", group.members.size());
  };
  const auto group =
      (*membership)->create_group(rdmc::GroupNumber{7}, {.first_members = job->members.size()}, on);
  if (!group) return std::fprintf(stderr, "%s\n", group.error().what.c_str()), 3;
  for (std::string line; std::getline(std::cin, line);) {
    const auto number = (*group)->send(std::as_bytes(std::span(sent.emplace_back(line))));
    if (!number) std::printf("not sent: %s\n", number.error().what.c_str());
  }
}
