"""A Slurm cluster on this machine: munged, slurmctld, and one slurmd for each of four nodes. The names of the nodes are
separate loopback addresses, so they can be resolved like the names of real nodes. All files are in one directory. All
processes run as the user who runs the test, and end together with the test."""
import os
import pathlib
import pwd
import secrets
import signal
import socket
import subprocess
import tempfile
import time
import uuid

from harness import MARK, processes_marked

PATIENCE = 30.0  # The limit in seconds until the daemons run. Normally this takes about a second.


def free_ports(count):
    """Returns port numbers of 127.0.0.1 that are free now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


class Cluster:
    """The cluster, as a context manager. `environment` is the environment that srun needs."""

    def __init__(self, nodes=4):
        net = f"127.{64 + secrets.randbelow(180)}.{1 + secrets.randbelow(250)}"
        self.names, self.list = [f"{net}.{i}" for i in range(1, nodes + 1)], f"{net}.[1-{nodes}]"
        self.daemons, self.mark = [], uuid.uuid4().hex

    def __enter__(self):
        self.scratch = tempfile.TemporaryDirectory(prefix="rdmc-slurm-")
        self.folder = pathlib.Path(self.scratch.name)
        self.environment = {**os.environ, "SLURM_CONF": str(self.folder / "slurm.conf"), MARK: self.mark}
        try:
            self._configure()
            self._start("munged", "--foreground", "--force", *(f"--{what}={self.folder}/munge.{what}"
                                                              for what in ("socket", "key-file", "pid-file", "seed-file")))
            self._await(lambda: (self.folder / "munge.socket").exists(), "munged's socket")
            self._start("slurmctld", "-D")
            for name in self.names:
                self._start("slurmd", "-D", "-N", name)
            self._await(lambda: self._say("sinfo", "-h", "-o", "%T %D") == f"idle {len(self.names)}\n", "idle nodes")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in reversed(self.daemons):
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        # If a job was given up, its tasks and their supervisors are still running.
        for pid, _ in processes_marked(self.mark):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.scratch.cleanup()

    def run(self, *words, **options):
        """Runs `words` with srun. Returns the result."""
        return subprocess.run(["srun", "--quiet", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                              env={**self.environment, **options.pop("environment", {})}, timeout=PATIENCE, **options)

    def _configure(self):
        folder, user, host = self.folder, pwd.getpwuid(os.getuid()).pw_name, socket.gethostname()
        ports = free_ports(1 + len(self.names))
        for name in ("state", *(f"tmp-{node}" for node in self.names)):
            (folder / name).mkdir()
        key = folder / "munge.key-file"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(128))
        nodes = "\n".join(f"NodeName={name} NodeHostname={host} NodeAddr={name} Port={port} CPUs=4"
                          for name, port in zip(self.names, ports[1:]))
        (folder / "slurm.conf").write_text(f"""ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdSpoolDir={folder}/spool-%n
TmpFS={folder}/tmp-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
SelectType=select/cons_tres
SlurmdParameters=config_overrides
ReturnToService=2
{nodes}
PartitionName=all Nodes={self.list} Default=YES OverSubscribe=YES:8 State=UP
""", encoding="ascii")

    def _start(self, *words):
        with open(self.folder / "log", "ab") as log:
            self.daemons.append(subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                 env=self.environment))

    def _say(self, *words):
        return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                              env=self.environment, timeout=PATIENCE).stdout

    def _await(self, condition, what):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > deadline or any(one.poll() is not None for one in self.daemons):
                raise AssertionError(f"no {what}:\n{(self.folder / 'log').read_text(errors='replace')[-4000:]}")
            time.sleep(0.02)
