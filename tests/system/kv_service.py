"""Servers of a key-value service, and clients whose requests and replies become a history. The program kv_check_history
checks the history for linearizability."""
import json
import os
import random
import signal
import socket
import subprocess
import tempfile
import threading
import time

from harness import wait_until

KV = os.environ["RDMC_KV"]
CHECK_HISTORY = os.environ["RDMC_KV_CHECK_HISTORY"]
PORT = 7000


class ReplyError(Exception):
    """An error reply."""


class Connection:
    """A connection to a server. It speaks RESP2."""

    def __init__(self, address, patience=10.0):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=patience)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def send(self, *words):
        encoded = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        self.socket.sendall(b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded))

    def receive(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server has closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            return ReplyError(rest.decode())
        if kind == b"+":
            return rest.decode()
        if kind == b":":
            return int(rest)
        if kind == b"$":
            if rest == b"-1":
                return None
            data = self.file.read(int(rest) + 2)
            if len(data) != int(rest) + 2:
                raise ConnectionError("the server has closed the connection")
            return data[:-2].decode()
        if rest == b"-1":
            return None
        return [self.receive() for _ in range(int(rest))]

    def __call__(self, *words):
        self.send(*words)
        reply = self.receive()
        if isinstance(reply, ReplyError):
            raise reply
        return reply

    def close(self):
        self.file.close()
        self.socket.close()


class Server:
    def __init__(self, service, index, *options):
        self.address, self.service, self.index, self.options, self.process = service.addresses[index], service, index, options, None

    def start(self):
        command = [KV, "serve", "--listen", self.address, "--insecure", *self.options]
        if len(self.service.addresses) > 1:
            command += ["--members", ",".join(self.service.addresses)]
        if self.service.folder:
            command += ["--dir", self.directory()]
        self.process = subprocess.Popen(command, stderr=self.service.log)

    def directory(self):
        return os.path.join(self.service.folder, str(self.index))

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process = None

    def info(self):
        """The fields of INFO replication, or {} if the server does not answer."""
        try:
            connection = Connection(self.address, 1.0)
            try:
                lines = connection("INFO", "replication").split("\r\n")
            finally:
                connection.close()
            return dict(line.split(":", 1) for line in lines if ":" in line)
        except (OSError, ReplyError):
            return {}

    def has_state(self):
        info = self.info()
        return info.get("rdmc_view_members") == str(len(self.service.addresses)) and (
            info["role"] == "master" or info["master_link_status"] == "up")

    def is_main(self):
        return self.info().get("role") == "master"


class Service:
    """All servers of a service on this machine, each with a loopback address of its own, and with a directory of its own
    in `folder`, if that is given. Without `starts`, no server is started."""

    def __init__(self, count, *options, folder=None, starts=True):
        self.folder = folder
        network = f"127.{random.randrange(1, 255)}.{random.randrange(1, 255)}"
        self.addresses = [f"{network}.{index + 1}:{PORT}" for index in range(count)]
        self.log = tempfile.TemporaryFile()
        self.servers = [Server(self, index, *options) for index in range(count)]
        for server in self.servers if starts else []:
            server.start()

    def wait_until_whole(self):
        wait_until(lambda: all(server.has_state() for server in self.servers), "all servers have the state")

    def main(self):
        return wait_until(lambda: next((server for server in self.servers if server.process and server.is_main()), None),
                          "there is a main")

    def end(self):
        for server in self.servers:
            if server.process:
                server.process.send_signal(signal.SIGCONT)
                server.kill()
        self.log.close()

    def complaints(self):
        self.log.seek(0)
        return self.log.read().decode()


class Client(threading.Thread):
    """Asks for random operations on the keys of the present round, at random servers, until stop()."""
    connections = 0

    def __init__(self, service, seed):
        super().__init__()
        self.service, self.random, self.round, self.history, self.answers = service, random.Random(seed), 0, [], []
        self.is_over, self.seed, self.failure, self.value = False, seed, None, 0
        self.uncertain = self.refused = 0

    def stop(self):
        self.is_over = True
        self.join()

    def run(self):
        try:
            connection = None
            while not self.is_over:
                if connection is None:
                    connection = self.connect()
                    continue
                if not self.ask(connection) or self.random.random() < 0.005:
                    connection.close()
                    connection = None
            if connection:
                connection.close()
        except BaseException as failure:  # The test reports it.
            self.failure = failure

    def connect(self):
        try:
            connection = Connection(self.random.choice(self.service.addresses), 5.0)
            Client.connections += 1
            connection.number = Client.connections
            return connection
        except OSError:
            time.sleep(0.01)
            return None

    def ask(self, connection):
        """Returns False if the connection cannot be used any more."""
        pair = f"{self.round}.{self.random.randrange(2)}"
        text, number = "k" + pair, "n" + pair
        self.value += 1
        value = f"{self.seed}.{self.value},"
        kind = self.random.randrange(8)
        if kind < 2:
            return self.perform(connection, [("set", text, value)])
        if kind == 2:
            return self.perform(connection, [("append", text, value)])
        if kind == 3:
            return self.perform(connection, [("incr", number, "")])
        if kind == 4:
            return self.perform(connection, [("incr", number, ""), ("get", text, ""), ("append", text, value)])
        if kind == 5:
            return self.compare_and_set(connection, number)
        return self.perform(connection, [("get", self.random.choice((text, number)), "")])

    def compare_and_set(self, connection, key):
        try:
            if connection("WATCH", key) != "OK":
                return False
        except (OSError, ReplyError):
            return False
        before = len(self.history)
        if not self.perform(connection, [("get", key, "")]) or len(self.history) == before:
            return False
        old = self.history[-1]["steps"][0][3]
        return self.perform(connection, [("get", key, "", old), ("incr", key, "")], watched=True)

    @staticmethod
    def words(step):
        kind, key, value = step[:3]
        return [kind.upper(), key] + ([value] if kind in ("set", "append") else [])

    def perform(self, connection, steps, watched=False):
        sent = [step for step in steps if len(step) == 3]
        is_transaction = len(steps) > 1
        called = time.monotonic_ns()
        record = {"called": called, "returned": None, "connection": connection.number,
                  "steps": [[*step[:3], step[3] if len(step) > 3 else None] for step in steps]}
        try:
            if is_transaction:
                connection.send("MULTI")
            for step in sent:
                connection.send(*self.words(step))
            if is_transaction:
                connection.send("EXEC")
                for _ in range(len(sent) + 1):
                    connection.receive()
            reply = connection.receive()
        except OSError:
            self.uncertain += 1
            record["connection"] = 0
            self.keep(record)
            return False
        if isinstance(reply, ReplyError):
            if str(reply).startswith("UNCERTAIN"):
                self.uncertain += 1
                record["connection"] = 0
                self.keep(record)
            elif str(reply).startswith(("CLUSTERDOWN", "LOADING")):
                self.refused += 1
            else:
                raise AssertionError(f"{sent}: {reply}")
            return False
        if watched and reply is None:
            return True
        record["returned"] = time.monotonic_ns()
        replies = reply if is_transaction else [reply]
        for step, got in zip([step for step in record["steps"] if step[3] is None], replies):
            step[3] = "" if got is None else str(got)
        self.answers.append(record["returned"])
        self.history.append(record)
        return True

    def keep(self, record):
        if any(step[0] != "get" for step in record["steps"]):
            self.history.append(record)


def check(clients):
    """Checks the histories of all clients together. Returns the number of operations."""
    for client in clients:
        if client.failure:
            raise client.failure
    with tempfile.NamedTemporaryFile("w", suffix=".history") as file:
        for record in sorted((record for client in clients for record in client.history), key=lambda one: one["called"]):
            file.write(json.dumps(record) + "\n")
        file.flush()
        checked = subprocess.run([CHECK_HISTORY, file.name], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout
    return int(checked.stdout.split()[0])
