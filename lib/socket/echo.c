/* echo ADDRESS PORT: sends back everything that arrives, to many clients at once.
 * echo ADDRESS PORT TEXT: sends TEXT to the server and prints the answer. IPv4 only. Port 0 means any
 * port. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdmc/socket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { most_clients = 100 };

static int die(const char* what) {
  perror(what);
  return 1;
}

static int client(const struct sockaddr_in* address, const char* text) {
  char reply[4096];
  ssize_t count;
  const int fd = rdmc_socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0) return die("rdmc_socket");
  if (rdmc_connect(fd, (const struct sockaddr*)address, sizeof *address) != 0) return die("rdmc_connect");
  if (rdmc_send(fd, text, strlen(text), 0) < 0) return die("rdmc_send");
  if (rdmc_shutdown(fd, SHUT_WR) != 0) return die("rdmc_shutdown");
  while ((count = rdmc_recv(fd, reply, sizeof reply, 0)) > 0) fwrite(reply, 1, (size_t)count, stdout);
  if (count < 0) return die("rdmc_recv");
  return rdmc_close(fd);
}

static int server(struct sockaddr_in* address) {
  struct pollfd all[1 + most_clients];
  nfds_t used = 1, i;
  socklen_t length = sizeof *address;
  const int on = 1, listener = rdmc_socket(AF_INET, SOCK_STREAM, 0);
  if (listener < 0) return die("rdmc_socket");
  if (rdmc_setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) return die("SO_REUSEADDR");
  if (rdmc_bind(listener, (struct sockaddr*)address, sizeof *address) != 0) return die("rdmc_bind");
  if (rdmc_listen(listener, 16) != 0) return die("rdmc_listen");
  if (rdmc_getsockname(listener, (struct sockaddr*)address, &length) != 0) return die("rdmc_getsockname");
  printf("listening on port %d\n", ntohs(address->sin_port));
  fflush(stdout);
  all[0].fd = listener;
  all[0].events = POLLIN;
  for (;;) {
    if (rdmc_poll(all, used, -1) < 0) return die("rdmc_poll");
    for (i = used; i-- > 1;) {
      char bytes[4096];
      ssize_t count;
      if (all[i].revents == 0) continue;
      count = rdmc_recv(all[i].fd, bytes, sizeof bytes, 0);
      if (count > 0 && rdmc_send(all[i].fd, bytes, (size_t)count, MSG_NOSIGNAL) == count) continue;
      rdmc_close(all[i].fd);
      all[i] = all[--used];
    }
    if (all[0].revents != 0 && used <= most_clients) {
      all[used].fd = rdmc_accept(listener, NULL, NULL);
      all[used].events = POLLIN;
      if (all[used].fd >= 0) ++used;
    }
  }
}

int main(int argc, char** argv) {
  struct sockaddr_in address;
  memset(&address, 0, sizeof address);
  address.sin_family = AF_INET;
  if (argc < 3 || argc > 4 || inet_pton(AF_INET, argv[1], &address.sin_addr) != 1) {
    fprintf(stderr, "usage: %s ADDRESS PORT [TEXT]\n", argv[0]);
    return 2;
  }
  address.sin_port = htons((unsigned short)atoi(argv[2]));
  return argc == 4 ? client(&address, argv[3]) : server(&address);
}
