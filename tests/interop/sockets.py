"""Tests sockets of all kinds (socket_peer.cpp): between two processes on the guest's RDMA device, and between such a
process and a process on this host with a UDP socket, in both directions."""
import contextlib
import os
import pathlib
import subprocess

import cases
import groups
import guest
import links

VERBS, UDP = "verbs", "udp"
LAST_PORT = 3  # The offset of the last port number. It belongs to the group, which listens last.
LEAST_PACKETS = 500  # If the device carries all data, it carries at least this many packets of 4096 bytes.


def _words(role, address, port, fabric):
    return ["socket_peer", role, address, str(port), fabric]


def _in_guest(machine, *words):
    return machine.start(f"RDMC_INSECURE=1 RDMC_FABRIC={VERBS} {' '.join(_words(*words, VERBS))}", groups.SECONDS)


@contextlib.contextmanager
def _here(program, *words):
    environment = {**os.environ, "RDMC_INSECURE": "1", "RDMC_FABRIC": UDP}
    peer = subprocess.Popen([program, *_words(*words, UDP)[1:]], env=environment, stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        yield peer
    finally:
        peer.kill()
        peer.communicate()


def _finish(peer):
    _, complaint = peer.communicate(timeout=groups.SECONDS)
    if peer.returncode != 0:
        raise guest.Failed(f"exit status {peer.returncode} here: {complaint}")


def _until_listening(tables, port):
    cases.until(lambda: cases.listens(tables(), port + LAST_PORT))


def run(machine, program):
    """Runs the cases. Yields (case, "pass" or "fail: why") for each."""
    there = lambda: machine.run("cat /proc/net/tcp")
    here = lambda: pathlib.Path("/proc/net/tcp").read_text(encoding="ascii")

    def on_one_device():
        server = _in_guest(machine, "serve", guest.GUEST4, 7800)
        _until_listening(there, 7800)
        _in_guest(machine, "ask", guest.GUEST4, 7800).finish()
        server.finish()

    def from_a_socket():
        server = _in_guest(machine, "serve", guest.GUEST4, 7810)
        _until_listening(there, 7810)
        with _here(program, "ask", guest.GUEST4, 7810) as peer:
            _finish(peer)
        server.finish()

    def to_a_socket():
        with _here(program, "serve", links.HOST4, 7820) as peer:
            _until_listening(here, 7820)
            _in_guest(machine, "ask", links.HOST4, 7820).finish()
            _finish(peer)

    for what, play in (("sockets between two processes on an RDMA device", on_one_device),
                       ("sockets from a UDP socket to an RDMA device", from_a_socket),
                       ("sockets from an RDMA device to a UDP socket", to_a_socket)):
        before = groups.packets_since(machine)
        try:
            play()
            # The data goes in one direction. How many acknowledgements go in the other one depends on the machine's load.
            data = max(groups.packets_since(machine, before))
            wrong = f"only {data} packets of data went through the RDMA device" if data < LEAST_PACKETS else ""
        except (guest.Failed, subprocess.TimeoutExpired, OSError) as error:
            wrong = str(error).strip().replace("\n", "; ")
        yield what, f"fail: {wrong}" if wrong else "pass"
