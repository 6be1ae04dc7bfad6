"""Tests every operation of rdmc/unicast.hpp (tests/system/unicast_peer.cpp): between two processes on the guest's RDMA
device, and between such a process and a process on this host with a UDP socket, in both directions.

The fabrics differ in two results:
- Keys: rdmc's software refuses a key that a peer has stolen from another connection. The device accepts it, because the
  verbs provider ties no key to a connection (docs/decisions/0094). The server must permit such keys. Otherwise a grant
  fails as unsupported.
- A message that is longer than its receive: the device reports a failed operation, and rdmc's software an invalid
  request."""
import contextlib
import pathlib
import subprocess

import cases
import groups
import guest
import links

VERBS, UDP = "verbs", "udp"
OPERATIONS = "send send_copy receive write write_with_immediate read compare_and_swap fetch_and_add revoke grant_anew"
# The last words of the output. They depend on the server's fabric.
REFUSALS = {VERBS: "stolen_key_good long_message_operational", UDP: "stolen_key_refused long_message_invalid"}
LEAST_PACKETS = 40  # If the device carries all data, it carries at least this many packets of 4096 bytes.


def _in_guest(machine, *words):
    return machine.start(f"unicast_peer {' '.join(words)}", groups.SECONDS)


@contextlib.contextmanager
def _here(program, *words):
    peer = subprocess.Popen([program, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield peer
    finally:
        peer.kill()
        peer.communicate()


def _finish(peer):
    said, complaint = peer.communicate(timeout=groups.SECONDS)
    if peer.returncode != 0:
        raise guest.Failed(f"exit status {peer.returncode} here: {complaint}")
    return said


def _judge(said, client, server):
    """Raises guest.Failed unless the client reports that everything was verified."""
    expected = f"verified {client}: {OPERATIONS} {REFUSALS[server]}"
    if said.strip() != expected:
        raise guest.Failed(f"the client said {said.strip()!r}, not {expected!r}")


def run(machine, program):
    """Runs the cases. Yields (case, "pass" or "fail: why") for each."""
    there = lambda: machine.run("cat /proc/net/tcp")
    here = lambda: pathlib.Path("/proc/net/tcp").read_text(encoding="ascii")
    wait = lambda tables, port: cases.until(lambda: cases.listens(tables(), port))

    def on_one_device():
        server = _in_guest(machine, "serve", f"{guest.GUEST4}:7830", VERBS)
        wait(there, 7830)
        said = _in_guest(machine, "ask", guest.GUEST4, VERBS, f"{guest.GUEST4}:7830").finish()
        server.finish()
        _judge(said, VERBS, VERBS)

    def from_a_socket():
        server = _in_guest(machine, "serve", f"{guest.GUEST4}:7831", VERBS)
        wait(there, 7831)
        with _here(program, "ask", links.HOST4, UDP, f"{guest.GUEST4}:7831") as peer:
            said = _finish(peer)
        server.finish()
        _judge(said, UDP, VERBS)

    def to_a_socket():
        with _here(program, "serve", f"{links.HOST4}:7832", UDP) as peer:
            wait(here, 7832)
            said = _in_guest(machine, "ask", guest.GUEST4, VERBS, f"{links.HOST4}:7832").finish()
            _finish(peer)
        _judge(said, VERBS, UDP)

    for what, play in (("unicast between two processes on an RDMA device", on_one_device),
                       ("unicast from a UDP socket to an RDMA device", from_a_socket),
                       ("unicast from an RDMA device to a UDP socket", to_a_socket)):
        before = groups.packets_since(machine)
        try:
            play()
            # The data goes in one direction. How many acknowledgements go in the other one depends on the machine's load.
            data = max(groups.packets_since(machine, before))
            wrong = f"only {data} packets of data went through the RDMA device" if data < LEAST_PACKETS else ""
        except (guest.Failed, subprocess.TimeoutExpired, OSError) as error:
            wrong = str(error).strip().replace("\n", "; ")
        yield what, f"fail: {wrong}" if wrong else "pass"
