"""Hosts on a network, on one machine: network namespaces on a bridge, with link rates and random packet loss.

`enter()` moves the program into namespaces of its own (network, mounts, processes; a user namespace too when we are
not root). Whatever is made in there - links, namespaces, mounts, processes - is gone when the program is, however it
ends, even by SIGKILL: the kernel tidies up, and no root is needed.

`Network` then makes the hosts; leaving it (it is a context manager) makes room for the next one. Host i (from 0) has the address 10.77.0.(i + 1) on its link `eth0` and a loopback of
its own. Loss strikes each packet by itself where a host receives it; rates hold in each direction of each link."""
import ctypes
import dataclasses
import json
import os
import pathlib
import subprocess
import sys

INSIDE = "RDMC_LAB_INSIDE"
SKIPPED = 77
PR_SET_PDEATHSIG, SIGKILL = 1, 9


class Unavailable(Exception):
    """This machine does not let us make what was asked for; says what."""


def run(*command, cwd=None):
    """Runs a tool (in the folder `cwd`); its output. Raises Unavailable with what it said."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False, cwd=cwd)
    except OSError as error:
        raise Unavailable(f"{command[0]}: {error.strerror}") from error
    if done.returncode != 0:
        raise Unavailable(f"{' '.join(map(str, command))}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def enter():
    """Runs the calling program anew in namespaces of its own; returns at once if that has been done already.

    Where that is not allowed, says so and ends the program with 77, which a test runner takes as skipped."""
    if os.environ.pop(INSIDE, None) == str(os.getuid()):
        run("mount", "-t", "tmpfs", "tmpfs", "/run")
        run("ip", "link", "set", "lo", "up")
        return
    unshare = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.getuid() != 0:
        unshare += ["--user", "--map-root-user"]
    tried = subprocess.run([*unshare, "mount", "-t", "tmpfs", "tmpfs", "/run"], capture_output=True, text=True,
                           stdin=subprocess.DEVNULL, check=False)
    if tried.returncode != 0:
        print(f"this machine allows no namespaces: {tried.stderr.strip()}")
        sys.exit(SKIPPED)
    # --kill-child ends what is inside when `unshare` dies; this makes `unshare` die with whoever started us.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL)
    os.environ[INSIDE] = "0"
    os.execvp(unshare[0], [*unshare, sys.executable, *sys.argv])


@dataclasses.dataclass(frozen=True)
class Host:
    """One namespace."""
    name: str
    address: str

    def command(self, command):
        """`command` (a list) as it is run on this host."""
        return ["nsenter", f"--net=/run/netns/{self.name}", *map(str, command)]

    def run(self, *command):
        return run(*self.command(command))

    def octets(self):
        """Bytes that have come in on its link, and gone out."""
        stats = json.loads(self.run("ip", "-j", "-s", "link", "show", "dev", "eth0"))[0]["stats64"]
        return stats["rx"]["bytes"], stats["tx"]["bytes"]

    def popen(self, command, **options):
        """Starts `command` on this host; it is `command` itself that gets signals."""
        return subprocess.Popen(self.command(command), **{"stdin": subprocess.DEVNULL, **options})


class Network:
    """`hosts` namespaces on one bridge. `rate` as tc writes it ("1gbit"), None for as fast as it goes; `loss` the share
    of packets (0 to 1) lost on the way to each host; `net` the first three numbers of their addresses."""

    def __init__(self, hosts, rate=None, mtu=9000, loss=0.0, net="10.77.0"):
        self.hosts = [Host(f"h{i}", f"{net}.{i + 1}") for i in range(hosts)]
        run("ip", "link", "add", "bridge0", "type", "bridge")
        run("ip", "link", "set", "bridge0", "mtu", str(mtu), "up")
        for filters in pathlib.Path("/proc/sys/net/bridge").glob("bridge-nf-call-*"):
            filters.write_text("0")  # a switch does not ask the host's firewall about every packet
        for index, host in enumerate(self.hosts):
            self._connect(index, host, mtu)
            if rate is not None:
                self.limit(host, rate)
        if loss:
            self.lose(loss)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for index, host in enumerate(self.hosts):
            run("ip", "link", "delete", f"port{index}")
            run("ip", "netns", "delete", host.name)
        run("ip", "link", "delete", "bridge0")

    @staticmethod
    def _connect(index, host, mtu):
        port = f"port{index}"
        run("ip", "netns", "add", host.name)
        run("ip", "link", "add", port, "mtu", str(mtu), "type", "veth",
            "peer", "name", "eth0", "mtu", str(mtu), "netns", host.name)
        run("ip", "link", "set", port, "master", "bridge0", "up")
        host.run("ip", "link", "set", "lo", "up")
        host.run("ip", "link", "set", "eth0", "up")
        host.run("ip", "address", "add", f"{host.address}/24", "brd", "+", "dev", "eth0")

    def limit(self, host, rate):
        """Gives the link of one host a rate, or another one."""
        shape = ("root", "tbf", "rate", rate, "burst", "256k", "latency", "20ms")
        run("tc", "qdisc", "replace", "dev", f"port{self.hosts.index(host)}", *shape)
        host.run("tc", "qdisc", "replace", "dev", "eth0", *shape)

    def lose(self, share):
        """From now on each packet that comes to a host is lost with probability `share`."""
        for index, host in enumerate(self.hosts):
            # With segmentation offload the rule would see, and lose, whole bursts: the last link carries single packets.
            run("ip", "link", "set", f"port{index}", "gso_max_segs", "1")
            host.run("nft", f"""
                table inet loss {{
                chain arrive {{
                  type filter hook prerouting priority -300;
                  iifname eth0 counter
                  iifname eth0 numgen random mod 1000000 < {round(share * 1e6)} counter drop
                }}
                }}""")

    def losses(self):
        """(packets that came, bytes that came, packets lost) over all hosts since `lose`."""
        came = octets = lost = 0
        for host in self.hosts:
            rules = json.loads(host.run("nft", "-j", "list", "table", "inet", "loss"))["nftables"]
            first, second = [next(e["counter"] for e in item["rule"]["expr"] if "counter" in e)
                             for item in rules if "rule" in item]
            came, octets, lost = came + first["packets"], octets + first["bytes"], lost + second["packets"]
        return came, octets, lost

    def silence(self, host):
        """Cuts `host` off: no packet reaches it or leaves it from now on."""
        host.run("ip", "link", "set", "eth0", "down")
