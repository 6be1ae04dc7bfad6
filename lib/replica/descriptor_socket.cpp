#include "lib/replica/descriptor_socket.hpp"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace rdmc::replica {
namespace {

constexpr std::size_t kDescriptors = 4;

/// The memory of one message: a number, and descriptors beside it.
struct Message {
  Message() {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
  }
  std::uint64_t number = 0;
  iovec part{&number, sizeof number};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kDescriptors)> control{};
  msghdr header{};
};

}  // namespace

Result<std::pair<Descriptor, Descriptor>> make_descriptor_socket() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return fail_errno("cannot make a socket", errno);
  return std::pair(Descriptor(ends[0]), Descriptor(ends[1]));
}

Result<void> pass_descriptors(int socket, ForkNumber request, const PassedDescriptors& descriptors) {
  Message message;
  message.number = value_of(request);
  cmsghdr* const head = CMSG_FIRSTHDR(&message.header);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof(int) * kDescriptors);
  const std::array<int, kDescriptors> numbers{descriptors.input.get(), descriptors.output.get(),
                                              descriptors.errors.get(), descriptors.socket.get()};
  std::memcpy(CMSG_DATA(head), numbers.data(), sizeof numbers);
  ssize_t sent = 0;
  do sent = ::sendmsg(socket, &message.header, MSG_DONTWAIT | MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  if (sent < 0) return fail_errno("cannot pass descriptors to a process", errno);
  return {};
}

Result<PassedDescriptors> take_descriptors(int socket, ForkNumber request) {
  while (true) {
    Message message;
    const ssize_t got = ::recvmsg(socket, &message.header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno != EAGAIN) return fail_errno("cannot get descriptors from rdmc_run", errno);
    if (got != sizeof message.number) return fail(Errc::not_found, "rdmc_run has passed no descriptors");
    const cmsghdr* const head = CMSG_FIRSTHDR(&message.header);
    if (head == nullptr || head->cmsg_type != SCM_RIGHTS ||
        head->cmsg_len != CMSG_LEN(sizeof(int) * kDescriptors))
      return fail(Errc::resource_limit, "the descriptors from rdmc_run were lost");
    std::array<int, kDescriptors> numbers{};
    std::memcpy(numbers.data(), CMSG_DATA(head), sizeof numbers);
    PassedDescriptors passed{.input = Descriptor(numbers[0]),
                             .output = Descriptor(numbers[1]),
                             .errors = Descriptor(numbers[2]),
                             .socket = Descriptor(numbers[3])};
    if (message.number == value_of(request)) return passed;
  }
}

}  // namespace rdmc::replica
