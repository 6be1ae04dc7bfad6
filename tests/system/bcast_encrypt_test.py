#!/usr/bin/env python3
"""What somebody on the path sees of a transfer, with --encrypt and without; and who does not take part without."""
import socket
import threading
import unittest

from harness import ExitCode
from lab_case import LabCase, lab

SECRET = b"nobody on the path may read this"
COPIES = 40_000


class Tap:
    """Sees every packet on the lab's bridge, as somebody on the path does, and counts."""

    def __init__(self):
        self.octets = self.secrets = 0
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))  # ETH_P_ALL
        self._socket.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
        self._socket.bind(("port0", 0))
        self._socket.settimeout(0.2)
        self._over = threading.Event()
        self._reader = threading.Thread(target=self._read)

    def __enter__(self):
        self._reader.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._reader.join()
        self._socket.close()

    def _read(self):
        while True:
            try:
                packet = self._socket.recv(1 << 17)
            except TimeoutError:
                if self._over.is_set():
                    return
                continue
            self.octets += len(packet)
            self.secrets += packet.count(SECRET)


class Encrypt(LabCase):
    def setUp(self):
        super().setUp()
        self.sender, *self.others = self.hosts
        self.source = self.folder / "source.bin"
        self.source.write_bytes(SECRET * COPIES)

    def seen_of(self, agents, *options):
        with Tap() as tap:
            done = self.send(self.source, "copy.bin", "--overwrite", *options, to=agents,
                             command_prefix=self.sender.command([]))
        self.assert_code(done, ExitCode.SUCCESS)
        for agent in agents:
            self.assert_copy(self.source, agent.root / "copy.bin")
        self.assertGreater(tap.octets, self.source.stat().st_size)
        return tap.secrets

    def test_the_path_sees_every_byte_of_a_plain_transfer_and_none_of_an_encrypted_one(self):
        agents = [self.agent_on(host) for host in self.others]
        self.assertGreater(self.seen_of(agents), COPIES // 2)
        self.assertEqual(self.seen_of(agents, "--encrypt"), 0)

    def test_an_agent_that_demands_encryption_takes_part_in_nothing_else(self):
        strict, other = self.agent_on(self.others[0], "--encrypt"), self.agent_on(self.others[1])
        done = self.send(self.source, "copy.bin", to=[strict, other], command_prefix=self.sender.command([]))
        self.assert_code(done, ExitCode.SOME_FAILED)
        self.assert_cause(done, strict.host, "failed", "encrypted transfers only")
        self.assert_copy(self.source, other.root / "copy.bin")
        self.assertEqual(self.seen_of([strict, other], "--encrypt"), 0)


if __name__ == "__main__":
    lab.enter()
    unittest.main()
