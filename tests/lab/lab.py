"""A lab: several hosts in one network, all on one machine. The hosts are network namespaces on a bridge. Their links
can have a rate and random packet loss.

`enter()` moves the program into its own namespaces (network, mounts and processes, and also users if it does not run as
root). Links, namespaces, mounts and processes that are made inside disappear when the program ends. This is also true
if SIGKILL ends it, because the kernel removes them. The program does not need to run as root.

`Network` then makes the hosts. It is a context manager, and its end removes the hosts, so that another network can
follow. Host i (from 0) has the address 10.77.0.(i + 1) on its link `eth0`, and its own loopback. Each packet is lost
independently, at the host that receives it. A rate applies to each direction of a link."""
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
    """This machine does not permit something that the lab needs. The text says what."""


def run(*command, cwd=None):
    """Runs a tool, in the folder `cwd` if there is one. Returns the tool's output. Raises Unavailable with the tool's
    error text if it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False, cwd=cwd)
    except OSError as error:
        raise Unavailable(f"{command[0]}: {error.strerror}") from error
    if done.returncode != 0:
        raise Unavailable(f"{' '.join(map(str, command))}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def enter():
    """Runs the calling program again, in its own namespaces. Returns at once if the program already runs there.

    If this is not permitted, prints this and ends the program with 77, which a test runner counts as skipped."""
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
    # Because of --kill-child, the processes inside end when `unshare` ends. This line makes `unshare` end
    # when the parent of this program ends.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, SIGKILL)
    os.environ[INSIDE] = "0"
    os.execvp(unshare[0], [*unshare, sys.executable, *sys.argv])


@dataclasses.dataclass(frozen=True)
class Host:
    """A host, which is a network namespace."""
    name: str
    address: str

    def command(self, command):
        """Returns the command line that runs `command` (a list) on this host."""
        return ["nsenter", f"--net=/run/netns/{self.name}", *map(str, command)]

    def run(self, *command):
        return run(*self.command(command))

    def octets(self):
        """Returns the numbers of bytes that this host has received and sent on its link."""
        stats = json.loads(self.run("ip", "-j", "-s", "link", "show", "dev", "eth0"))[0]["stats64"]
        return stats["rx"]["bytes"], stats["tx"]["bytes"]

    def popen(self, command, **options):
        """Starts `command` on this host. Signals to the returned process go to `command` itself."""
        return subprocess.Popen(self.command(command), **{"stdin": subprocess.DEVNULL, **options})


class Network:
    """`hosts` namespaces on one bridge. `rate` is the rate of each link in the notation of tc, such as "1gbit". None
    means no limit. `loss` is the share of packets (0 to 1) that is lost before each host. `net` is the first three
    numbers of the hosts' addresses."""

    def __init__(self, hosts, rate=None, mtu=9000, loss=0.0, net="10.77.0"):
        self.hosts = [Host(f"h{i}", f"{net}.{i + 1}") for i in range(hosts)]
        run("ip", "link", "add", "bridge0", "type", "bridge")
        run("ip", "link", "set", "bridge0", "mtu", str(mtu), "up")
        for filters in pathlib.Path("/proc/sys/net/bridge").glob("bridge-nf-call-*"):
            filters.write_text("0")  # Without this, the machine's firewall would examine every packet, which a switch does not do.
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
        """Sets or changes the rate of the link of one host."""
        shape = ("root", "tbf", "rate", rate, "burst", "256k", "latency", "20ms")
        run("tc", "qdisc", "replace", "dev", f"port{self.hosts.index(host)}", *shape)
        host.run("tc", "qdisc", "replace", "dev", "eth0", *shape)

    def lose(self, share):
        """From now on, each packet to a host is lost with the probability `share`."""
        for index, host in enumerate(self.hosts):
            # With segmentation offload, the rule below would get and drop whole bursts. So the last link must
            # carry single packets.
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
        """Returns (packets that arrived, bytes that arrived, packets lost) for all hosts together, since `lose`."""
        came = octets = lost = 0
        for host in self.hosts:
            rules = json.loads(host.run("nft", "-j", "list", "table", "inet", "loss"))["nftables"]
            first, second = [next(e["counter"] for e in item["rule"]["expr"] if "counter" in e)
                             for item in rules if "rule" in item]
            came, octets, lost = came + first["packets"], octets + first["bytes"], lost + second["packets"]
        return came, octets, lost

    def silence(self, host):
        """Cuts `host` off. From now on, no packet reaches or leaves it."""
        host.run("ip", "link", "set", "eth0", "down")
