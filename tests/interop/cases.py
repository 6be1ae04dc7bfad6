"""The matrix: who is at the other end, which driver carries our packets, which side we are, IPv4 or IPv6, the path
MTU, and whether one packet in a hundred is lost. A case is run or has a reason why it is not."""
import dataclasses
import itertools
import json
import os
import pathlib
import subprocess
import time

import capture
import guest

PINGPONG, RPING, VERBS = "ibv_rc_pingpong", "rping", "our verbs programs"
UDP, AF_PACKET, TAP = "udp", "AF_PACKET (dpdk)", "TAP (dpdk)"
CLIENT, SERVER = "client", "server"
NOT_RUN = {VERBS: "the verbs provider does not exist yet",
           AF_PACKET: "the dpdk driver is not joined to the lab yet", TAP: "the dpdk driver is not joined to the lab yet"}
ITERATIONS = 150  # as many as make 1 % loss strike nearly every run
SECONDS = 60      # an emulated peer on a busy machine takes 1 to 15 s for a run
PINGPONG_PORT = 18515
OUR_OPTIONS = ["--json", "--patience", str(SECONDS)]
TEXT_BYTES = 10_000   # of an rping: several packets, the last one not full
TURNS_PER_TEXT = 3    # an rping is four SENDs, a READ and a WRITE, a pingpong two SENDs
INTERFACE_MTU = {1024: 1500, 4096: 9000}  # from which the kernel makes a path MTU


@dataclasses.dataclass(frozen=True)
class Case:
    peer: str
    driver: str
    role: str  # ours
    family: int
    mtu: int
    loss: bool

    def reason_not_run(self):
        return NOT_RUN.get(self.peer) or NOT_RUN.get(self.driver)

    def host(self):
        return guest.HOST4 if self.family == 4 else guest.HOST6

    def peer_address(self):
        return guest.GUEST4 if self.family == 4 else guest.GUEST6

    def __str__(self):
        loss = ", 1 % loss" if self.loss else ""
        return f"{self.role} of {self.peer} over {self.driver}, IPv{self.family}, path MTU {self.mtu}{loss}"


def all_cases():
    return [Case(*values) for values in itertools.product(
        (PINGPONG, RPING, VERBS), (UDP, AF_PACKET, TAP), (CLIENT, SERVER), (4, 6), (1024, 4096), (False, True))]


def listens(proc_net_tcp):
    """Whether somebody listens on the pingpong's port."""
    sockets = [line.split() for line in proc_net_tcp.splitlines()[1:]]
    return any(int(one[1].split(":")[1], 16) == PINGPONG_PORT and one[3] == "0A" for one in sockets if len(one) > 3)


def roce_port_is_taken():
    """Whether somebody here receives on RoCE's UDP port."""
    return any(f":{capture.ROCE_PORT:04X} " in pathlib.Path(f"/proc/net/{name}").read_text(encoding="ascii")
               for name in ("udp", "udp6"))


def bracketed(address):
    return f"[{address}]" if ":" in address else address


class Lossy:
    """Rules of the namespace that lose RoCE packets, of both directions, while they are there."""
    RULES = """
        table inet loss {
        chain arrive { type filter hook prerouting priority -300; udp dport 4791 numgen random mod 100 < 1 counter drop; }
        chain leave { type filter hook output priority -300; udp dport 4791 numgen random mod 100 < 1 counter drop; }
        }"""

    def __init__(self, run):
        self._run, self.lost = run, 0

    def __enter__(self):
        self._run("nft", self.RULES)
        return self

    def __exit__(self, *_):
        rules = json.loads(self._run("nft", "-j", "list", "table", "inet", "loss"))["nftables"]
        self.lost = sum(e["counter"]["packets"] for item in rules if "rule" in item for e in item["rule"]["expr"]
                        if "counter" in e)
        self._run("nft", "delete table inet loss")


class Runner:
    """Runs cases against a booted guest. `programs`: the folder of ours."""

    def __init__(self, machine, run, programs):
        self._guest, self._run, self._programs = machine, run, programs
        self._gids = {}

    def run(self, case, iterations):
        """(what our program reports, the capture, packets lost on purpose). Raises guest.Failed."""
        start = self._guest.dump.stat().st_size
        lossy = Lossy(self._run)
        if case.loss:
            with lossy:
                report = self._play(case, iterations)
        else:
            report = self._play(case, iterations)
        with open(self._guest.dump, "rb") as dump:
            header = dump.read(capture.PCAP_HEADER)
            dump.seek(start)
            return report, capture.Capture.of(header, dump.read()), lossy.lost

    def _play(self, case, iterations):
        return (self._play_rping if case.peer == RPING else self._play_pingpong)(case, iterations)

    def _play_pingpong(self, case, iterations):
        same = f"-m {case.mtu} -n {iterations} -c"
        ours = [self._programs / "rdmc_pingpong", *same.split(), *OUR_OPTIONS]
        theirs = f"ibv_rc_pingpong -g {self._gid(case.peer_address())} {same}"
        if case.role == SERVER:
            return self._serve(ours, lambda: listens(pathlib.Path("/proc/net/tcp").read_text(encoding="ascii")),
                               f"{theirs} {case.host()}")
        # Theirs listens on IPv4 only, whatever its GID.
        return self._ask(theirs, lambda: listens(self._guest.run("cat /proc/net/tcp")),
                         [*ours, "--address", bracketed(case.host()), guest.GUEST4])

    def _play_rping(self, case, iterations):
        # The text takes several packets. Theirs makes the path MTU of its interface's.
        count = max(1, iterations // TURNS_PER_TEXT)
        ours = [self._programs / "rdmc_ping", "-V", "-S", str(TEXT_BYTES), "-C", str(count), *OUR_OPTIONS]
        theirs = f"rping -V -S {TEXT_BYTES} -C {count} -a"
        if case.role == SERVER:
            self._guest.run(f"ip link set eth0 mtu {INTERFACE_MTU[case.mtu]}")
            try:
                return self._serve([*ours, "--address", bracketed(case.host())], roce_port_is_taken,
                                   f"{theirs} {case.host()} -c")
            finally:
                self._guest.run("ip link set eth0 mtu 9000")
        return self._ask(f"{theirs} {case.peer_address()} -s",
                         lambda: "LISTEN" in self._guest.run("rdma resource show cm_id"),
                         [*ours, "-m", str(case.mtu), bracketed(case.peer_address())])

    def _serve(self, ours, ready, theirs):
        """Our report as the server of `theirs`."""
        server = self._start(ours)
        try:
            self._until(ready)
            self._guest.run(theirs, SECONDS)
        except BaseException:
            server.kill()
            server.communicate()
            raise
        return self._finish(server)

    def _ask(self, theirs, ready, ours):
        """Our report as the client of `theirs`."""
        server = self._guest.start(theirs, SECONDS)
        self._until(ready)
        report = self._finish(self._start(ours))
        server.finish()
        return report

    def _gid(self, address):
        if address not in self._gids:
            self._gids[address] = self._guest.gid_index(address)
        return self._gids[address]

    @staticmethod
    def _start(command):
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True)

    @staticmethod
    def _finish(program):
        try:
            printed, errors = program.communicate(timeout=2 * SECONDS)
        except subprocess.TimeoutExpired:
            program.kill()
            program.communicate()
            raise guest.Failed(f"{os.path.basename(program.args[0])} did not end") from None
        if program.returncode != 0:
            raise guest.Failed(errors.strip())
        return json.loads(printed)

    @staticmethod
    def _until(condition):
        deadline = time.monotonic() + SECONDS
        while not condition():
            if time.monotonic() > deadline:
                raise guest.Failed("the server does not listen")
            time.sleep(0.05)
