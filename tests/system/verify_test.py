#!/usr/bin/env python3
"""Runs rank programs whose replicas do not send the same: a replica with a wrong bit, and replicas that have diverged.
rdmc_run must name the first message that differs. rank_checks.cpp has the scenarios; the replica 1 of rank 1 is the one
that does not do the same as the others."""
import json
import os
import subprocess
import threading
import unittest

from harness import PATIENCE

RUN = os.environ["RDMC_RUN"]
CHECKS = os.environ["RDMC_RANK_CHECKS"]  # rank_checks.cpp
PROGRAMS = json.loads(os.environ["RDMC_EXAMPLES"])
EXAMPLES = {"stencil": ("--size", "64", "--iterations", "100"), "cg": ("--size", "64", "--iterations", "50"),
            "alltoall": ("--size", "128", "--iterations", "10")}
DIFFERS = 126
PROTOCOLS = ("--protocol", "sdr"), ("--protocol", "sdr", "--strict"), ("--protocol", "mirror")
VERIFY = ("--verify", "hash")


def run(scenario, *options, degree=2):
    return subprocess.run([RUN, "-n", "3", "-r", str(degree), *options, CHECKS, scenario], text=True, capture_output=True,
                          stdin=subprocess.DEVNULL, timeout=3 * PATIENCE)


def events(result, kind):
    return [event for event in map(json.loads, result.stdout.splitlines()) if event["event"] == kind]


class Found(unittest.TestCase):
    def assert_found(self, scenario, message, *options, degree=2):
        """`message` has the fields of the first message that differs."""
        with self.subTest(scenario=scenario, options=options, degree=degree):
            result = run(scenario, "--json", *options, degree=degree)
            self.assertEqual(result.returncode, DIFFERS, result.stderr)
            found = events(result, "difference")[0]
            self.assertEqual({key: found[key] for key in message}, message)
            self.assertEqual(found["rank"], 1)
            self.assertEqual(found["minority"], [1] if degree > 2 else [])
            self.assertIn("the replicas of rank 1 have not sent the same: message", result.stderr)
            return found


class Verify(Found):
    def test_a_wrong_bit_is_found_at_its_first_message(self):
        for protocol in PROTOCOLS:
            for degree in 2, 3:
                message = {"destination": 2, "communicator": 0, "collective": False, "tag": 3, "sequence": 7}
                found = self.assert_found("flips", message, *protocol, *VERIFY, degree=degree)
                digests = [version["digest"] for version in found["versions"]]
                self.assertEqual((len(digests), len(set(digests))), (degree, 2))

    def test_a_wrong_bit_of_a_long_message_and_of_a_collective_operation_is_found(self):
        for protocol in PROTOCOLS:
            self.assert_found("flips_long", {"destination": 2, "tag": 4, "sequence": 0}, *protocol, *VERIFY, degree=3)
            self.assert_found("flips_in_collective", {"communicator": 0, "collective": True}, *protocol, *VERIFY, degree=3)

    def test_a_wrong_bit_of_a_replica_that_has_replaced_another_one_is_found(self):
        for protocol in PROTOCOLS[0], PROTOCOLS[2]:
            with self.subTest(protocol=protocol):
                process = subprocess.Popen([RUN, "--json", "-n", "3", "-r", "2", *protocol, *VERIFY, CHECKS, "flips_later"],
                                           text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
                errors = []
                reader = threading.Thread(target=lambda: errors.append(process.stderr.read()))
                reader.start()
                seen, is_killed = [], False
                for line in process.stdout:
                    seen.append(json.loads(line))
                    victim = [event["pid"] for event in seen if event["event"] == "started" and (event["rank"], event["replica"]) == (1, 1)]
                    if victim and not is_killed:
                        os.kill(victim[0], 9)
                        is_killed = True
                reader.join()
                self.assertEqual(process.wait(PATIENCE), DIFFERS, errors)
                process.stdout.close()
                process.stderr.close()
                found = [event for event in seen if event["event"] == "difference"]
                self.assertEqual([event["rank"] for event in found], [1])
                self.assertEqual((found[0]["tag"], found[0]["destination"]), (3, 2))

    def test_a_run_goes_on_if_it_only_reports_differences(self):
        result = run("flips", "--json", *VERIFY, "--verify-action", "report", degree=3)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([event["sequence"] for event in events(result, "difference")], [7])
        self.assertEqual(events(result, "summary")[0]["differences"], 1)

    def test_excepted_messages_are_not_compared(self):
        for exception in "tag=3", "communicator=0", "tag=1,tag=3":
            result = run("flips", *VERIFY, "--verify-except", exception)
            self.assertEqual((result.returncode, result.stdout), (0, "right\n"), result.stderr)
        self.assert_found("flips", {"tag": 3}, *VERIFY, "--verify-except", "tag=4,communicator=1")

    def test_right_programs_are_found_right(self):
        for name, options in EXAMPLES.items():
            for protocol in PROTOCOLS:
                with self.subTest(name=name, protocol=protocol):
                    result = subprocess.run([RUN, "--json", "-n", "3", "-r", "2", *protocol, *VERIFY, PROGRAMS[name], *options], text=True,
                                            capture_output=True, stdin=subprocess.DEVNULL, timeout=2 * PATIENCE)
                    self.assertEqual(result.returncode, 0, result.stderr)
                    summary = events(result, "summary")[0]
                    self.assertEqual((summary["differences"], summary["uncompared"]), (0, 0))

    def test_wrong_options_are_refused(self):
        for options in (("--verify-except", "tag=3"), (*VERIFY, "--verify-except", "tag=x"), (*VERIFY, "--verify-action", "no"),
                        ("--verify-action", "report")):
            result = run("flips", *options)
            self.assertEqual(result.returncode, 125, options)


class Diverged(Found):
    """Without --verify, replicas that have diverged are found by the lengths and the numbers of their messages."""

    def test_a_message_that_only_one_replica_sends_is_named(self):
        for protocol in PROTOCOLS[0], PROTOCOLS[2]:
            for scenario, length in ("sends_more", 8), ("sends_more_long", 100_000):
                found = self.assert_found(scenario, {"destination": 0, "tag": 3, "sequence": 10}, *protocol, degree=3)
                self.assertEqual([version.get("bytes") for version in found["versions"]], [None, length, None])

    def test_a_message_with_another_length_is_named(self):
        for protocol in PROTOCOLS:
            found = self.assert_found("sends_longer", {"destination": 0, "tag": 3, "sequence": 5}, *protocol)
            self.assertEqual([version["bytes"] for version in found["versions"]], [8, 9])

    def test_a_message_with_another_tag_is_named(self):
        found = self.assert_found("sends_elsewhere", {"destination": 0, "sequence": 0})
        self.assertIn(found["tag"], (5, 6))

    def test_replicas_that_wait_for_each_other_are_named(self):
        """All replicas wait for ever here, so the difference is found after Links::kDivergedPatience."""
        found = self.assert_found("sends_more", {"destination": 0}, "--strict")
        self.assertIn((found["tag"], found["sequence"]), ((3, 10), (4, 0)))


if __name__ == "__main__":
    unittest.main()
