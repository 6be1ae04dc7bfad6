"""The links between rdmc's packets and the guest's network. These packets use either a socket of the kernel or a DPDK
port. A DPDK port is on a separate link and has its own address, in addition to the kernel's address. The kernel's
address and the link for AF_PACKET are on one bridge with the guest's tap. DPDK's TAP is not on the bridge, because a
bridge does not forward frames for the addresses of its own ports, and this end of the TAP has no other address.
Instead, rules forward the frames between the two taps."""
import fcntl
import os
import pathlib
import socket
import struct

UDP, AF_PACKET, TAP = "udp", "AF_PACKET (dpdk)", "TAP (dpdk)"
HOST4, HOST6 = "10.78.0.1", "fd78::1"
BRIDGE, NEAR, FAR, DPDK_TAP, DPDK_TAP_MAC = "bridge0", "near0", "far0", "dtap0", "02:00:00:00:00:04"
MTU = 9000
# The device of each DPDK driver, and the addresses of the device.
DEVICES = {AF_PACKET: (f"vdev=net_af_packet0,iface={NEAR} huge=no", "10.78.0.3", "fd78::3"),
           TAP: (f"vdev=net_tap0,iface={DPDK_TAP},mac={DPDK_TAP_MAC} huge=no", "10.78.0.4", "fd78::4")}
TUNSETIFF, TUNSETQUEUE, SIOCGIFFLAGS = 0x400454CA, 0x400454D9, 0x8913
IFF_TAP, IFF_MULTI_QUEUE, IFF_DETACH_QUEUE = 0x0002, 0x0100, 0x0400


def address(driver, family):
    """Returns the address of the rdmc program in a case with this packet driver."""
    kernels = HOST4 if family == 4 else HOST6
    return DEVICES[driver][1 if family == 4 else 2] if driver in DEVICES else kernels


def options(driver):
    """Returns the options of the rdmc programs for this packet driver."""
    return ["--fabric", "dpdk", "--device", DEVICES[driver][0]] if driver in DEVICES else []


def is_open(driver):
    """Returns true if a process has opened the DPDK port of this packet driver."""
    if driver == TAP:
        # DPDK sets this interface up and down.
        return (_flags(DPDK_TAP) & 1) != 0
    index = str(socket.if_nametoindex(NEAR))
    sockets = [line.split() for line in pathlib.Path("/proc/net/packet").read_text(encoding="ascii").splitlines()[1:]]
    return any(one[4] == index for one in sockets)


def _flags(interface):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        answer = fcntl.ioctl(asking, SIOCGIFFLAGS, struct.pack("16s24x", interface.encode()))
    return struct.unpack_from("16xH", answer)[0]


def _hold_tap():
    """Makes the TAP. A queue that carries no packets keeps the TAP in existence. DPDK adds and removes the queue that
    carries packets."""
    queue = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
    fcntl.ioctl(queue, TUNSETIFF, struct.pack("16sH22x", DPDK_TAP.encode(), IFF_TAP | IFF_MULTI_QUEUE))
    fcntl.ioctl(queue, TUNSETQUEUE, struct.pack("16sH22x", b"", IFF_DETACH_QUEUE))
    return queue


class Links:
    """The bridge and its links, without the guest. They are in the network namespace of the caller."""

    def __init__(self, run):
        self._run, self._queue = run, -1

    def __enter__(self):
        run = self._run
        # Only the interface that has the address may answer an ARP request. Without this rule several
        # interfaces could answer, because the kernel receives broadcasts on several of the links.
        pathlib.Path("/proc/sys/net/ipv4/conf/all/arp_ignore").write_text("1", encoding="ascii")
        run("ip", "link", "add", BRIDGE, "type", "bridge", "mcast_snooping", "0")
        run("ip", "link", "add", NEAR, "mtu", str(MTU), "type", "veth", "peer", "name", FAR, "mtu", str(MTU))
        run("ip", "link", "set", NEAR, "up")
        self._join(FAR)
        self._queue = _hold_tap()
        run("ip", "link", "set", BRIDGE, "mtu", str(MTU), "up")
        run("ip", "address", "add", f"{HOST4}/24", "dev", BRIDGE)
        run("ip", "address", "add", f"{HOST6}/64", "dev", BRIDGE, "nodad")
        return self

    def __exit__(self, *_):
        os.close(self._queue)

    def join_guest(self, tap):
        """Connects the guest's tap with all other links."""
        self._join(tap)
        self._run("nft", f"""
            table netdev links {{
            chain from_guest {{
              type filter hook ingress device {tap} priority 10
              ether daddr {DPDK_TAP_MAC} fwd to {DPDK_TAP}
              ether daddr & 01:00:00:00:00:00 != 00:00:00:00:00:00 dup to {DPDK_TAP}
            }}
            chain to_guest {{ type filter hook ingress device {DPDK_TAP} priority 10; fwd to {tap}; }}
            }}""")

    def _join(self, link):
        self._run("ip", "link", "set", link, "mtu", str(MTU), "master", BRIDGE, "up")
