#!/usr/bin/env python3
"""interop_test.py PROGRAMS [--write]: boots the guest, runs the matrix of cases.py with our programs in the folder
PROGRAMS, and compares with docs/interop. `--write` puts what it saw there instead. `interop_test.py --page` only makes
docs/interop.md from docs/interop.

Exit: 0 everything is as docs/interop.md says, 1 not, 77 the matrix did NOT run, or not all of it, because something is
missing or the machine is too busy; the last line says what."""
import os
import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lab"))
import capture
import cases
import failures
import groups
import guest
import lab
import links
import report

# No run begins later: ./check promises 6 minutes. On two idle cores all takes less than half of that.
BUDGET_SECONDS = 300
SAMPLE_ITERATIONS, SAMPLE_ITERATIONS_LOSSY = 3, 100
VERBS_TESTS = ["verbs_fabric_test", "verbs_failures_test", "verbs_memory_test"]
VERBS_SECONDS = 90
FAILURES = []


def failed(what):
    print(f"FAILED: {what}", flush=True)
    FAILURES.append(what)


def check_documents():
    """What is checked in: captures that are sound and small, and the page that belongs to them."""
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


def judge(ours, seen):
    """Why a run that both programs call a success is none; empty if it is one."""
    if ours["corrupt_packets"] != 0:
        return f"our endpoint dropped {ours['corrupt_packets']} packets as corrupt"
    if ours.get("management_malformed", 0) != 0:
        return f"our connection manager did not understand {ours['management_malformed']} messages"
    if len(seen.sources()) != 2:
        return "not both sides were seen on the wire"
    unsound = sum(not packet.sound for packet in seen.packets)
    return f"{unsound} of {len(seen.packets)} packets have a wrong ICRC" if unsound else ""


def run_case(runner, case):
    """"pass" or "fail: why", and the packets lost on purpose."""
    lost = 0
    try:
        ours, seen, lost = runner.run(case, cases.ITERATIONS)
        wrong = judge(ours, seen)
    except guest.Failed as error:
        wrong = str(error).strip().replace("\n", "; ")
    return (f"fail: {wrong}" if wrong else "pass"), lost


def has_dpdk(programs):
    """Whether the module was built that our programs of that build load."""
    return (programs.parents[1] / "dataplane/port/dpdk/librdmc_dpdk.so").is_file()


def run_matrix(runner, deadline, drivers):
    results, lost = {}, 0
    for case in cases.all_cases():
        if case.reason_not_run() or case.driver not in drivers:
            continue
        if time.monotonic() > deadline:
            break
        start = time.monotonic()
        results[str(case)], struck = run_case(runner, case)
        lost += struck
        print(f"{time.monotonic() - start:5.1f} s  {case}: {results[str(case)]}", flush=True)
    if any(case.loss and str(case) in results for case in cases.all_cases()) and lost == 0:
        failed("no packet was lost in the runs that lose packets")
    return results


def run_verbs(machine, bcast, folder):
    """Our programs on the guest's RDMA device: the provider's tests, and groups of both kinds."""
    start = time.monotonic()
    for test in VERBS_TESTS:
        try:
            print(machine.run(f"RDMC_VERBS_ADDRESS={guest.GUEST4} {test}", VERBS_SECONDS).strip())
        except guest.Failed as error:
            failed(f"{test} in the guest: {error}")
    print(f"{time.monotonic() - start:5.1f} s  the provider's own tests", flush=True)
    start = time.monotonic()
    for what, outcome in groups.run(machine, bcast, folder):
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
    """The cases whose captures are kept: each peer, driver, role and address family once, and of each peer one with
    losses."""
    for case in cases.all_cases():
        if case.reason_not_run() is None and case.mtu == sampled_mtu(case):
            if not case.loss or (case.family == 4 and case.role == cases.CLIENT and case.driver == cases.UDP):
                yield case


def write_samples(runner):
    for path in report.captures():
        path.unlink()
    for case in sampled():
        _, seen, _ = runner.run(case, SAMPLE_ITERATIONS_LOSSY if case.loss else SAMPLE_ITERATIONS)
        name = "-".join([case.peer, case.driver.split()[0].lower(), case.role, f"ipv{case.family}", str(case.mtu),
                         *(["loss"] if case.loss else [])]).replace(" ", "-")
        seen.save(report.FOLDER / f"{name}.pcap.gz")


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
    deadline = time.monotonic() + BUDGET_SECONDS
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        build = programs.parent.parent
        bcast = build / "apps/bcast-cli/rdmc_bcast"
        ours = [programs / "rdmc_pingpong", bcast, *(build / "tests/dataplane/fabric" / test for test in VERBS_TESTS)]
        with links.Links(lab.run) as joined, guest.Guest(folder, lab.run, joined, ours) as machine:
            print(f"the guest was up after {time.monotonic() - start:.0f} s", flush=True)
            run_verbs(machine, bcast, folder)
            runner = cases.Runner(machine, lab.run, programs)
            results = run_failures(runner, machine, programs)
            results |= run_matrix(runner, deadline, drivers)
            if write:
                report.save_results(results)
                write_samples(runner)
                report.PAGE.write_text(report.page())
    expected = report.load_results()
    left_out = [case for case in cases.all_cases() if case.reason_not_run() is None and str(case) not in results]
    for case in cases.all_cases():
        if case in left_out:
            continue
        now, then = results.get(str(case)), expected.get(str(case))
        if (now or "not run").split(":")[0] != (then or "not run").split(":")[0]:
            failed(f"{case}: {now or 'not run'}; docs/interop.md says {then or 'not run'}")
        elif now is not None and now != "pass":
            failed(f"{case}: {now}")
    for what in failures.CELLS:
        if results[what] != "pass" or expected.get(what) != "pass":
            failed(f"{what}: {results[what]}; docs/interop.md says {expected.get(what)}")
    check_documents()
    print(f"{sum(value == 'pass' for value in results.values())} runs passed, {len(FAILURES)} complaints")
    if len(drivers) == 1 and not FAILURES:
        print(f"{len(left_out)} runs over DPDK did NOT take place: its module was not built (libdpdk-dev)")
        return lab.SKIPPED
    if left_out and not FAILURES:
        print(f"{len(left_out)} of {len(left_out) + len(results)} runs did NOT take place: with a load of "
              f"{os.getloadavg()[0]:.0f} the others took {BUDGET_SECONDS} s")
        return lab.SKIPPED
    return 1 if FAILURES else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
