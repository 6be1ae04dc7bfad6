"""Failures with the guest at the other end. Every run of this module must fail. The rdmc programs must report the
correct name of the failure and the correct counter. Some failures are interesting only if packets wait for an answer at
that moment. For them, one direction is cut before a process is killed."""
import contextlib
import json
import socket
import time

import capture
import cases
import guest
import links

TEXT = "-V -S 1000 -C 1"  # The options of an rping with a wrong key.
FOR_EVER = "-m 1024 -n 100000000 -c"  # The options of a pingpong that runs until the test ends it.
SHORT = f"-m 1024 -n {cases.ITERATIONS} -c"
# The timeout of the rdmc programs in seconds. After three quarters of this time, a queue pair gives up a silent
# peer.
PATIENCE = 12
SECOND_PORT = 18516
ATTEMPTS, SILENCE = 8, 1.0  # SILENCE is in seconds. It is many times Soft-RoCE's timeout.
LEAST_LOST = 3  # If this number of packets was lost, some packets surely have no answer.


class Unexpected(Exception):
    """A run did not fail in the expected way. The text says how."""


@contextlib.contextmanager
def cut(run, hook, device=guest.TAP):
    """Drops the RoCE packets of one direction on the guest's tap. On entry, waits until some packets have been lost.
    `hook` is "ingress" for packets from the guest, and "egress" for packets to the guest."""
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
    """Checks that `program` fails for this reason, and that each of the counters has at least the given value."""
    status, printed, errors = cases.outcome(program)
    if status != 2 or cause not in errors:
        raise Unexpected(f"exit status {status} and not: {cause}; {errors.strip()}")
    told = json.loads(printed)
    for name, least in counters.items():
        if told[name] < least:
            raise Unexpected(f"{name} is {told[name]}: {printed.strip()}")


def wrong_key_told(lab):
    """The rdmc program sends a wrong key to the guest's rping. The rping then reads and writes with this key."""
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
    """The peer is killed and sends nothing more. Then a new queue pair at the same address is the server of the next
    client."""
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
    """Kills a client of the guest at a moment when the guest must send. The guest then continues to send to the
    client's queue pair. Several attempts may be necessary, because the guest may be waiting for the client at that
    moment."""
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
    """The rdmc program runs in the guest with a UDP socket. It must not bind a port on which it would never receive
    anything."""
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
    """Waits until the RoCE port is free. The kernel releases a dead program's socket a short time after the program
    has ended."""
    def is_free():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind((address, capture.ROCE_PORT))
            except OSError:
                return False
        return True

    cases.until(is_free, f"{address} stays in use")


class Lab:
    """The lab that all cells use. `programs` has the paths of the rdmc programs, by the names that the cells use.
    `second_address` is another address of this host."""

    def __init__(self, runner, machine, run, programs, second_address):
        self.runner, self.machine, self.run = runner, machine, run
        self._programs, self.second_address = programs, second_address

    def ours(self, name, words):
        return cases.start([self._programs[name], *words.split(), "--json", "--patience", str(PATIENCE)])

    def serve(self, words, port=cases.PINGPONG_PORT):
        """Starts the guest's pingpong, and waits until it listens."""
        server = self.machine.start(f"ibv_rc_pingpong -g {self.runner.gid(guest.GUEST4)} {words}", 3 * PATIENCE)
        cases.until(lambda: cases.listens(self.machine.run("cat /proc/net/tcp"), port), "the guest does not listen")
        return server

    def wait_for_traffic(self):
        count = lambda: int(self.machine.run("cat /sys/class/infiniband/rxe0/ports/1/hw_counters/rcvd_pkts"))
        before = count()
        cases.until(lambda: count() >= before + 100, "no packets go to the guest")


def run(lab, cells=None):
    """Runs the cells. Yields (case, "pass" or "fail: why", seconds) for each."""
    for what, cell in (cells or CELLS).items():
        start = time.monotonic()
        try:
            wait_until_free(links.HOST4)
            cell(lab)
            outcome = "pass"
        except (guest.Failed, Unexpected, OSError, ValueError) as error:
            outcome = "fail: " + str(error).strip().replace("\n", "; ")
        yield what, outcome, time.monotonic() - start
