#!/usr/bin/env python3
"""Kills, stops and interrupts processes at several moments of a transfer. The survivors must get the whole file or keep
no part of it. The transfer must end within a time limit. The message must name the process and the cause."""
import os
import pathlib
import re
import signal
import stat
import subprocess
import time
import unittest

from harness import BCAST, BcastCase, EndedBefore, ExitCode, listens, processes_marked, wait_until

MIB = 1 << 20
SIZE = 32 * MIB
# The whole transfer takes 2.7 s. Progress is reported every 0.25 s, so a fault can strike near the wanted
# moment.
RATE = "100m"
# The fault strikes when some receiver has this fraction of the file.
MOMENTS = (0.0, 0.1, 0.5, 0.8)
# Makes writes so slow that the other receivers have a file of SLOW_SIZE bytes long before: 128 blocks of 128 KB take
# 5.1 s.
SLOW_DISK = {"LD_PRELOAD": os.environ["RDMC_SLOW_DISK"], "ASAN_OPTIONS": "verify_asan_link_order=0"}
SLOW_SIZE = 16 * MIB
# The limit in seconds from the fault until the receiver with the slow disk has the file.
SURVIVORS_BOUND = 20.0
# The limit in seconds from the fault to the end of rdmc_bcast. It includes the rest of the transfer at the
# limited rate.
BOUND = 12.0
# LEAST_SECONDS is the transfer time at the limited rate. MOST_DELAY is the longest additional delay that a
# death may cause for the survivors.
LEAST_SECONDS = SIZE * 8 / 100e6
MOST_DELAY = 1.0
# A busy machine can take the processors from all processes for a second or more. So a transfer that was delayed too long
# is repeated this number of times.
ATTEMPTS = 5


class Receivers(BcastCase):
    def strike(self, number, moment, *options, count=4, or_end=False):
        """Runs a transfer in which agent 1 gets the signal `number`. Returns (source, agents, the ended transfer)."""
        for attempt in range(ATTEMPTS):
            agents = self.agents(count)
            source = self.file(SIZE)
            transfer = self.start(source, "copy", "--limit-rate", RATE, *options, to=agents)
            try:
                transfer.wait_for_bytes(int(SIZE * moment), or_end)
                break
            except EndedBefore:
                if attempt == ATTEMPTS - 1:
                    raise
        agents[1].signal(number)
        struck = time.monotonic()
        transfer.wait()
        self.assertLess(time.monotonic() - struck, BOUND)
        return source, agents, transfer

    def assert_survivors_have_it(self, source, agents, transfer):
        self.assert_code(transfer, ExitCode.SOME_FAILED)
        self.assert_cause(transfer, agents[1].host, "failed", "connection", "silent", "gone", "failed", "died", "no answer",
                          "stopped", "no handshake")
        for agent in agents[:1] + agents[2:]:
            self.assertEqual(transfer.receivers[agent.host]["status"], "ok", str(transfer))
            self.assert_copy(source, agent.root / "copy")
        times = [event["seconds"] for event in transfer.receivers.values() if event["status"] == "ok"]
        self.assertEqual(transfer.summary["seconds"], max(times), "the time of those that have it")
        self.assertFalse((agents[1].root / "copy").exists(), "half a file under the final name")

    def strike_and_delay_hardly(self, number, moment, *options):
        """Strikes as `strike` does. The survivors must have the file, and must not be delayed for more than MOST_DELAY.
        Returns the agents."""
        for _ in range(ATTEMPTS):
            source, agents, transfer = self.strike(number, moment, *options)
            self.assert_survivors_have_it(source, agents, transfer)
            self.assertGreater(transfer.summary["seconds"], 0.9 * LEAST_SECONDS, "the rate was not kept")
            delay = transfer.summary["seconds"] - LEAST_SECONDS
            if delay >= MOST_DELAY:  # A busy machine delays transfers in which nobody dies, too.
                usual = self.send(self.file(SIZE), "undisturbed", "--limit-rate", RATE, to=self.agents(4))
                delay -= 2 * max(0, usual.summary["seconds"] - LEAST_SECONDS)
            if delay < MOST_DELAY:
                return agents
            agents[1].signal(signal.SIGCONT)  # A stopped agent could not end.
        self.fail(f"The survivors were delayed in each of {ATTEMPTS} attempts. The last one: {transfer}")

    def test_killed(self):
        for moment in MOMENTS:
            with self.subTest(moment=moment):
                agents = self.strike_and_delay_hardly(signal.SIGKILL, moment)
                self.assert_killed_agent_tidies_when_it_is_back(agents[1])

    def assert_killed_agent_tidies_when_it_is_back(self, agent):
        """After SIGKILL, no process removes the partial file. The next transfer to the same name must remove it."""
        again = type(agent)(self, agent.address, agent.port, agent.root, self.key())
        self.assert_code(self.send(self.file(MIB, "small"), "copy", to=[again]), ExitCode.SUCCESS)
        self.assertEqual([path.name for path in agent.root.iterdir()], ["copy"])

    def test_stopped_for_good(self):
        for moment in MOMENTS[1:]:
            with self.subTest(moment=moment):
                agents = self.strike_and_delay_hardly(signal.SIGSTOP, moment, "--suspect-after", "500ms")
                agents[1].signal(signal.SIGCONT)
                self.assert_nothing_in(agents[1].root)
                self.assert_usable(agents)

    def test_stopped_for_good_before_the_start(self):
        """The others must wait for the stopped agent's answer for the requested time, and no longer."""
        for key in (True, None):
            with self.subTest(key=bool(key)):
                agents = [self.agent(key=key) for _ in range(4)]
                agents[1].signal(signal.SIGSTOP)
                source = self.file(MIB)
                transfer = self.send(source, "copy", "--connect-within", "800ms", to=agents, key=key)
                self.assertLess(transfer.seconds, 4.0, "5 s are the default")
                self.assert_survivors_have_it(source, agents, transfer)
                agents[1].signal(signal.SIGCONT)
                self.assert_nothing_in(agents[1].root)
                again = self.send(source, "again", to=agents, key=key)
                self.assert_code(again, ExitCode.SUCCESS)

    def test_stopped_at_the_very_end_it_has_the_whole_file_or_none(self):
        """The agent may have received the message to commit the file before it was stopped, or may receive it when it
        continues."""
        source, agents, transfer = self.strike(signal.SIGSTOP, 0.97, or_end=True)
        for agent in agents[:1] + agents[2:]:
            self.assert_copy(source, agent.root / "copy")
        ok = transfer.receivers[agents[1].host]["status"] == "ok"
        self.assert_code(transfer, ExitCode.SUCCESS if ok else ExitCode.SOME_FAILED)
        agents[1].signal(signal.SIGCONT)
        self.assert_usable(agents)  # By now, the agent has finished the first transfer.
        if ok or (agents[1].root / "copy").exists():
            self.assert_copy(source, agents[1].root / "copy")

    def test_stopped_for_300_ms_is_forgiven(self):
        """Tests the default of --suspect-after. On a busy machine, the stop may be longer than 300 ms, and such an
        attempt proves nothing. So the test measures the stop, and tries again if it was too long."""
        agents = self.agents(3)
        source = self.file(SIZE)
        for attempt in range(8):
            transfer = self.start(source, f"copy{attempt}", "--limit-rate", RATE, to=agents)
            transfer.wait_for_bytes(SIZE // 4)
            agents[1].signal(signal.SIGSTOP)
            stopped = time.monotonic()
            time.sleep(0.3)
            agents[1].signal(signal.SIGCONT)
            pause = time.monotonic() - stopped
            transfer.wait()
            if pause < 0.4:
                break
        self.assertLess(pause, 0.4, "the machine is too busy to say")
        self.assert_code(transfer, ExitCode.SUCCESS)
        for agent in agents:
            self.assert_copy(source, agent.root / f"copy{attempt}")

    def test_all_killed(self):
        agents = self.agents(3)
        transfer = self.start(self.file(SIZE), "copy", "--limit-rate", RATE, to=agents)
        transfer.wait_for_bytes(SIZE // 4)
        for agent in agents:
            agent.signal(signal.SIGKILL)
        self.assert_code(transfer.wait(), ExitCode.ALL_FAILED)
        for agent in agents:
            self.assertIn(agent.host, transfer.errors)
            for path in agent.root.iterdir():
                self.assertTrue(path.name.endswith(".rdmc-partial"), path)
                path.unlink()  # No process was left that could remove the partial file.

    def test_two_killed_one_after_the_other(self):
        agents = self.agents(6)
        source = self.file(SIZE)
        transfer = self.start(source, "copy", "--limit-rate", RATE, to=agents)
        for victim, share in ((1, 0.2), (4, 0.6)):
            transfer.wait_for_bytes(int(SIZE * share))
            agents[victim].signal(signal.SIGKILL)
        self.assert_code(transfer.wait(), ExitCode.SOME_FAILED)
        for index, agent in enumerate(agents):
            if index in (1, 4):
                self.assertEqual(transfer.receivers[agent.host]["status"], "failed")
                self.assertFalse((agent.root / "copy").exists())
                for path in agent.root.iterdir():
                    path.unlink()
            else:
                self.assert_copy(source, agent.root / "copy")

    def test_asked_to_stop(self):
        source, agents, transfer = self.strike(signal.SIGTERM, 0.5)
        self.assert_survivors_have_it(source, agents, transfer)
        self.assertEqual(agents[1].process.wait(10), 0)
        self.assert_nothing_in(agents[1].root)


class HungDisk(BcastCase):
    def test_does_not_keep_an_agent_that_is_asked_to_stop(self):
        mark = self.folder / "mark"
        agent = self.agent(command_prefix=["env", f"LD_PRELOAD={os.environ['RDMC_HUNG_DISK']}",
                                           f"RDMC_HUNG_DISK_MARK={mark}", "ASAN_OPTIONS=verify_asan_link_order=0"])
        transfer = self.start(self.file(MIB), "copy", to=[agent])
        wait_until(mark.exists, "the disk hangs")
        agent.signal(signal.SIGTERM)
        self.assertEqual(agent.process.wait(12), ExitCode.LOCAL_ERROR)
        self.assert_code(transfer.wait(), ExitCode.ALL_FAILED)
        self.assertFalse((agent.root / "copy").exists())
        for path in agent.root.iterdir():
            path.unlink()  # The agent did not wait for its slow disk, so it has left its partial file.


class Sender(BcastCase):
    def strike(self, number, moment):
        agents = self.agents(3)
        transfer = self.start(self.file(SIZE), "copy", "--limit-rate", RATE, to=agents)
        transfer.wait_for_bytes(int(SIZE * moment))
        transfer.process.send_signal(number)
        struck = time.monotonic()
        transfer.wait()
        self.assertLess(time.monotonic() - struck, 5.0)
        self.assert_nothing_in(*(agent.root for agent in agents))
        self.assert_usable(agents)
        return transfer

    def test_interrupted(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            for moment in (0.0, 0.5):
                with self.subTest(signal=number, moment=moment):
                    transfer = self.strike(number, moment)
                    self.assert_code(transfer, ExitCode.INTERRUPTED)
                    self.assertIn("interrupt", transfer.errors.lower())

    def test_killed_while_it_has_blocks_that_nobody_else_has(self):
        for moment in MOMENTS:
            with self.subTest(moment=moment):
                self.assertEqual(self.strike(signal.SIGKILL, moment).code, -signal.SIGKILL)

    def test_what_died_with_it_is_said(self):
        agents = self.agents(3)
        transfer = self.start(self.file(SIZE), "copy", "--limit-rate", RATE, to=agents)
        transfer.wait_for_bytes(SIZE // 4)
        transfer.process.kill()
        transfer.wait()
        for agent in agents:
            wait_until(lambda: "nobody alive holds" in agent.output(), f"{agent.host} says why", 5)
            self.assertRegex(agent.output(), r"the sender died and nobody alive holds \d+ of the \d+ blocks")


class Survivors(BcastCase):
    """The sender dies when the receivers together have every block. They must complete the transfer without the
    sender."""

    def begin(self, *options):
        """Starts a transfer in which the disk of the last agent is slow. Returns when all other agents have the whole
        file and this agent does not have it."""
        for _ in range(5):  # On a busy machine, the slow agent may be ready before this process sees the others.
            agents = [*self.agents(3), self.agent(environment=SLOW_DISK)]
            source = self.file(SLOW_SIZE)
            # For each write, a slow disk takes the same time. So the block size determines how long the file
            # takes.
            transfer = self.start(source, "copy", "--block-size", "128K", *options, to=agents)
            self.wait_for_committed_copies(agents[:3])
            if not (agents[3].root / "copy").exists():
                break
            transfer.wait()
        self.assertFalse((agents[3].root / "copy").exists(), "the slow one lags behind")
        for partial in agents[3].root.glob(".copy*"):
            self.assertEqual(stat.S_IMODE(partial.stat().st_mode) & 0o077, 0, "others could read it")
        return source, agents, transfer

    def wait_for_committed_copies(self, agents):
        """Waits until each agent has the final file and no partial file. For a moment, a file has both names. An agent
        that is killed in this moment leaves both names."""
        for agent in agents:
            wait_until(lambda: [path.name for path in agent.root.iterdir()] == ["copy"],
                       f"{agent.host} has the file and nothing else")

    def assert_all_have_it(self, source, agents, within):
        begun = time.monotonic()
        self.wait_for_committed_copies(agents)
        self.assertLess(time.monotonic() - begun, within)
        for agent in agents:
            self.assert_copy(source, agent.root / "copy")

    def test_the_sender_is_killed(self):
        source, agents, transfer = self.begin()
        transfer.process.kill()
        self.assert_all_have_it(source, agents, SURVIVORS_BOUND)
        transfer.wait()
        self.assert_usable(agents)

    def test_the_next_in_line_is_killed_with_it(self):
        source, agents, transfer = self.begin()
        agents[0].signal(signal.SIGKILL)
        transfer.process.kill()
        self.assert_all_have_it(source, agents, SURVIVORS_BOUND)
        transfer.wait()
        self.assert_usable(agents[1:])

    def test_the_sender_is_stopped_and_comes_back(self):
        source, agents, transfer = self.begin()
        transfer.process.send_signal(signal.SIGSTOP)
        self.assert_all_have_it(source, agents, SURVIVORS_BOUND)
        transfer.process.send_signal(signal.SIGCONT)
        self.assert_code(transfer.wait(), ExitCode.SOME_FAILED)  # The sender knows only this outcome.
        self.assertEqual(transfer.receivers[agents[0].host]["status"], "ok", str(transfer))
        self.assertRegex(transfer.receivers[agents[3].host]["cause"],
                         r"^this sender was stopped for \d.* and the receivers went on without it")
        self.assert_all_have_it(source, agents, 1)
        self.assert_usable(agents)


class Local(BcastCase):
    """Tests --local: the receivers are children of the sender, and end together with it."""

    def start_local(self, *options):
        copies = self.folder / "copies"
        transfer = self.start(self.file(SIZE), copies, "--local", 4, "--limit-rate", RATE, *options, start_new_session=True)
        transfer.wait_for_bytes(SIZE // 4)
        return transfer, copies

    def receivers_of(self, transfer):
        return [pid for pid, _ in processes_marked(self.mark) if pid != transfer.process.pid]

    def test_interrupted_from_the_terminal(self):
        transfer, copies = self.start_local()
        os.killpg(transfer.process.pid, signal.SIGINT)  # As in a terminal, all processes of the group get the signal.
        self.assert_code(transfer.wait(), ExitCode.INTERRUPTED)
        self.assert_nothing_in(copies)
        self.assertEqual(self.receivers_of(transfer), [])

    def test_asked_twice_the_receivers_end_with_the_sender(self):
        """After a second signal, no receiver may continue without the sender. One receiver is stopped. If the others
        continued, they would wait for it."""
        transfer, copies = self.start_local("--suspect-after", "10s")
        os.kill(self.receivers_of(transfer)[0], signal.SIGSTOP)
        # The two signals are different. Two signals of the same kind could arrive as one.
        for number in (signal.SIGINT, signal.SIGTERM):
            transfer.process.send_signal(number)
        self.assertEqual(transfer.process.wait(10), ExitCode.INTERRUPTED)
        wait_until(lambda: not self.receivers_of(transfer), "the receivers have ended", 2)
        self.assert_code(transfer.wait(), ExitCode.INTERRUPTED)
        self.assert_nothing_in(copies)

    def test_the_sender_is_killed(self):
        transfer, copies = self.start_local()
        transfer.process.kill()
        transfer.wait()
        wait_until(lambda: not self.receivers_of(transfer), "the receivers have ended", 5)
        self.assert_nothing_in(copies)

    def test_the_sender_is_killed_when_a_receiver_has_everything(self):
        copies = self.folder / "copies"
        source = self.file(SLOW_SIZE)
        transfer = self.start(source, copies, "--local", 4, environment=SLOW_DISK)
        wait_until(lambda: list(copies.glob("*/source.bin")), "somebody has the file")
        transfer.process.kill()
        transfer.wait()
        wait_until(lambda: not self.receivers_of(transfer), "the receivers have ended", SURVIVORS_BOUND)
        for receiver in range(4):
            self.assert_copy(source, copies / str(receiver) / "source.bin")

    def test_a_receiver_is_killed(self):
        transfer, copies = self.start_local()
        os.kill(self.receivers_of(transfer)[0], signal.SIGKILL)
        self.assert_code(transfer.wait(), ExitCode.SOME_FAILED)
        self.assertEqual([transfer.summary[key] for key in ("ok", "failed", "refused")], [3, 1, 0])
        whole = list(copies.glob("*/source.bin"))
        self.assertEqual(len(whole), 3)
        for copy in whole:
            self.assert_copy(self.folder / "source.bin", copy)
        self.assertEqual(list(copies.rglob("*.rdmc-partial")), [], "the sender is there to remove it")


    def test_a_receiver_is_stopped(self):
        """The stopped receiver must be fenced, and the others must get the file. After that, no process may wait for
        the stopped one."""
        transfer, copies = self.start_local()
        os.kill(self.receivers_of(transfer)[0], signal.SIGSTOP)
        wait_until(lambda: len(transfer.of_kind("receiver")) == 4, "all have an outcome")
        told = time.monotonic()
        self.assert_code(transfer.wait(), ExitCode.SOME_FAILED)
        self.assertLess(time.monotonic() - told, 3.0)
        self.assertEqual(len(list(copies.glob("*/source.bin"))), 3)
        self.assertEqual(list(copies.rglob("*.rdmc-partial")), [])

    def test_interrupted_at_the_start(self):
        """While the receivers start, they ignore the signal. Only the sender handles it, and reports the result."""
        source, copies = self.file(SIZE), self.folder / "copies"
        for delay in (0.003, 0.006, 0.01, 0.02, 0.05):
            with self.subTest(delay=delay):
                transfer = self.start(source, copies, "--local", 4, "--limit-rate", "10m", "--overwrite",
                                      start_new_session=True)
                wait_until(lambda: self.blocks_signals(transfer.process.pid), "it listens to signals")
                time.sleep(delay)
                os.killpg(transfer.process.pid, signal.SIGINT)
                self.assert_code(transfer.wait(), ExitCode.INTERRUPTED)
                self.assertEqual([transfer.summary[key] for key in ("ok", "failed")], [0, 4])
                self.assert_nothing_in(copies)

    @staticmethod
    def blocks_signals(pid):
        status = pathlib.Path("/proc", str(pid), "status").read_text()
        return int(re.search(r"SigBlk:\s*(\w+)", status)[1], 16) & 1 << signal.SIGINT - 1


class StuckReader(BcastCase):
    """No process reads the program's output. This must not stop a transfer or prevent its end. Signals must still
    work."""

    def full_pipe(self):
        reading, writing = os.pipe()
        for end in (reading, writing):
            self.addCleanup(os.close, end)
        os.set_blocking(writing, False)
        for size in (4096, 1):
            try:
                while os.write(writing, bytes(size)):
                    pass
            except BlockingIOError:
                pass
        os.set_blocking(writing, True)
        return writing

    def run_stuck(self, stream, *arguments):
        streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: self.full_pipe()}
        process = subprocess.Popen([BCAST, *map(str, arguments)], stdin=subprocess.DEVNULL, env=self.environment, **streams)
        self.addCleanup(process.kill)
        return process

    def local(self, stream):
        source, copies = self.file(MIB), self.folder / f"copies-{stream}"
        process = self.run_stuck(stream, "--local", 2, "--json", source, copies)
        wait_until(lambda: len(list(copies.glob("*/source.bin"))) == 2, "both have the file")
        return process

    def test_of_a_transfer_that_is_done(self):
        self.assertEqual(self.local("stdout").wait(15), ExitCode.SUCCESS)

    def test_and_the_user_wants_out(self):
        for stream in ("stdout", "stderr"):
            process = self.local(stream)
            process.send_signal(signal.SIGINT)
            self.assertIn(process.wait(4), (ExitCode.SUCCESS, ExitCode.INTERRUPTED))

    def test_of_an_agent_that_is_asked_to_stop(self):
        process = self.run_stuck("stderr", "agent", "--listen", f"{self.net}.1", "--root", self.folder, "--insecure")
        wait_until(lambda: listens(process.pid, f"{self.net}.1", self.port), "the agent listens")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(5), ExitCode.SUCCESS)


if __name__ == "__main__":
    unittest.main()
