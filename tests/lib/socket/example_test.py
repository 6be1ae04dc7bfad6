#!/usr/bin/env python3
"""Runs the examples in separate processes: over every fabric that needs no device, with a key, without a key, and with
a wrong key. Also checks that librdmc exports exactly the functions that the header declares. With --installed, the test
first compiles the examples, with only the files that `meson install` has put into an empty directory."""
import concurrent.futures
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[2] / "system"))
import installed
from certificates import Certificates

ECHO = os.environ.get("RDMC_ECHO_EXAMPLE")
PUBLISHER, FILE_SERVER = os.environ.get("RDMC_PUBLISHER_EXAMPLE"), os.environ.get("RDMC_FILE_SERVER_EXAMPLE")
PATIENCE = 60  # In seconds. Only a failing test waits this long.


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

    def test_whom_the_authority_has_signed_is_served_and_nobody_else(self):
        made = Certificates(pathlib.Path(self.folder.name), PATIENCE)

        def files(name, authority="ours"):
            _, certificate, _, key, _, trusted = made.member(name, authority)
            return {"RDMC_CERTIFICATE": certificate, "RDMC_PRIVATE_KEY": key, "RDMC_AUTHORITY": trusted}
        ours = files("server")
        with Server(**ours, RDMC_FABRIC="udp") as server:
            self.assertEqual(server.echo("well", **files("client")).stdout, "well")
            without = {name: "" for name in ours}
            for wrong in (files("outsider", "theirs"), {**without, "RDMC_KEY_FILE": self.key("any")}, {**without, "RDMC_INSECURE": "1"}):
                self.assertIn("rdmc_connect: Permission denied", server.echo("x", **wrong).stderr)
            for half, why in (({**ours, "RDMC_AUTHORITY": ""}, "Operation not supported"), (without, "Operation not supported"),
                              ({**ours, "RDMC_PRIVATE_KEY": "/none"}, "No route to host")):
                self.assertIn("rdmc_connect: " + why, server.echo("x", **half).stderr)
            self.assertEqual(server.echo("again", **ours, RDMC_ENCRYPT="0").stdout, "again")

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
        declared = set(re.findall(r"^(?:int |ssize_t |void\* )(rdmc_\w+)\(", header, re.M))
        listed = subprocess.run(["nm", "-D", "--defined-only", os.environ["LIBRDMC"]], capture_output=True, text=True, check=True)
        symbols = [line.split()[-1].split("@")[0] for line in listed.stdout.splitlines()]
        self.assertGreater(len(declared), 15)
        self.assertEqual({name for name in symbols if not name.startswith(("_Z", "RDMC_"))}, declared)


class Reader:
    """The lines that a process writes to a pipe. They are available as they arrive."""

    def __init__(self, pipe):
        self.pipe, self.text = pipe, ""

    def until(self, what):
        while what not in self.text:
            if not select.select([self.pipe], [], [], PATIENCE)[0]:
                raise AssertionError(f"no '{what}' in '{self.text}'")
            some = os.read(self.pipe.fileno(), 65536).decode()
            if not some:
                raise AssertionError(f"ended without '{what}': '{self.text}'")
            self.text += some


class Publishing(unittest.TestCase):
    def start(self, *arguments, **environment):
        process = subprocess.Popen([PUBLISHER, "127.0.0.1", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, env=dict(os.environ, RDMC_INSECURE="1", **environment))
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def publish(self, publisher, text):
        publisher.stdin.write(text.encode())
        publisher.stdin.flush()

    def test_subscribers_get_all_in_order_and_hear_who_came_who_left_and_who_was_killed(self):
        for fabric in ("udp", "shm"):
            with self.subTest(fabric):
                publisher = self.start("0", RDMC_FABRIC=fabric)
                events, out = Reader(publisher.stderr), Reader(publisher.stdout)
                out.until("\n")
                port = out.text.split()[-1]
                subscribers = []
                for number in (1, 2, 3):
                    subscribers.append(self.start(port, "subscribe", RDMC_FABRIC=fabric))
                    events.until(f"member {number} joined, {number + 1} now")
                self.publish(publisher, "a" * 100_000 + "\n")
                outs = [Reader(each.stdout) for each in subscribers]
                for each in outs:
                    each.until("a\n")
                subscribers[1].kill()
                for number in range(50):
                    self.publish(publisher, f"{number}\n")
                events.until("member 2 failed, 3 now")
                Reader(subscribers[0].stderr).until("member 2 failed, 3 now")
                subscribers.append(self.start(port, "subscribe", RDMC_FABRIC=fabric))
                events.until("member 4 joined, 4 now")
                self.publish(publisher, "last\n")
                publisher.stdin.close()
                publisher.stdin = None
                whole = "a" * 100_000 + "\n" + "".join(f"{number}\n" for number in range(50)) + "last\n"
                for each, expected in ((0, whole), (2, whole), (3, "last\n")):
                    rest, said = (text.decode() for text in subscribers[each].communicate(timeout=PATIENCE))
                    self.assertEqual(subscribers[each].returncode, 0, said)
                    self.assertTrue((outs[each].text if each < 3 else "") + rest == expected)
                self.assertEqual(publisher.wait(PATIENCE), 0)

    def test_who_comes_and_is_killed_under_load_costs_the_others_nothing(self):
        for fabric in ("udp", "shm"):
            with self.subTest(fabric):
                publisher = self.start("0", RDMC_FABRIC=fabric)
                events, out = Reader(publisher.stderr), Reader(publisher.stdout)
                out.until("\n")
                port = out.text.split()[-1]
                steady = self.start(port, "subscribe", RDMC_FABRIC=fabric)
                with concurrent.futures.ThreadPoolExecutor(3) as others:
                    others.submit(steady.stderr.read)
                    received = others.submit(steady.stdout.read)
                    events.until("member 1 joined, 2 now")
                    others.submit(publisher.stderr.read)
                    sent = 0
                    for _ in range(12):
                        guest = self.start(port, "subscribe", RDMC_FABRIC=fabric)
                        while not select.select([guest.stdout], [], [], 0)[0]:
                            self.publish(publisher, f"{sent}\n")
                            sent += 1
                        guest.kill()
                    publisher.stdin.close()
                    publisher.stdin = None
                    self.assertEqual(publisher.wait(PATIENCE), 0)
                    self.assertEqual(steady.wait(PATIENCE), 0)
                    self.assertTrue(received.result().decode() == "".join(f"{number}\n" for number in range(sent)))

    def test_a_publisher_that_is_killed_resets_its_subscribers(self):
        publisher = self.start("0", RDMC_FABRIC="udp")
        events, out = Reader(publisher.stderr), Reader(publisher.stdout)
        out.until("\n")
        subscriber = self.start(out.text.split()[-1], "subscribe", RDMC_FABRIC="udp")
        events.until("member 1 joined, 2 now")
        publisher.kill()
        self.assertIn("Connection reset by peer", subscriber.communicate(timeout=PATIENCE)[1].decode())


class Files(unittest.TestCase):
    def test_files_are_served_as_they_are_to_many_at_once_and_others_are_not(self):
        environment = dict(os.environ, RDMC_INSECURE="1")
        with tempfile.TemporaryDirectory() as folder:
            names = [f"file{number}" for number in range(4)]
            for number, name in enumerate(names):
                pathlib.Path(folder, name).write_bytes(os.urandom(number * 1_500_000))
            with subprocess.Popen([FILE_SERVER, "127.0.0.1", "0", folder], stdout=subprocess.PIPE, env=environment) as server:
                port = server.stdout.readline().split()[-1].decode()

                def get(name):
                    return subprocess.run([FILE_SERVER, "127.0.0.1", port, "get", name], capture_output=True, timeout=PATIENCE,
                                          env=environment, check=True).stdout
                with concurrent.futures.ThreadPoolExecutor() as pool:
                    for name, got in zip(names, pool.map(get, names)):
                        self.assertTrue(got == pathlib.Path(folder, name).read_bytes())
                self.assertEqual(get("../etc/passwd"), b"")
                server.kill()


def compiled(build, folder):
    """Compiles the examples into `folder`. Returns the paths of the programs."""
    flags = installed.install(build, folder)
    sources = pathlib.Path(os.environ["RDMC_HEADER"]).parents[2] / "socket"
    for source in ("echo.c", "publisher.c", "file_server.cpp"):
        compiler = [os.environ["CXX"]] if source.endswith("pp") else ["cc", "-std=c11", "-D_POSIX_C_SOURCE=200809L"]
        own = [flag for flag in flags if source.endswith("pp") or not flag.startswith("-std")]
        subprocess.run([*compiler, sources / source, *own, "-pthread", "-o", os.path.join(folder, pathlib.Path(source).stem)],
                       check=True, cwd=folder)
    return [os.path.join(folder, name) for name in ("echo", "publisher", "file_server")]


class WayBack(unittest.TestCase):
    def test_the_echo_server_without_its_prefixes_runs_on_the_kernels_tcp(self):
        source = (pathlib.Path(os.environ["RDMC_HEADER"]).parents[2] / "socket/echo.c").read_text(encoding="utf-8")
        source = source.replace("<rdmc/socket.h>", "<unistd.h>\n#include <poll.h>\n#include <sys/socket.h>").replace("rdmc_", "")
        with tempfile.TemporaryDirectory() as folder:
            program = os.path.join(folder, "echo")
            subprocess.run(["cc", "-std=c11", "-D_DEFAULT_SOURCE", "-x", "c", "-", "-o", program], input=source, text=True, check=True)
            with subprocess.Popen([program, "127.0.0.1", "0"], stdout=subprocess.PIPE, text=True) as server:
                port = server.stdout.readline().split()[-1]
                self.assertEqual(subprocess.run([program, "127.0.0.1", port, "back"], capture_output=True, text=True,
                                                timeout=PATIENCE, check=True).stdout, "back")
                server.kill()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--installed"]:
        with tempfile.TemporaryDirectory() as directory:
            ECHO, PUBLISHER, FILE_SERVER = compiled(sys.argv[2], directory)
            unittest.main(argv=sys.argv[:1])
    unittest.main()
