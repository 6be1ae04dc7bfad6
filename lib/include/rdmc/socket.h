/* Sockets. The functions are those of POSIX, with the prefix rdmc_. A connection's bytes travel as RoCEv2
 * messages over the fabric that suits its two processes (shared memory, an RDMA NIC, DPDK or UDP). The
 * kernel's TCP is used only to find the peer and to check that it may connect.
 *
 * Every function behaves like the POSIX function without the prefix: parameters, results, errno, blocking,
 * SIGPIPE and EINTR. The comments below describe the differences. Any thread may call any function. A call
 * that asks for an unsupported feature fails: with ESOCKTNOSUPPORT for a type other than SOCK_STREAM,
 * SOCK_SEQPACKET and RDMC_GROUP, with EOPNOTSUPP for a flag, and with ENOPROTOOPT for an option. rdmc_connect
 * has two more errors: EACCES if the peer does not hold the same key, and EPROTO if the program that listens
 * there does not use rdmc.
 *
 * A process reads these environment variables when it first needs its configuration:
 *   RDMC_FABRIC       auto (the default: shared memory on one host, and otherwise the fabric that the
 *                     network has), shm, verbs, dpdk, udp
 *   RDMC_DEVICE       for dpdk: the device, in the syntax of rdmc_bcast --device
 *   RDMC_KEY_FILE     the file of the cluster key; by default rdmc/key under XDG_CONFIG_HOME or ~/.config
 *   RDMC_CERTIFICATE  this process's certificate, a PEM file. It replaces the cluster key, and needs the
 *                     next two variables as well.
 *   RDMC_PRIVATE_KEY  the private key of the certificate, a PEM file. Its mode must give no rights to its
 *                     group and to others (0600 or 0400).
 *   RDMC_AUTHORITY    the authority that has signed the certificates of all processes, a PEM file
 *   RDMC_INSECURE     1 means that this process uses no key, and that its peers need none
 *   RDMC_ENCRYPT      1 means that all data that leaves the host is encrypted with AES-256-GCM. Both ends
 *                     must set it.
 *
 * A child of fork() cannot use its parent's sockets, and does not keep them open. Calls on them fail with
 * EOPNOTSUPP. But the child may close them, and it may make sockets of its own.
 *
 * No function here is async-signal-safe, although several POSIX functions are (accept, bind, close,
 * connect, poll, recv, send). In a process that uses these sockets, fork() is not async-signal-safe
 * either. The reason is that one lock guards all sockets of a process: a signal handler would wait for the
 * call that it has interrupted. A handler that wants to send should write to a pipe, and the program
 * should wait for that pipe with rdmc_poll. */
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

/* The level and the names of the options of rdmc. RDMC_SO_FABRIC is a string that names the fabric of the
 * connection. "shm+udp" means shared memory if both ends are on one host, and UDP otherwise. "self" means
 * that both ends are in one process. Reading the option fails with ENOTCONN if there is no connection. */
#define RDMC_SOL_SOCKET 0x52444d43
#define RDMC_SO_FABRIC 1
/* A read-only uint64_t: how many payload bytes this side has copied so far. These are bytes of this
 * connection, or of the messages that were received from a group. Copies by the fabric and by the kernel do
 * not count. Bytes that rdmc_sendmsg gathers or rdmc_recvmsg scatters count twice. */
#define RDMC_SO_COPIED 4
/* For a group socket: the name of its group, a string of 1 to 255 bytes. Set it before rdmc_listen or
 * rdmc_connect. */
#define RDMC_SO_GROUP 2
/* For a group socket: the number of members, including the root, as an int. */
#define RDMC_SO_MEMBERS 3

/* A type of socket for messages (at most 1 GB each) from one process, the root, to many members. All these
 * processes must set the group's name. The root binds an address and listens. From then on the group exists,
 * and the root can send. The other processes connect to that address and receive. Each of them is a member
 * when its connect has succeeded. A member receives all messages that are sent after it has joined, each
 * message once, in the root's order.
 *
 * A receiver that does not read makes the root wait for as long as it does not read. The receiver is not
 * removed for this. Members may join, leave and fail at any time, and the group goes on without members that
 * have left or failed. The group ends when its root ends. Then either the receivers get all that was sent,
 * followed by the end of the stream, or their calls fail with ECONNRESET. A connect fails with ECONNREFUSED
 * if the root of another group listens at the address.
 *
 * At the root, rdmc_close returns at once, as for a stream. Messages that were sent still go to the
 * members, for at most 2 s. If the process exits, its exit waits for this. With SO_LINGER, rdmc_close
 * itself waits, for at most the given number of seconds. With SO_LINGER of 0 s, messages that a member has
 * not received are dropped. */
#define RDMC_GROUP SOCK_RDM

/* Events about members. rdmc_recvmsg returns them among the messages, in the order in which they have
 * happened, if the call has space for control data. An event is a message of no bytes with MSG_OOB in
 * msg_flags and one cmsg (RDMC_SOL_SOCKET, RDMC_MEMBER_EVENT, this struct). A waiting event makes the socket
 * readable.
 *
 * A receive call without such space drops all waiting events, and no event is kept until a call has space
 * again. Before the first receive call, events are kept and make the socket readable. So a program that
 * never gives space should make its first receive call with MSG_DONTWAIT, because POLLIN may mean only
 * that an event waits. */
#define RDMC_MEMBER_EVENT 1
enum { RDMC_MEMBER_JOINED = 1, RDMC_MEMBER_LEFT = 2, RDMC_MEMBER_FAILED = 3 };
struct rdmc_member_event {
  uint32_t kind;
  uint32_t member;  /* the member's number, which is never used for another member; the root's number is 0 */
  uint32_t members; /* the number of members now, including the root */
  uint32_t missed;  /* the number of events lost before this one, because at most 256 events wait */
  uint64_t view;    /* increases with each change */
};

/* Makes a socket. `domain` is AF_INET or AF_INET6. `type` is SOCK_STREAM, SOCK_SEQPACKET or RDMC_GROUP,
 * optionally with SOCK_NONBLOCK and SOCK_CLOEXEC. The result is a descriptor of the kernel, so the kernel
 * gives its number to nothing else. It must be closed with rdmc_close.
 *
 * A SOCK_SEQPACKET socket connects like a stream socket, but only to a listener of the same type.
 * Listeners of other types refuse it. When it is connected, it behaves like SOCK_SEQPACKET of AF_UNIX. A
 * send makes one message of 0 bytes to 16 MB; a longer one fails with EMSGSIZE. A receive takes one
 * message, and drops the bytes that do not fit into the buffer. */
int rdmc_socket(int domain, int type, int protocol);
int rdmc_bind(int fd, const struct sockaddr* address, socklen_t length);
int rdmc_listen(int fd, int backlog);
int rdmc_accept(int fd, struct sockaddr* address, socklen_t* length);
int rdmc_accept4(int fd, struct sockaddr* address, socklen_t* length, int flags);
int rdmc_connect(int fd, const struct sockaddr* address, socklen_t length);

/* Flags: MSG_DONTWAIT, MSG_NOSIGNAL, MSG_MORE (no effect: bytes are never held back) and MSG_EOR (no effect:
 * every message is a record). */
ssize_t rdmc_send(int fd, const void* bytes, size_t count, int flags);
/* Flags: MSG_DONTWAIT, MSG_PEEK, MSG_WAITALL. For messages (SOCK_SEQPACKET and RDMC_GROUP) also MSG_TRUNC,
 * with which the call returns the whole length of the message.
 *
 * For RDMC_GROUP also MSG_ZEROCOPY. It permits the call to replace the pages of the buffer by those of the
 * message, in place of a copy. The call does so if at least 16 MB of the message fill whole units of 2 MB in
 * the buffer. The buffer should begin at a multiple of 2 MB. Everything else is copied as usual: other bytes,
 * all memory that is not private and anonymous or that is locked (mlock), and all bytes of rdmc_recvmsg with
 * several pieces. By this flag the caller states that during the call no other thread, no device and no
 * unfinished I/O operation uses the buffer. The replaced pages lose their advice (madvise), their NUMA policy
 * and their protection. If other members still need the message, the call may wait for about as long as a
 * copy takes; with MSG_DONTWAIT it does not wait, and copies. */
ssize_t rdmc_recv(int fd, void* bytes, size_t count, int flags);
/* rdmc_sendmsg sends from several pieces of memory, and rdmc_recvmsg receives into several pieces. Errors:
 * EOPNOTSUPP if a send has a name or control data, EMSGSIZE for more than IOV_MAX pieces. For messages,
 * rdmc_recvmsg sets MSG_TRUNC or MSG_EOR. MSG_EOR distinguishes an empty message from the end of the
 * stream. */
ssize_t rdmc_sendmsg(int fd, const struct msghdr* message, int flags);
ssize_t rdmc_recvmsg(int fd, struct msghdr* message, int flags);

/* Calls without copies. They work on connections of SOCK_STREAM only; other sockets fail with EOPNOTSUPP.
 *
 * rdmc_alloc returns page-aligned memory to send from, or NULL (EINVAL, ENOMEM). It is best called when there
 * is a connection already, because the memory then suits the fabric of the connection. rdmc_free gives the
 * memory back. Memory that is still being sent stays valid until it has been sent. rdmc_free fails with
 * EINVAL if the memory is not from rdmc_alloc.
 *
 * rdmc_send_zc is like rdmc_send, but sends from memory of rdmc_alloc, and takes all `count` bytes. It fails
 * with EFAULT if the memory is not from rdmc_alloc. It stores the number of this send in `*number`; `number`
 * may be NULL. The memory must not be changed until a call of rdmc_sent for that number has succeeded. If the
 * peer offers no memory to write into, rdmc_send_zc copies the bytes, and may then take fewer than `count`.
 * One large send is faster than many small ones, because the fabric sends up to 1 MB as one message.
 *
 * rdmc_sent waits until the memory of send `number`, and of all earlier sends on that connection, may be
 * changed again. With MSG_DONTWAIT it fails with EAGAIN instead of waiting. It fails with EINVAL if `number`
 * was never returned.
 *
 * rdmc_recv_zc stores the address of the next received bytes in `*bytes`, without copying them, and returns
 * their number. 0 means the end of the stream. The caller may read and write these bytes until it calls
 * rdmc_release, which fails with EINVAL if the bytes are not from rdmc_recv_zc. The peer has 8 MB of such
 * memory to write into, so a caller that keeps the bytes makes the peer wait.
 *
 * Security: a hostile peer that holds the key can write into these bytes again before rdmc_release. Bytes
 * that must not change between a check and their use must be copied first, or received with rdmc_recv. */
void* rdmc_alloc(size_t bytes);
int rdmc_free(void* memory);
ssize_t rdmc_send_zc(int fd, const void* bytes, size_t count, int flags, uint64_t* number);
int rdmc_sent(int fd, uint64_t number, int flags);
ssize_t rdmc_recv_zc(int fd, void** bytes, int flags);
int rdmc_release(void* bytes);

int rdmc_shutdown(int fd, int how);
int rdmc_close(int fd);

/* Waits for sockets of rdmc and any other descriptors together. */
int rdmc_poll(struct pollfd* descriptors, nfds_t count, int timeout_ms);
/* Prepares the descriptor for the kernel's epoll, poll, select and io_uring, and returns it. From then on the
 * kernel shows the descriptor with POLLIN, POLLOUT, POLLRDHUP and POLLHUP whenever these are the events of
 * the socket. There are three differences from a socket of TCP:
 * - POLLERR is never shown. If the socket has an error, POLLIN and POLLOUT are shown instead. The next call
 * on the socket, or SO_ERROR, has the error. rdmc_poll reports POLLERR.
 * - A socket that was never connected shows neither POLLHUP nor POLLRDHUP.
 * - POLLHUP and POLLRDHUP stay, even if the socket is connected or listens again.
 *
 * Call rdmc_pollfd before EPOLL_CTL_ADD, because it replaces the open file behind the descriptor. rdmc_poll
 * calls it for each socket that it gets. Call EPOLL_CTL_DEL before rdmc_close: an rdmc_close that lingers
 * shows POLLHUP while it waits.
 *
 * The call needs two more descriptors, and fails with EMFILE if there are none. Afterwards, each change of
 * the state costs a system call. As rdmc_poll calls rdmc_pollfd, rdmc_poll may fail with EMFILE, although
 * poll cannot. */
int rdmc_pollfd(int fd);

/* These options are supported:
 *   SOL_SOCKET    SO_ERROR, SO_TYPE, SO_DOMAIN, SO_PROTOCOL, SO_ACCEPTCONN, SO_REUSEADDR, SO_REUSEPORT,
 *                 SO_LINGER, SO_RCVTIMEO, SO_SNDTIMEO, and SO_KEEPALIVE, which has no effect, because a
 *                 dead peer is always detected. SO_SNDBUF and SO_RCVBUF can only be read.
 *   IPPROTO_TCP   TCP_NODELAY, which has no effect, because bytes are never held back.
 *   IPPROTO_IPV6  IPV6_V6ONLY, which can only be read, and is 1. */
int rdmc_getsockopt(int fd, int level, int name, void* value, socklen_t* length);
int rdmc_setsockopt(int fd, int level, int name, const void* value, socklen_t length);
int rdmc_getsockname(int fd, struct sockaddr* address, socklen_t* length);
int rdmc_getpeername(int fd, struct sockaddr* address, socklen_t* length);
/* Commands: F_GETFL and F_SETFL. O_NONBLOCK is the only flag that has an effect. */
int rdmc_fcntl(int fd, int command, int argument);

#ifdef __cplusplus
}
#endif

#endif
