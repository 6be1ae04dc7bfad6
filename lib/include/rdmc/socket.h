/* Sockets: the calls that every network programmer knows, with other prefixes. A connection's bytes travel as
 * RoCEv2 messages over the fabric that suits its two processes - shared memory, an RDMA NIC, DPDK, UDP -, not
 * through the kernel's TCP; only how to find each other, and who is allowed to, goes over it.
 *
 * Every function is like the one without the prefix: parameters, results, errno, blocking, SIGPIPE, EINTR.
 * Any thread may call any. What is not there is refused: ESOCKTNOSUPPORT (types other than
 * SOCK_STREAM, SOCK_SEQPACKET and RDMC_GROUP), EOPNOTSUPP (flags), ENOPROTOOPT (options). Beyond POSIX:
 * EACCES from rdmc_connect (the peer does not hold our key), EPROTO (what listens there is no rdmc).
 *
 * A process reads its configuration from the environment when it first needs it:
 *   RDMC_FABRIC       auto (default: shared memory on one host, else what the network has), shm, verbs, dpdk,
 *                     udp
 *   RDMC_DEVICE       dpdk: the device, as rdmc_bcast --device has it
 *   RDMC_KEY_FILE     the cluster key, by default rdmc/key under XDG_CONFIG_HOME or ~/.config
 *   RDMC_CERTIFICATE  PEM files in the key's place, all three: ours,
 *   RDMC_PRIVATE_KEY  its key (mode 0600),
 *   RDMC_AUTHORITY    and the authority that has signed everybody's
 *   RDMC_INSECURE     1: no key and no proof of one
 *   RDMC_ENCRYPT      1: AES-256-GCM for all that leaves the host; at both ends alike
 *
 * A child of fork() has none of its parent's sockets, and keeps none of them alive: calls on them fail with
 * EOPNOTSUPP, but it may close them, and make its own.
 *
 * No function here is async-signal-safe, also those whose namesakes are (accept, bind, close, connect, poll,
 * recv, send, ... and fork()): one lock guards all sockets of a process, and a handler would wait for the
 * call that it has interrupted. Where a handler has something to send, let it write to a pipe that rdmc_poll
 * waits for. */
#ifndef RDMC_SOCKET_H
#define RDMC_SOCKET_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Level and name of an option that is ours: a string, what a connection goes through ("shm+udp": shared
 * memory if its ends are on one host, else UDP; "self": within the process). ENOTCONN without a connection.
 */
#define RDMC_SOL_SOCKET 0x52444d43
#define RDMC_SO_FABRIC 1
/* uint64_t, to be read: payload bytes of this connection that this side has copied so far, beside what the
 * fabric and the kernel do; those that rdmc_sendmsg and rdmc_recvmsg gather and scatter twice. */
#define RDMC_SO_COPIED 4
/* Of a group socket: its group's name, a string of 1 to 255 bytes, to be set before it listens or connects.
 */
#define RDMC_SO_GROUP 2
/* Of a group socket: how many members there are, the root included; an int. */
#define RDMC_SO_MEMBERS 3

/* A type of socket: messages (at most 1 GB) from one to many. All set the group's name. The root binds an
 * address, listens (the group is there) and sends; the others connect to that address (they are members when
 * that succeeds) and receive, each message once, in the root's order, from those on that were sent after they
 * had joined. A receiver that does not read holds up the root, and is out after 30 s. Members may join, leave
 * and fail at any time; the group goes on without them, and ends with its root: at the end of what was sent,
 * or with ECONNRESET. rdmc_close of the root is that of a stream: it returns at once, and what was sent goes
 * on to the members for 2 s at most, for which the end of the process waits. With SO_LINGER it waits itself,
 * for so many seconds at most; with SO_LINGER of 0 s what some member lacks is dropped. A connect is refused
 * (ECONNREFUSED) where another group's root listens. */
#define RDMC_GROUP SOCK_RDM

/* What rdmc_recvmsg tells of members, in order with messages, to who gives it room for control data: a
 * message of no bytes with MSG_OOB in msg_flags and one cmsg (RDMC_SOL_SOCKET, RDMC_MEMBER_EVENT, this
 * struct). They make the socket readable. Who receives without such room is not told: what waits is dropped
 * at that call, and until one has room again nothing is kept, nor is the socket readable for it. Before the
 * first one it is: who never gives room had better not block in that one because poll said POLLIN. */
#define RDMC_MEMBER_EVENT 1
enum { RDMC_MEMBER_JOINED = 1, RDMC_MEMBER_LEFT = 2, RDMC_MEMBER_FAILED = 3 };
struct rdmc_member_event {
  uint32_t kind;
  uint32_t member;  /* its number, which no other member has or had; the root's is 0 */
  uint32_t members; /* how many there are now, the root included */
  uint32_t missed;  /* so many before it are lost, since more than 256 waited to be read */
  uint64_t view;    /* counts the changes */
};

/* `domain` AF_INET or AF_INET6, `type` SOCK_STREAM or SOCK_SEQPACKET with SOCK_NONBLOCK and SOCK_CLOEXEC or
 * without. The descriptor is one of the kernel's, whose number nothing else has meanwhile; it is to be closed
 * by rdmc_close.
 *
 * SOCK_SEQPACKET connects like a stream, to listeners of its own type (others refuse), and then is what
 * AF_UNIX's is: a send is a message of 0 bytes to 16 MB (EMSGSIZE), a receive takes one, and drops what there
 * is no room for. */
int rdmc_socket(int domain, int type, int protocol);
int rdmc_bind(int fd, const struct sockaddr* address, socklen_t length);
int rdmc_listen(int fd, int backlog);
int rdmc_accept(int fd, struct sockaddr* address, socklen_t* length);
int rdmc_accept4(int fd, struct sockaddr* address, socklen_t* length, int flags);
int rdmc_connect(int fd, const struct sockaddr* address, socklen_t length);

/* Flags: MSG_DONTWAIT, MSG_NOSIGNAL, MSG_MORE (nothing waits), MSG_EOR (every message is a record). */
ssize_t rdmc_send(int fd, const void* bytes, size_t count, int flags);
/* Flags: MSG_DONTWAIT, MSG_PEEK, MSG_WAITALL; of messages MSG_TRUNC: the whole length is returned. */
ssize_t rdmc_recv(int fd, void* bytes, size_t count, int flags);
/* Gather and scatter; sending names or control data: EOPNOTSUPP. More than IOV_MAX pieces: EMSGSIZE. Of
 * messages rdmc_recvmsg sets MSG_TRUNC, or MSG_EOR, by which an empty message is told from the end. */
ssize_t rdmc_sendmsg(int fd, const struct msghdr* message, int flags);
ssize_t rdmc_recvmsg(int fd, struct msghdr* message, int flags);

/* Without copies, of connections of SOCK_STREAM (others: EOPNOTSUPP).
 *
 * rdmc_alloc gives memory to send from, at a page's beginning (NULL: EINVAL, ENOMEM); best when there is a
 * connection already. rdmc_free takes it back, and what is on its way stays until it is there (EINVAL: not
 * from rdmc_alloc).
 *
 * rdmc_send_zc sends from such memory (others: EFAULT), which is not to be changed until rdmc_sent says so of
 * the `number` that it is given; beside that it is rdmc_send, but takes all of `count` bytes. Where the peer
 * has no room to write into, it copies, as much as there is room for.
 *
 * rdmc_sent waits until the memory of send `number`, and of all before it on that connection, is the caller's
 * again (MSG_DONTWAIT: EAGAIN; a number that was not given: EINVAL). Larger sends are better: 1 MB is a
 * message to the fabric.
 *
 * rdmc_recv_zc gives what has come next where it lies, in `*bytes`, and its length; 0: the end. It belongs to
 * the caller, who may write it, until rdmc_release (EINVAL: not from rdmc_recv_zc). The peer has 8 MB to
 * write into; who keeps them keeps it waiting. A peer that holds our key and is hostile can write there
 * again, also while they are the caller's: what must not change between a check and its use is to be copied
 * first, or received by rdmc_recv. */
void* rdmc_alloc(size_t bytes);
int rdmc_free(void* memory);
ssize_t rdmc_send_zc(int fd, const void* bytes, size_t count, int flags, uint64_t* number);
int rdmc_sent(int fd, uint64_t number, int flags);
ssize_t rdmc_recv_zc(int fd, void** bytes, int flags);
int rdmc_release(void* bytes);

int rdmc_shutdown(int fd, int how);
int rdmc_close(int fd);

/* Sockets of ours and any other descriptors together. */
int rdmc_poll(struct pollfd* descriptors, nfds_t count, int timeout_ms);
/* Readies the descriptor itself for the kernel's epoll, poll, select and io_uring, and returns it: from now
 * on it is readable, writable, at its end and hung up whenever the socket is. Only what has an error is shown
 * as all of these, and a socket that has not been connected as no hang-up; a hang-up stays, also when the
 * socket is connected or listens anew. Costs two more descriptors
 * (EMFILE) and a system call for each change, so only those who ask have it; rdmc_poll asks for all that it
 * is given, and unlike poll may say EMFILE. */
int rdmc_pollfd(int fd);

/* SOL_SOCKET: SO_ERROR, SO_TYPE, SO_DOMAIN, SO_PROTOCOL, SO_ACCEPTCONN, SO_REUSEADDR, SO_REUSEPORT,
 * SO_LINGER, SO_RCVTIMEO, SO_SNDTIMEO, SO_KEEPALIVE (a dead peer is always found out); SO_SNDBUF and
 * SO_RCVBUF can be read. IPPROTO_TCP: TCP_NODELAY (nothing waits). IPPROTO_IPV6: IPV6_V6ONLY can be read; it
 * is 1. */
int rdmc_getsockopt(int fd, int level, int name, void* value, socklen_t* length);
int rdmc_setsockopt(int fd, int level, int name, const void* value, socklen_t length);
int rdmc_getsockname(int fd, struct sockaddr* address, socklen_t* length);
int rdmc_getpeername(int fd, struct sockaddr* address, socklen_t* length);
/* F_GETFL and F_SETFL, of which O_NONBLOCK counts. */
int rdmc_fcntl(int fd, int command, int argument);

#ifdef __cplusplus
}
#endif

#endif
