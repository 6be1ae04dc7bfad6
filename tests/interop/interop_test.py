#!/usr/bin/env python3
"""interop_test.py PROGRAMS [--write]: boots the guest, runs the matrix of cases.py with the rdmc programs in the folder
PROGRAMS, and compares the results with docs/interop. `--write` replaces docs/interop by the new results.
`interop_test.py --page` only makes docs/interop.md from docs/interop.

Exit status:
- 0 if everything is as docs/interop.md describes.
- 1 if something is not, or if the run exceeded its time limit.
- 77 if the matrix did NOT run, or not completely, because something is missing. The last line of the output names what
  is missing."""
import contextlib
import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lab"))
import budget
import capture
import cases
import failures
import groups
import guest
import lab
import links
import report
import sockets
import unicast

# This limit only ends a lab that hangs. From the guest's boot to the documents, the lab takes 3 minutes on two idle
# cores, and 6 minutes on slow cores while a compilation runs.
BUDGET_SECONDS = 900
WRITING_BUDGET_SECONDS = 2 * BUDGET_SECONDS
SAMPLE_ITERATIONS, SAMPLE_ITERATIONS_LOSSY = 3, 100
VERBS_TESTS = ["verbs_fabric_test", "verbs_failures_test", "verbs_memory_test"]
VERBS_SECONDS = 90
FAILURES = []


def failed(what):
    print(f"FAILED: {what}", flush=True)
    FAILURES.append(what)


def check_documents():
    """Checks the files in docs/interop: the captures must be correct and small, and the page must match them."""
    paths = report.captures()
    if sum(path.stat().st_size for path in paths) > report.CAPTURE_BYTES:
        failed(f"the captures in {report.FOLDER} take more than {report.CAPTURE_BYTES} bytes")
    for path in paths:
        for line in capture.complaints(path):
            failed(f"tshark on {path.name}: {line}")
        for packet in capture.load(path).packets:
            if not packet.sound:
                failed(f"{path.name}: wrong ICRC")
    if not report.PAGE.is_file() or report.PAGE.read_text() != report.page():
        failed("docs/interop.md is not what docs/interop makes: run tests/interop/interop_test.py --page")


def run_case(runner, case):
    """Runs a case. Returns "pass" or "fail: why", and the number of packets that were lost on purpose."""
    lost = 0
    try:
        ours, seen, lost = runner.run(case, cases.ITERATIONS)
        wrong = cases.judge(case, ours, seen, lost)
    except guest.Failed as error:
        wrong = str(error).strip().replace("\n", "; ")
    return (f"fail: {wrong}" if wrong else "pass"), lost


def has_dpdk(programs):
    """Returns true if the build of the rdmc programs has the DPDK module that they load."""
    return (programs.parents[1] / "dataplane/port/dpdk/librdmc_dpdk.so").is_file()


def run_matrix(runner, drivers):
    results = {}
    for case in cases.all_cases():
        if case.reason_not_run() or case.driver not in drivers:
            continue
        start = time.monotonic()
        results[str(case)], lost = run_case(runner, case)
        struck = f", {lost} packets lost" if case.loss else ""
        print(f"{time.monotonic() - start:5.1f} s  {case}: {results[str(case)]}{struck}", flush=True)
    return results


def run_verbs(machine):
    """Runs the verbs provider's own tests on the guest's RDMA device."""
    for test in VERBS_TESTS:
        try:
            print(machine.run(f"RDMC_VERBS_ADDRESS={guest.GUEST4} {test}", VERBS_SECONDS).strip())
        except guest.Failed as error:
            failed(f"{test} in the guest: {error}")


def run_talks(outcomes):
    """Runs the cases of groups, sockets or unicast, and prints their outcomes. All must pass."""
    start = time.monotonic()
    for what, outcome in outcomes:
        print(f"{time.monotonic() - start:5.1f} s  {what}: {outcome}", flush=True)
        start = time.monotonic()
        if outcome != "pass":
            failed(f"{what}: {outcome}")


def run_failures(runner, machine, programs):
    wrong_key = programs.parent.parent / "tests/apps/tools"
    ours = {"pingpong": programs / "rdmc_pingpong",
            **{name: wrong_key / f"ping_{name}_a_wrong_key" for name in ("tells", "uses")}}
    results = {}
    for what, results[what], seconds in failures.run(failures.Lab(runner, machine, lab.run, ours, groups.SECOND_HOST4)):
        print(f"{seconds:5.1f} s  {what}: {results[what]}", flush=True)
    return results


def sampled_mtu(case):
    return 1024 if case.role == cases.CLIENT or case.driver == cases.TAP else 4096


def sampled():
    """Yields the cases whose captures are stored. There is one case for each combination of peer, driver, role and
    address family, and one case with losses for each peer."""
    for case in cases.all_cases():
        if case.reason_not_run() is None and case.mtu == sampled_mtu(case):
            if not case.loss or (case.family == 4 and case.role == cases.CLIENT and case.driver == cases.UDP):
                yield case


def write_samples(runner):
    for path in report.captures():
        path.unlink()
    for case in sampled():
        ours, seen, lost = runner.run(case, SAMPLE_ITERATIONS_LOSSY if case.loss else SAMPLE_ITERATIONS)
        if wrong := cases.judge(case, ours, seen, lost):
            failed(f"the sample of {case}: {wrong}")
        name = "-".join([case.peer, case.driver.split()[0].lower(), case.role, f"ipv{case.family}", str(case.mtu),
                         *(["loss"] if case.loss else [])]).replace(" ", "-")
        seen.save(report.FOLDER / f"{name}.pcap.gz")


def run_all(programs, drivers, write, stages):
    """Runs everything. Returns the outcomes by the names of the cases and of the cells of failures.py."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as running:
        build = programs.parent.parent
        bcast, socket_peer = build / "apps/bcast-cli/rdmc_bcast", build / "tests/interop/socket_peer"
        unicast_peer = build / "tests/system/unicast_peer"
        ours = [programs / "rdmc_pingpong", bcast, socket_peer, unicast_peer, *(build / "tests/dataplane/fabric" / test for test in VERBS_TESTS)]
        with stages.stage("boot"):
            joined = running.enter_context(links.Links(lab.run))
            machine = running.enter_context(guest.Guest(folder, lab.run, joined, ours))
        runner = cases.Runner(machine, lab.run, programs)
        with stages.stage("verbs"):
            run_verbs(machine)
        with stages.stage("groups"):
            run_talks(groups.run(machine, bcast, folder))
        with stages.stage("sockets"):
            run_talks(sockets.run(machine, socket_peer))
        with stages.stage("unicast"):
            run_talks(unicast.run(machine, unicast_peer))
        with stages.stage("failures"):
            results = run_failures(runner, machine, programs)
        with stages.stage("matrix"):
            results |= run_matrix(runner, drivers)
        if write:
            with stages.stage("samples"):
                report.save_results(results)
                write_samples(runner)
                report.PAGE.write_text(report.page())
        return results


def compare(results):
    """Compares the results with docs/interop. If a case did not run, this is no error here."""
    expected = report.load_results()
    for what, now in results.items():
        if now != "pass" or expected.get(what) != "pass":
            failed(f"{what}: {now}; docs/interop.md says {expected.get(what, 'not run')}")
    for what in expected.keys() - {str(case) for case in cases.all_cases()} - failures.CELLS.keys():
        failed(f"docs/interop.md tells of a case that there is not: {what}")


def main(arguments):
    if arguments == ["--page"]:
        report.PAGE.write_text(report.page())
        return 0
    write = "--write" in arguments
    programs = pathlib.Path([a for a in arguments if a != "--write"][0]).resolve()
    drivers = [cases.UDP, cases.AF_PACKET, cases.TAP] if has_dpdk(programs) else [cases.UDP]
    missing = guest.missing()
    if missing:
        print("the matrix did NOT run; missing: " + "; ".join(missing))
        return lab.SKIPPED
    lab.enter()
    try:
        with budget.Budget(WRITING_BUDGET_SECONDS if write else BUDGET_SECONDS) as stages:
            results = run_all(programs, drivers, write, stages)
            with stages.stage("documents"):
                compare(results)
                check_documents()
            print(f"time: {stages}")
    except budget.OverBudget as over:
        failed(str(over))
        return 1
    print(f"{sum(value == 'pass' for value in results.values())} runs passed, {len(FAILURES)} complaints")
    left_out = sum(case.reason_not_run() is None and case.driver not in drivers for case in cases.all_cases())
    if left_out and not FAILURES:
        print(f"{left_out} runs over DPDK did NOT take place: its module was not built (libdpdk-dev)")
        return lab.SKIPPED
    return 1 if FAILURES else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
