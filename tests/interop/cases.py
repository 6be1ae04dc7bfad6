"""The matrix of cases. A case has a peer, a packet driver and a role for the rdmc program, IPv4 or IPv6, a path MTU,
and possibly a loss of one packet in a hundred. Each case is either run, or has a reason why it is not run."""
import dataclasses
import itertools
import json
import os
import pathlib
import subprocess
import time

import capture
import guest
import links
from links import AF_PACKET, TAP, UDP

PINGPONG, RPING, VERBS = "ibv_rc_pingpong", "rping", "our verbs programs"
CLIENT, SERVER = "client", "server"
NOT_RUN = {f"{TAP}, path MTU 4096": "DPDK's TAP carries packets of 1500 bytes at most"}
ITERATIONS = 60
# 5 of 1000 packets are lost at random, and one of every 199 is lost. Together this is 1 %. A run has more
# than 199 packets.
LOST_AT_RANDOM, LOST_EVERY = 5, 199
SECONDS = 60  # In seconds. With an emulated peer on a busy machine, a run takes 1 to 15 s.
PINGPONG_PORT = 18515
OUR_OPTIONS = ["--json", "--patience", str(SECONDS)]
TEXT_BYTES = 10_000  # The size of the text of an rping. It needs several packets, and the last one is not full.
TURNS_PER_TEXT = 3  # An rping has four SENDs, a READ and a WRITE, and a pingpong has two SENDs.
INTERFACE_MTU = {1024: 1500, 4096: 9000}  # For each path MTU, the interface MTU from which the kernel makes it.


@dataclasses.dataclass(frozen=True)
class Case:
    peer: str
    driver: str
    role: str  # The role of the rdmc program.
    family: int
    mtu: int
    loss: bool

    def reason_not_run(self):
        return NOT_RUN.get(self.peer) or NOT_RUN.get(self.driver) or NOT_RUN.get(f"{self.driver}, path MTU {self.mtu}")

    def host(self):
        """Returns the address of this host's kernel, which is used for the first contact."""
        return links.HOST4 if self.family == 4 else links.HOST6

    def our_options(self):
        """Returns the options of the rdmc program: its address, and the fabric for its packets."""
        return ["--address", bracketed(links.address(self.driver, self.family)), *links.options(self.driver)]

    def peer_address(self):
        return guest.GUEST4 if self.family == 4 else guest.GUEST6

    def __str__(self):
        loss = ", 1 % loss" if self.loss else ""
        return f"{self.role} of {self.peer} over {self.driver}, IPv{self.family}, path MTU {self.mtu}{loss}"


def all_cases():
    return [Case(*values) for values in itertools.product(
        (PINGPONG, RPING, VERBS), (UDP, AF_PACKET, TAP), (CLIENT, SERVER), (4, 6), (1024, 4096), (False, True))]


def listens(proc_net_tcp, port=PINGPONG_PORT):
    """Returns true if a process listens on the pingpong's port, or on `port`."""
    sockets = [line.split() for line in proc_net_tcp.splitlines()[1:]]
    return any(int(one[1].split(":")[1], 16) == port and one[3] == "0A" for one in sockets if len(one) > 3)


def roce_port_is_taken(driver):
    """Returns true if a process on this host receives on RoCE's UDP port through this packet driver."""
    if driver != UDP:
        return links.is_open(driver)
    return any(f":{capture.ROCE_PORT:04X} " in pathlib.Path(f"/proc/net/{name}").read_text(encoding="ascii")
               for name in ("udp", "udp6"))


def bracketed(address):
    return f"[{address}]" if ":" in address else address


def start(command):
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def outcome(program):
    """Returns (exit status, output, error output) of one of the rdmc programs. Raises guest.Failed if the program does
    not end."""
    try:
        printed, errors = program.communicate(timeout=2 * SECONDS)
    except subprocess.TimeoutExpired:
        program.kill()
        program.communicate()
        raise guest.Failed(f"{os.path.basename(program.args[0])} did not end") from None
    return program.returncode, printed, errors


def until(condition, otherwise="the server does not listen"):
    deadline = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise guest.Failed(otherwise)
        time.sleep(0.05)


def judge(case, ours, seen, lost):
    """Checks a run in which both programs report success. Returns the reason why it has failed nevertheless, or an
    empty text. `lost` is the number of packets that were lost on purpose."""
    if case.loss and lost == 0:
        return "no packet was lost, so nothing was shown"
    if ours["corrupt_packets"] != 0:
        return f"our endpoint dropped {ours['corrupt_packets']} packets as corrupt"
    if ours.get("management_malformed", 0) != 0:
        return f"our connection manager did not understand {ours['management_malformed']} messages"
    if len(seen.sources()) != 2:
        return "not both sides were seen on the wire"
    unsound = sum(not packet.sound for packet in seen.packets)
    return f"{unsound} of {len(seen.packets)} packets have a wrong ICRC" if unsound else ""


class Lossy:
    """Rules on the guest's tap that drop RoCE packets in both directions while this context is active. Half of the
    losses are random. The other half are at fixed intervals, so that every run has a loss."""
    CHAIN = "{{ type filter hook {} device {} priority 0; udp dport 4791 jump lose; }}"
    RULES = (f"table netdev loss {{ chain lose {{ numgen random mod 1000 < {LOST_AT_RANDOM} counter drop; "
             f"numgen inc mod {LOST_EVERY} == {LOST_EVERY // 2} counter drop; }}; "
             f"chain arrive {CHAIN.format('ingress', guest.TAP)}; chain leave {CHAIN.format('egress', guest.TAP)}; }}")

    def __init__(self, run):
        self._run, self.lost = run, 0

    def __enter__(self):
        self._run("nft", self.RULES)
        return self

    def __exit__(self, *_):
        rules = json.loads(self._run("nft", "-j", "list", "table", "netdev", "loss"))["nftables"]
        self.lost = sum(e["counter"]["packets"] for item in rules if "rule" in item for e in item["rule"]["expr"]
                        if "counter" in e)
        self._run("nft", "delete table netdev loss")


class Runner:
    """Runs cases with a booted guest. `programs` is the folder of the rdmc programs."""

    def __init__(self, machine, run, programs):
        self._guest, self._run, self._programs = machine, run, programs
        self._gids = {}

    def run(self, case, iterations):
        """Runs a case. Returns (the rdmc program's report, the capture, number of packets lost on purpose). Raises
        guest.Failed."""
        start = self._guest.dump.stat().st_size
        lossy = Lossy(self._run)
        if case.loss:
            with lossy:
                report = self._play(case, iterations)
        else:
            report = self._play(case, iterations)
        return report, capture.Capture.since(start, self._guest.dump), lossy.lost

    def _play(self, case, iterations):
        return (self._play_rping if case.peer == RPING else self._play_pingpong)(case, iterations)

    def _play_pingpong(self, case, iterations):
        same = f"-m {case.mtu} -n {iterations} -c"
        ours = [self._programs / "rdmc_pingpong", *same.split(), *OUR_OPTIONS]
        if case.peer == VERBS:
            theirs = f"rdmc_pingpong -d rxe0 -g {self.gid(case.peer_address())} {same} {' '.join(OUR_OPTIONS)}"
        else:
            theirs = f"ibv_rc_pingpong -g {self.gid(case.peer_address())} {same}"
        if case.role == SERVER:
            # Without these options, the program uses the local address of the connection.
            more = [] if case.driver == UDP else case.our_options()
            return self._serve([*ours, *more], lambda: listens(pathlib.Path("/proc/net/tcp").read_text(encoding="ascii")),
                               f"{theirs} {case.host()}")
        # The guest's program listens only on IPv4, even if its GID is an IPv6 address.
        return self._ask(theirs, lambda: listens(self._guest.run("cat /proc/net/tcp")),
                         [*ours, *case.our_options(), guest.GUEST4])

    def _play_rping(self, case, iterations):
        # The text needs several packets. The guest's rping derives the path MTU from the MTU of its
        # interface.
        count = max(1, iterations // TURNS_PER_TEXT)
        ours = [self._programs / "rdmc_ping", "-V", "-S", str(TEXT_BYTES), "-C", str(count), *OUR_OPTIONS]
        theirs = f"rping -V -S {TEXT_BYTES} -C {count} -a"
        if case.role == SERVER:
            self._guest.run(f"ip link set eth0 mtu {INTERFACE_MTU[case.mtu]}")
            try:
                return self._serve([*ours, *case.our_options()], lambda: roce_port_is_taken(case.driver),
                                   f"{theirs} {links.address(case.driver, case.family)} -c")
            finally:
                self._guest.run("ip link set eth0 mtu 9000")
        return self._ask(f"{theirs} {case.peer_address()} -s", self.rping_listens,
                         [*ours, *case.our_options(), "-m", str(case.mtu), bracketed(case.peer_address())])

    def _serve(self, ours, ready, theirs):
        """Runs the rdmc program as the server for the client `theirs`. Returns the rdmc program's report."""
        server = start(ours)
        try:
            until(ready)
            self._guest.run(theirs, SECONDS)
        except BaseException:
            server.kill()
            server.communicate()
            raise
        return self._report(server)

    def _ask(self, theirs, ready, ours):
        """Runs the rdmc program as the client of the server `theirs`. Returns the rdmc program's report."""
        server = self._guest.start(theirs, SECONDS)
        until(ready)
        report = self._report(start(ours))
        server.finish()
        return report

    def rping_listens(self):
        return "LISTEN" in self._guest.run("rdma resource show cm_id")

    def gid(self, address):
        if address not in self._gids:
            self._gids[address] = self._guest.gid_index(address)
        return self._gids[address]

    @staticmethod
    def _report(program):
        status, printed, errors = outcome(program)
        if status != 0:
            raise guest.Failed(errors.strip())
        return json.loads(printed)
