"""What may go wrong with the guest at the other end, and what our programs make of it: every run here fails, and each by the
name and the counter that belong to it. Where somebody is to vanish with something of ours still to be answered, one
direction is cut first, so that something is."""
import contextlib
import json
import socket
import time

import capture
import cases
import guest
import links

TEXT = "-V -S 1000 -C 1"                    # of an rping with a wrong key
FOR_EVER = "-m 1024 -n 100000000 -c"        # a pingpong that somebody ends
SHORT = f"-m 1024 -n {cases.ITERATIONS} -c"
# After three quarters of this a queue pair has given a silent peer up.
PATIENCE = 12
SECOND_PORT = 18516
ATTEMPTS, SILENCE = 8, 1.0  # seconds, many of Soft-RoCE's timeouts
LEAST_LOST = 3   # packets of a cut direction: by then something is outstanding


class Unexpected(Exception):
    """A run did not fail as it had to; says how."""


@contextlib.contextmanager
def cut(run, hook, device=guest.TAP):
    """Without RoCE packets in one direction of the guest's tap, from when some have been lost: `hook` "ingress" is from the
    guest, "egress" to it."""
    run("nft", f"table netdev cut {{ chain one {{ type filter hook {hook} device {device} priority 0; "
               f"udp dport {capture.ROCE_PORT} counter drop; }}; }}")
    try:
        def lost():
            rules = json.loads(run("nft", "-j", "list", "table", "netdev", "cut"))["nftables"]
            return sum(e["counter"]["packets"] for item in rules if "rule" in item for e in item["rule"]["expr"] if "counter" in e)
        cases.until(lambda: lost() >= LEAST_LOST, "nothing was sent any more")
        yield lost
    finally:
        run("nft", "delete table netdev cut")


def expect(program, cause, **counters):
    """`program` fails for this reason, and says that it counted at least so much."""
    status, printed, errors = cases.outcome(program)
    if status != 2 or cause not in errors:
        raise Unexpected(f"exit status {status} and not: {cause}; {errors.strip()}")
    told = json.loads(printed)
    for name, least in counters.items():
        if told[name] < least:
            raise Unexpected(f"{name} is {told[name]}: {printed.strip()}")


def wrong_key_told(lab):
    """The guest's rping reads and writes under a key that it was told wrong."""
    server = lab.machine.start(f"rping {TEXT} -a {guest.GUEST4} -s", 2 * PATIENCE)
    cases.until(lab.runner.rping_listens)
    expect(lab.ours("tells", f"{TEXT} --address {links.HOST4} {guest.GUEST4}"),
           "the peer reached outside of what it was granted", refused=1)
    with contextlib.suppress(guest.Failed):
        server.finish()


def wrong_key_used(lab):
    server = lab.ours("uses", f"{TEXT} --address {links.HOST4}")
    cases.until(lambda: cases.roce_port_is_taken(links.UDP), "our server does not listen")
    with contextlib.suppress(guest.Failed):
        lab.machine.run(f"rping {TEXT} -a {links.HOST4} -c", 2 * PATIENCE)
    expect(server, "remote access error: the peer refused access: key or range revoked or wrong", refusals_received=1)


def peer_vanishes_and_restarts(lab):
    """Its queue pair goes without a word; a new one of the same address serves the next client meanwhile."""
    lab.serve(FOR_EVER)
    former = lab.ours("pingpong", f"{FOR_EVER} --address {links.HOST4} {guest.GUEST4}")
    lab.wait_for_traffic()
    with cut(lab.run, "egress"):
        lab.machine.run("killall -9 ibv_rc_pingpong")
    server = lab.serve(SHORT)
    next_one = cases.outcome(lab.ours("pingpong", f"{SHORT} --address {lab.second_address} {guest.GUEST4}"))
    if next_one[0] != 0 or json.loads(next_one[1])["stray_packets"] != 0:
        raise Unexpected(f"the restarted peer's next client: {next_one}")
    if former.poll() is not None:
        raise Unexpected("the former client had given up before the peer was back")
    server.finish()
    expect(former, "retry exceeded: the peer stopped acknowledging", timeouts=1, retransmitted=1)


def leave_the_guest_sending(lab):
    """A client of the guest's is killed, and the guest goes on sending to its queue pair: if it had something to send and was
    not itself waiting."""
    for _ in range(ATTEMPTS):
        lab.serve(FOR_EVER)
        former = lab.ours("pingpong", f"{FOR_EVER} --address {links.HOST4} {guest.GUEST4}")
        lab.wait_for_traffic()
        with cut(lab.run, "ingress") as lost:
            former.kill()
            former.communicate()
            wait_until_free(links.HOST4)
            before, deadline = lost(), time.monotonic() + SILENCE
            while time.monotonic() < deadline:
                if lost() >= before + LEAST_LOST:
                    return
                time.sleep(0.05)
        lab.machine.run("killall -9 ibv_rc_pingpong")
    raise Unexpected(f"in {ATTEMPTS} attempts the guest was never the one to send")


def ours_restarts(lab):
    leave_the_guest_sending(lab)
    server = lab.serve(f"{SHORT} -p {SECOND_PORT}", SECOND_PORT)
    status, printed, errors = cases.outcome(
        lab.ours("pingpong", f"{SHORT} -p {SECOND_PORT} --address {links.HOST4} {guest.GUEST4}"))
    lab.machine.run("killall -9 ibv_rc_pingpong")
    if status != 0:
        raise Unexpected(f"after our restart: {errors.strip()}")
    if json.loads(printed)["stray_packets"] == 0:
        raise Unexpected(f"no packet to our former self was counted: {printed.strip()}")
    with contextlib.suppress(guest.Failed):
        server.finish()


def an_rdma_device_has_the_port(lab):
    """Ours in the guest, by a socket: it must not bind where it would never hear anything."""
    with socket.create_server((links.HOST4, cases.PINGPONG_PORT)):
        try:
            lab.machine.run(f"rdmc_pingpong --fabric udp --address {guest.GUEST4} {links.HOST4}", PATIENCE)
        except guest.Failed as error:
            told = str(error)
        else:
            raise Unexpected("it took the port of an RDMA device")
    for words in (f"already exists: UDP port {capture.ROCE_PORT} of {guest.GUEST4} belongs to the RDMA device rxe0",
                  "use another address of this host, or that device (--fabric verbs)"):
        if words not in told:
            raise Unexpected(f"{told} and not: {words}")


CELLS = {"the peer is told a wrong remote key": wrong_key_told,
         "we are told a wrong remote key": wrong_key_used,
         "the peer vanishes in the middle, and is back at the same address": peer_vanishes_and_restarts,
         "we restart at the same address in the middle": ours_restarts,
         "an RDMA device has RoCE's UDP port at the address that ours is to have": an_rdma_device_has_the_port}


def wait_until_free(address):
    """The kernel lets go of a dead program's socket a little after the program is gone."""
    def is_free():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind((address, capture.ROCE_PORT))
            except OSError:
                return False
        return True

    cases.until(is_free, f"{address} stays in use")


class Lab:
    """`programs`: paths of ours by the names that the cells have for them. `second_address`: another one of this host's."""

    def __init__(self, runner, machine, run, programs, second_address):
        self.runner, self.machine, self.run = runner, machine, run
        self._programs, self.second_address = programs, second_address

    def ours(self, name, words):
        return cases.start([self._programs[name], *words.split(), "--json", "--patience", str(PATIENCE)])

    def serve(self, words, port=cases.PINGPONG_PORT):
        """The guest's pingpong, listening."""
        server = self.machine.start(f"ibv_rc_pingpong -g {self.runner.gid(guest.GUEST4)} {words}", 3 * PATIENCE)
        cases.until(lambda: cases.listens(self.machine.run("cat /proc/net/tcp"), port), "the guest does not listen")
        return server

    def wait_for_traffic(self):
        count = lambda: int(self.machine.run("cat /sys/class/infiniband/rxe0/ports/1/hw_counters/rcvd_pkts"))
        before = count()
        cases.until(lambda: count() >= before + 100, "no packets go to the guest")


def run(lab, cells=None):
    """Yields (what, "pass" or "fail: why", seconds)."""
    for what, cell in (cells or CELLS).items():
        start = time.monotonic()
        try:
            wait_until_free(links.HOST4)
            cell(lab)
            outcome = "pass"
        except (guest.Failed, Unexpected, OSError, ValueError) as error:
            outcome = "fail: " + str(error).strip().replace("\n", "; ")
        yield what, outcome, time.monotonic() - start
