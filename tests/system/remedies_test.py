#!/usr/bin/env python3
"""Runs every remedy that rdmc_doctor can print, exactly as printed, in a shell. If a network or mount namespace
isolates the change, the change is really made, and its effect is checked. Other remedies change the machine (packages,
kernel modules, system-wide limits). For these, the PATH contains a substitute of the program. The substitute checks
whether the real program would accept the arguments."""
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / "lab"))
import lab

DOCTOR = os.environ.get("RDMC_DOCTOR")
PRINT_REMEDIES = os.environ.get("RDMC_PRINT_REMEDIES")
HAS_DPDK = os.environ.get("RDMC_HAS_DPDK") == "1"
INTERFACE, ADDRESS = "left", "10.66.0.1"
PATIENCE = 120

# A project with the optional dependencies of the real meson.build. It is configured much faster than the real
# one.
PROJECT = """project('small')
verbs_dep = dependency('libibverbs', version: '>= 1.14', required: get_option('verbs'), include_type: 'system')
dpdk_dep = dependency('libdpdk', version: '>= 22.11', required: get_option('dpdk'), include_type: 'system')
configure_file(output: 'found', output_format: 'nasm', configuration: {
  'libibverbs': verbs_dep.found().to_int(), 'libdpdk': dpdk_dep.found().to_int()})
custom_target('done', output: 'done', command: ['touch', '@OUTPUT@'], build_by_default: true)
"""
# The package of the distribution that contains each dependency, and the version of the dependency.
BRINGS = {"libibverbs-dev": "libibverbs 1.14.44.0", "libdpdk-dev": "libdpdk 22.11.5"}

# The substitutes of the real programs. Each of them fails if it does not understand its arguments.
STANDINS = {
    "sudo": 'exec "$@"',
    "reboot": "[ $# = 0 ]",
    "modprobe": "[ $# = 1 ] && case $1 in rdma_rxe|vfio-pci|tun|unix) ;; *) exit 1 ;; esac",
    "rdma": 'case "$*" in "link add rxe0 type rxe netdev "*) ip link show "$7" ;; "link show rxe0") ;; *) exit 1 ;; esac',
    "setcap": '[ $# = 2 ] && [ -f "$2" ] && echo "$1" | grep -Eqx "cap_(net_raw|net_admin|bpf)(,cap_(net_raw|net_admin|bpf))*[+]ep"',
    "fuser": '[ "$1" = -v ] && [ $# -ge 2 ]',
    "dpdk-devbind.py": 'case "$*" in "--status-dev net"|"--bind=vfio-pci 0000:03:00.0") ;; *) exit 1 ;; esac',
    "sysctl": '[ $# = 2 ] && [ "$1" = -w ] && [ -f "/proc/sys/$(echo "${2%%=*}" | tr . /)" ] && [ "${2#*=}" -gt 0 ]',
    "apt-get": """[ "$1" = install ] && shift && for package in "$@"; do
  grep -Eq "^$package[[:space:]]" "$PACKAGES_LIST" || [ "$package" = linux-image-amd64 ] || exit 1
  brings=$(echo "$BRINGS" | sed -n "s/^$package //p")
  [ -z "$brings" ] || printf 'Name: it\\nDescription: it\\nVersion: %s\\n' "${brings#* }" >"$PKG_CONFIG_LIBDIR/${brings% *}.pc"
done""",
}


class Remedies(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        lab.run("ip", "link", "add", INTERFACE, "type", "veth", "peer", "name", "right")
        for link, address in ((INTERFACE, ADDRESS), ("right", "10.66.0.2")):
            lab.run("ip", "address", "add", f"{address}/24", "dev", link)
            lab.run("ip", "link", "set", link, "up")
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.machine = cls.folder / "machine"  # The directory that contains all paths in remedies.
        cls.project = cls.folder / "project"
        for path in (cls.machine / "memif", cls.project / "tools", cls.folder / "packages", cls.folder / "bin"):
            path.mkdir(parents=True)
        for name in ("program", "group", "memif/memif.sock"):
            (cls.machine / name).touch()
        (cls.project / "meson.build").write_text(PROJECT)
        (cls.project / "meson_options.txt").write_text(
            "".join(f"option('{name}', type: 'feature', value: 'auto')\n" for name in ("verbs", "dpdk")))
        shutil.copy(TESTS.parent / "tools/build", cls.project / "tools/build")
        for name, body in {**STANDINS, "rdmc_doctor": f'exec {DOCTOR} --seconds 0.05 "$@"'}.items():
            (cls.folder / "bin" / name).write_text(f"#!/bin/sh\n{body}\n")
            (cls.folder / "bin" / name).chmod(0o755)
        cls.environment = {
            **os.environ, "PATH": f"{cls.folder}/bin:{os.environ['PATH']}", "PKG_CONFIG_LIBDIR": str(cls.folder / "packages"),
            "PACKAGES_LIST": str(TESTS.parent / "tools/packages.txt"),
            "BRINGS": "\n".join(f"{package} {what}" for package, what in BRINGS.items())}
        cls.environment.pop("PKG_CONFIG_PATH", None)
        printed = subprocess.run([PRINT_REMEDIES, INTERFACE, ADDRESS, cls.machine], capture_output=True, text=True, check=True,
                                 env={**cls.environment, "LD_LIBRARY_PATH": ""}, stdin=subprocess.DEVNULL, timeout=PATIENCE)
        cls.remedies = printed.stdout.splitlines()

    def shell(self, script, command_prefix=()):
        """Runs `script` in sh, as if a user had typed it. Returns its output."""
        done = subprocess.run([*command_prefix, "sh", "-c", script], capture_output=True, text=True, check=False,
                              env=self.environment, cwd=self.project, stdin=subprocess.DEVNULL, timeout=PATIENCE)
        self.assertEqual(done.returncode, 0, f"{script}\n{done.stdout}{done.stderr}")
        return done.stdout

    def run_in_its_words(self, remedy):
        self.shell(remedy)

    # The next remedies have an effect that can be checked on this machine.

    def run_package(self, remedy):
        package = re.search("lib[a-z]+-dev", remedy).group()
        self.shell("tools/build build")
        found = self.project / "build/found"
        name = BRINGS[package].split()[0]
        self.assertRegex(found.read_text(), f"{name} 0")
        self.shell(remedy)
        self.assertRegex(found.read_text(), f"{name} 1")

    def run_limit(self, remedy):
        """Runs the remedy in a shell that starts with a lower limit, and that is permitted to raise the limit."""
        letter, wanted = re.fullmatch(r"ulimit -([nvl]) (\w+)", remedy).groups()
        name, few = {"n": ("nofile", 64), "v": ("as", 1 << 33), "l": ("memlock", 1 << 16)}[letter]
        allowed = f"prlimit --pid $$ --{name}={few}:{wanted}"
        if subprocess.run(["sh", "-c", allowed], capture_output=True, check=False).returncode != 0:
            # On a machine that does not permit this limit to any process, rdmc_doctor prints another remedy.
            # In this case, the test uses the largest permitted value.
            wanted = self.shell(f"ulimit -H -{letter}").strip()
            remedy, allowed = f"ulimit -{letter} {wanted}", f"prlimit --pid $$ --{name}={few}:"
        self.assertEqual(self.shell(f"{allowed} && {remedy} && ulimit -{letter}").strip(), wanted)

    def run_prlimit(self, remedy):
        """Runs the remedy as root. This is the remedy for a shell that is not permitted to raise the limit itself."""
        name, wanted = re.search(r"--(\w+)=(\w+)$", remedy).groups()
        letter, few = {"nofile": ("n", 256), "as": ("v", 1 << 33), "memlock": ("l", 1 << 16)}[name]
        lowered = f"prlimit --pid $$ --{name}={few}:{few}"
        if subprocess.run(["sh", "-c", f"{lowered} && {remedy.removeprefix('sudo ')}"], capture_output=True, check=False,
                          ).returncode == 0:
            self.assertEqual(self.shell(f"{lowered}; {remedy}; ulimit -{letter}").strip(), wanted)
        # If this root user is not permitted to raise the limit, the command must at least be correct.
        else:
            done = subprocess.run(["sh", "-c", remedy.removeprefix("sudo ")], capture_output=True, text=True, check=False)
            self.assertTrue(done.returncode == 0 or "Operation not permitted" in done.stderr, done.stderr)

    def run_interface_up(self, remedy):
        lab.run("ip", "link", "set", INTERFACE, "down")
        self.shell(remedy)
        self.assertIn("UP", self.shell(f"ip -brief link show {INTERFACE}").split("<")[1])

    def run_dummy(self, remedy):
        """Makes a dummy interface. If this kernel has no dummy interfaces, makes an interface of another kind."""
        if subprocess.run(["ip", "link", "add", "rdmc-try", "type", "dummy"], capture_output=True, check=False).returncode != 0:
            remedy = remedy.replace("rdmc0 type dummy", "rdmc0 type veth peer name rdmc1")
        self.shell(remedy)
        self.shell("ip link delete rdmc0")

    def run_proc(self, remedy):
        new = ["unshare", "--mount", "--pid", "--fork"]
        self.assertIn("self", self.shell(f"mount -t tmpfs tmpfs /proc && [ ! -e /proc/self ] && {remedy} && ls /proc", new))

    def run_uverbs(self, remedy):
        script = f"mount -t tmpfs tmpfs /dev && mkdir /dev/infiniband && (umask 077; : >/dev/infiniband/uverbs0) && {remedy}"
        self.assertIn("rw-rw-rw-", self.shell(f"{script} && ls -l /dev/infiniband", ["unshare", "--mount"]))

    def run_rights(self, remedy):
        """Runs chmod, chown and install for files in the test's own directory."""
        path = pathlib.Path(remedy.split()[-1])
        self.assertTrue(path.is_relative_to(self.machine), remedy)
        before = path.stat().st_mode if path.exists() else 0o755
        if "chmod" in remedy:
            path.chmod(0o700)
        self.shell(remedy)
        mode = path.stat().st_mode
        self.assertEqual(path.stat().st_uid, os.getuid())
        if "chmod a+x" in remedy:
            self.assertEqual(stat.S_IMODE(mode), 0o711)
        if "chmod a+rwxt" in remedy:
            self.assertEqual(stat.S_IMODE(mode), 0o1777)
        path.chmod(stat.S_IMODE(before))

    def run_doctor(self, remedy):
        """Runs rdmc_doctor as the remedy says. The advised fabric must be usable. A DPDK device is tested only if DPDK
        is installed."""
        if "--device" in remedy and not HAS_DPDK:
            return
        done = subprocess.run(["sh", "-c", remedy], capture_output=True, text=True, check=False, env=self.environment,
                              stdin=subprocess.DEVNULL, timeout=PATIENCE)
        # This machine does not have the card. However, the output must show that the device text was
        # understood.
        if "pci=" in remedy:
            self.assertIn("0000:03:00.0", done.stdout)
        elif "--device" in remedy and "huge=no" not in remedy and done.returncode != 0:
            # If this machine has no free huge pages, the output must tell how to get them.
            self.assertIn("free hugepages", done.stdout)
        else:
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    HOW = [(r"sudo apt-get install lib.* && tools/build build", run_package),
           (r"sudo apt-get install linux-image-amd64 && sudo reboot", run_in_its_words),
           (r"ulimit -\w \w+", run_limit),
           (r"sudo prlimit --pid \$\$ --\w+=\w+", run_prlimit),
           (r"sudo sh -c 'sysctl -w fs\.file-max=.*'", run_in_its_words),
           (r"sudo sysctl -w vm\.\w+=\d+", run_in_its_words),
           (rf"sudo ip link set {INTERFACE} up", run_interface_up),
           (r"ip -brief link|sudo ss -xlp", run_in_its_words),
           (r"sudo ip link add rdmc0 type dummy && .*", run_dummy),
           (r"sudo modprobe rdma_rxe && sudo rdma link add .* && rdmc_doctor --address \S+", run_in_its_words),
           (r"sudo rdma link show \w+", run_in_its_words),
           (r"sudo modprobe \w+", run_in_its_words),
           (r"sudo modprobe vfio-pci && sudo dpdk-devbind\.py --bind=vfio-pci \S+", run_in_its_words),
           (r"dpdk-devbind\.py --status-dev net", run_in_its_words),
           (r"sudo mount -t proc proc /proc", run_proc),
           (r"sudo chmod a\+rw /dev/infiniband/uverbs\*", run_uverbs),
           (r"sudo (chmod a\+x|chmod a\+rwxt|chown \$\(id -u\)|install -d -o \$\(id -u\)) \S+", run_rights),
           (r"sudo setcap \S+ \S+", run_in_its_words),
           (r"sudo fuser -v /dev/vfio/\*", run_in_its_words),
           (r"(sudo )?rdmc_doctor( --(address|device) .+)?", run_doctor)]

    def test_every_remedy_works(self):
        unused = [pattern for pattern, _ in self.HOW]
        for remedy in self.remedies:
            with self.subTest(remedy=remedy):
                how = [(pattern, run) for pattern, run in self.HOW if re.fullmatch(pattern, remedy)]
                self.assertEqual(len(how), 1, f"one way to run it: {remedy}")
                if how[0][0] in unused:
                    unused.remove(how[0][0])
                how[0][1](self, remedy)
        self.assertEqual(unused, [], "remedies that nobody prints")

    def test_the_build_finds_the_optional_packages_of_the_real_project(self):
        top = TESTS.parent
        command = re.search(r'sed -n "[^"]+" meson\.build', (top / "tools/build").read_text()).group()
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True, cwd=top, timeout=PATIENCE)
        self.assertEqual(sorted(done.stdout.split()), ["libdpdk", "libibverbs", "pmix"])


if __name__ == "__main__":
    lab.enter()
    unittest.main()
