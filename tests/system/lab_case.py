"""Broadcasts between hosts of a lab. Whoever runs such tests enters the lab first: lab.enter()."""
import pathlib
import sys

from harness import Agent, BcastCase

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lab"))
import lab


class LabCase(BcastCase):
    """A test with hosts of its own, the sender's first."""
    HOSTS = 3
    RATE = None  # of their links, as tc writes it

    def setUp(self):
        super().setUp()
        self.network = lab.Network(self.HOSTS, rate=self.RATE)
        self.addCleanup(self.network.__exit__)
        self.hosts = self.network.hosts

    def agent_on(self, host, *options, index=0):
        """The host's `index`-th agent."""
        root = self.folder / f"root-{host.name}-{index}"
        root.mkdir()
        return Agent(self, host.address, self.port + index, root, self.key(), host.command([]), options=options)
