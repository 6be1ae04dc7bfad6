/* kv_writes HOST PORT COUNT [REPLICAS]: writes COUNT times to a server that speaks Redis' protocol, one write
 * at a time. With REPLICAS, each write is followed by WAIT REPLICAS in the same packet, and a write is over
 * when both replies have come. Prints one JSON object: requests_per_second, p50_us, p99_us and the longest
 * time, of the last 90 % of the writes. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static double now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int compare(const void* a, const void* b) {
  const double difference = *(const double*)a - *(const double*)b;
  return (difference > 0) - (difference < 0);
}

int main(int argc, char** argv) {
  if (argc < 4) return fprintf(stderr, "usage: kv_writes HOST PORT COUNT [REPLICAS]\n"), 1;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(argv[2]))};
  if (inet_pton(AF_INET, argv[1], &address.sin_addr) != 1)
    return fprintf(stderr, "%s is no address\n", argv[1]), 1;
  const int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  if (connect(fd, (struct sockaddr*)&address, sizeof address) != 0) return perror("connect"), 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const int count = atoi(argv[3]), lines = argc > 4 ? 2 : 1;
  double* const times = calloc((size_t)count, sizeof *times);
  const double begin = now_us();
  double measured_from = begin;
  for (int i = 0; i < count; ++i) {
    char request[256], reply[256];
    int size =
        snprintf(request, sizeof request, "*3\r\n$3\r\nSET\r\n$12\r\nkey:%08d\r\n$3\r\nxxx\r\n", i % 10000);
    if (lines == 2)
      size += snprintf(request + size, sizeof request - (size_t)size,
                       "*3\r\n$4\r\nWAIT\r\n$%zu\r\n%s\r\n$1\r\n0\r\n", strlen(argv[4]), argv[4]);
    if (i == count / 10) measured_from = now_us();
    const double sent = now_us();
    if (write(fd, request, (size_t)size) != size) return perror("write"), 1;
    for (int got = 0, length = 0; got < lines;) {
      const ssize_t some = read(fd, reply + length, sizeof reply - (size_t)length);
      if (some <= 0) return perror("read"), 1;
      for (ssize_t k = 0; k < some; ++k) got += reply[length + k] == '\n';
      length += (int)some;
      if (reply[0] != '+') return fprintf(stderr, "%.*s\n", length, reply), 1;
    }
    times[i] = now_us() - sent;
  }
  const int skipped = count / 10, kept = count - skipped;
  const double seconds = (now_us() - measured_from) / 1e6;
  qsort(times + skipped, (size_t)kept, sizeof *times, compare);
  printf("{\"requests_per_second\":%.0f,\"p50_us\":%.1f,\"p99_us\":%.1f,\"longest_us\":%.1f}\n",
         kept / seconds, times[skipped + kept / 2], times[skipped + kept * 99 / 100], times[count - 1]);
  return 0;
}
