/* publisher ADDRESS PORT: sends what it reads from standard input to all subscribers, and prints which
 * subscribers join and leave.
 * publisher ADDRESS PORT subscribe: prints what is published, until the publisher ends. IPv4 only. Port 0
 * means any port. */
#define _DEFAULT_SOURCE /* for CMSG_SPACE */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdmc/socket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int die(const char* what) {
  return perror(what), 1;
}

/* Receives a message into `bytes`, or prints an event. Returns 0 for an event and at the end. */
static ssize_t receive(int fd, char* bytes, size_t count, int* flags) {
  static const char* const kinds[] = {"?", "joined", "left", "failed"};
  char room[CMSG_SPACE(sizeof(struct rdmc_member_event))];
  struct iovec into;
  struct msghdr message;
  ssize_t got;
  into.iov_base = bytes;
  into.iov_len = count;
  memset(&message, 0, sizeof message);
  message.msg_iov = &into;
  message.msg_iovlen = 1;
  message.msg_control = room;
  message.msg_controllen = sizeof room;
  got = rdmc_recvmsg(fd, &message, 0);
  *flags = message.msg_flags;
  if (got == 0 && (*flags & MSG_OOB) != 0) {
    struct rdmc_member_event event;
    memcpy(&event, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof event);
    fprintf(stderr, "member %u %s, %u now\n", event.member, kinds[event.kind & 3], event.members);
  }
  return got;
}

static int publish(int fd, struct sockaddr_in* address) {
  struct pollfd both[2] = {{0, POLLIN, 0}, {0, POLLIN, 0}};
  socklen_t length = sizeof *address;
  char bytes[65536];
  both[1].fd = fd;
  if (rdmc_bind(fd, (struct sockaddr*)address, sizeof *address) != 0) return die("rdmc_bind");
  if (rdmc_listen(fd, 16) != 0) return die("rdmc_listen");
  if (rdmc_getsockname(fd, (struct sockaddr*)address, &length) != 0) return die("rdmc_getsockname");
  printf("listening on port %d\n", ntohs(address->sin_port));
  fflush(stdout);
  while (rdmc_poll(both, 2, -1) > 0) {
    int flags;
    if (both[1].revents != 0 && receive(fd, bytes, sizeof bytes, &flags) < 0) return die("rdmc_recvmsg");
    if (both[0].revents == 0) continue;
    const ssize_t count = read(0, bytes, sizeof bytes);
    if (count <= 0) return rdmc_close(fd); /* what was sent still arrives */
    if (rdmc_send(fd, bytes, (size_t)count, 0) != count) return die("rdmc_send");
  }
  return die("rdmc_poll");
}

static int subscribe(int fd, const struct sockaddr_in* address) {
  char bytes[65536];
  ssize_t count;
  int flags;
  if (rdmc_connect(fd, (const struct sockaddr*)address, sizeof *address) != 0) return die("rdmc_connect");
  while ((count = receive(fd, bytes, sizeof bytes, &flags)) > 0 || (flags & (MSG_OOB | MSG_EOR)) != 0) {
    if (write(1, bytes, (size_t)count) != count) return die("write");
  }
  return count < 0 ? die("rdmc_recvmsg") : rdmc_close(fd);
}

int main(int argc, char** argv) {
  struct sockaddr_in address = {.sin_family = AF_INET};
  const int fd = rdmc_socket(AF_INET, RDMC_GROUP, 0);
  if (argc < 3 || inet_pton(AF_INET, argv[1], &address.sin_addr) != 1) return 2;
  address.sin_port = htons((unsigned short)atoi(argv[2]));
  if (fd < 0 || rdmc_setsockopt(fd, RDMC_SOL_SOCKET, RDMC_SO_GROUP, "news", 5) != 0) return die("RDMC_GROUP");
  return argc > 3 ? subscribe(fd, &address) : publish(fd, &address);
}
