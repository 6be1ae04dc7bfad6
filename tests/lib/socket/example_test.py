#!/usr/bin/env python3
"""The echo example, a program in C: server and clients in processes of their own, over every fabric that a machine without
devices has, with a key, without, and with the wrong one; what librdmc exports is what the header declares."""
import concurrent.futures
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import unittest

ECHO = os.environ["RDMC_ECHO_EXAMPLE"]
PATIENCE = 60  # seconds, only a failing test waits so long


class Server:
    def __init__(self, **environment):
        self.environment = dict(os.environ, **environment)
        self.process = subprocess.Popen([ECHO, "127.0.0.1", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        env=self.environment)
        line = self.process.stdout.readline()
        self.port = line.split()[-1] if line else None

    def echo(self, text, **environment):
        return subprocess.run([ECHO, "127.0.0.1", self.port, text], capture_output=True, text=True, timeout=PATIENCE,
                              env=dict(self.environment, **environment), check=False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


class Example(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        os.environ.pop("RDMC_INSECURE", None)
        os.environ["XDG_CONFIG_HOME"] = self.folder.name

    def key(self, name):
        path = str(pathlib.Path(self.folder.name) / name)
        subprocess.run([os.environ["RDMC_BCAST"], "keygen", path], check=True, capture_output=True, timeout=PATIENCE)
        return path

    def test_every_client_gets_its_own_text_back_over_every_fabric(self):
        for fabric in ("udp", "shm", "auto"):
            with self.subTest(fabric), Server(RDMC_FABRIC=fabric, RDMC_INSECURE="1") as server:
                texts = [f"{i} " * 20_000 for i in range(4)]
                with concurrent.futures.ThreadPoolExecutor() as pool:
                    done = list(pool.map(server.echo, texts))
                self.assertEqual([(each.returncode, each.stderr) for each in done], [(0, "")] * len(texts))
                self.assertTrue([each.stdout for each in done] == texts)

    def test_who_holds_the_key_is_served_encrypted_or_not_and_who_holds_another_is_told(self):
        right, wrong = self.key("right"), self.key("wrong")
        for encrypt in ("0", "1"):
            with Server(RDMC_KEY_FILE=right, RDMC_FABRIC="udp", RDMC_ENCRYPT=encrypt) as server:
                self.assertEqual(server.echo("well").stdout, "well")
                self.assertIn("Permission denied", server.echo("well", RDMC_KEY_FILE=wrong).stderr)
                self.assertIn("Permission denied", server.echo("well", RDMC_INSECURE="1", RDMC_ENCRYPT="0").stderr)
                self.assertEqual(server.echo("again").stdout, "again")

    def test_without_a_key_nobody_listens_or_connects(self):
        with Server() as server:
            self.assertEqual(server.process.wait(PATIENCE), 1)
            self.assertIn("rdmc_listen: Operation not supported", server.process.stderr.read())

    def test_a_server_that_is_killed_resets_its_clients_and_is_refused_afterwards(self):
        with Server(RDMC_INSECURE="1", RDMC_FABRIC="udp") as server:
            os.kill(server.process.pid, signal.SIGSTOP)
            with concurrent.futures.ThreadPoolExecutor() as pool:
                waiting = pool.submit(server.echo, "x")
                server.process.kill()
                failed = waiting.result()
            self.assertNotEqual(failed.returncode, 0)
            self.assertRegex(failed.stderr, "Connection (reset by peer|refused)")
            self.assertIn("rdmc_connect: Connection refused", server.echo("x").stderr)

    def test_the_library_exports_the_c_functions_of_the_header(self):
        header = pathlib.Path(os.environ["RDMC_HEADER"]).read_text(encoding="utf-8")
        declared = set(re.findall(r"^(?:int|ssize_t) (rdmc_\w+)\(", header, re.M))
        listed = subprocess.run(["nm", "-D", "--defined-only", os.environ["LIBRDMC"]], capture_output=True, text=True, check=True)
        symbols = [line.split()[-1].split("@")[0] for line in listed.stdout.splitlines()]
        self.assertGreater(len(declared), 15)
        self.assertEqual({name for name in symbols if not name.startswith(("_Z", "RDMC_"))}, declared)


if __name__ == "__main__":
    unittest.main()
