"""A machine with foreign software: Debian's kernel with Soft-RoCE, emulated in QEMU. This module makes its initramfs,
which has the tools of rdma-core. The machine's network is a tap in the network namespace in which the test runs. The
machine runs commands that arrive over TCP, with one shell for each connection. The lab's loss rules do not apply to
TCP.

`missing()` returns the things that this host lacks for the machine. The context manager `Guest` boots the machine. The
machine is killed at the end of the context, or when the program ends."""
import contextlib
import ctypes
import os
import pathlib
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import kernel

GUEST4, GUEST6 = "10.78.0.2", "fd78::2"
TAP, COMMAND_PORT = "tap0", 4000
MODULES = ["virtio_pci", "virtio_net", "crc32_generic", "crc32-pclmul", "rdma_rxe", "ib_uverbs", "rdma_cm",
           "rdma_ucm"]
# The programs that must be installed, and the packages that contain them.
PROGRAMS = {"qemu-system-x86_64": "qemu-system-x86", "busybox": "busybox-static", "cpio": "cpio", "depmod": "kmod",
            "ibv_rc_pingpong": "ibverbs-utils", "rping": "rdmacm-utils", "rdma": "iproute2", "ip": "iproute2",
            "nft": "nftables", "tshark": "tshark"}
IN_GUEST = ["ibv_rc_pingpong", "ibv_devinfo", "rping", "rdma"]
PROVIDER, PROVIDER_CONFIG = "/usr/lib/x86_64-linux-gnu/libibverbs/librxe-rdmav34.so", "/etc/libibverbs.d/rxe.driver"
# pthread_exit loads this library, so ldd does not list it.
LOADED_LATE = "/lib/x86_64-linux-gnu/libgcc_s.so.1"
APPLETS = ["sh", "mount", "insmod", "ip", "nc", "timeout", "cat", "grep", "echo", "kill", "killall", "sleep", "ls", "mkdir", "sha256sum", "poweroff"]
MEMORY_MB = 512
# The time limit for an emulated machine on a busy host. On an idle host, booting takes 10 s.
BOOT_SECONDS = 180
PR_SET_PDEATHSIG = 1

INIT = f"""#!/bin/sh
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev
while read -r module; do insmod "/modules/$module" || echo "no $module"; done </modules/order
ip link set lo up
ip link set eth0 mtu 9000 up
ip address add {GUEST4}/24 dev eth0
echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad
ip address add {GUEST6}/64 dev eth0
/usr/bin/rdma link add rxe0 type rxe netdev eth0
nc -ll -p {COMMAND_PORT} -e /bin/sh </dev/null &
while :; do wait; sleep 1000; done
"""


class Failed(Exception):
    """The guest has not done what was requested. The text contains the guest's output."""


def missing():
    """Returns one line for each thing that this host lacks, so no lines if it lacks nothing."""
    lacking = {package for program, package in PROGRAMS.items() if shutil.which(program) is None}
    if not pathlib.Path(PROVIDER).is_file():
        lacking.add("ibverbs-providers")
    lines = [f"packages: {' '.join(sorted(lacking))}"] if lacking else []
    try:
        kernel.find()
    except kernel.Unavailable as error:
        lines.append(str(error))
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        lines.append("/dev/net/tun")
    return lines


def _libraries(program):
    output = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return {word for line in output.splitlines() for word in line.split() if word.startswith("/")}


def make_initramfs(linux, archive, extra=()):
    """Writes the guest's complete file system. `extra` contains further programs for /usr/bin."""
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        for folder in ("bin", "proc", "sys", "dev", "modules", "tmp", "etc/libibverbs.d", "usr/bin"):
            (root / folder).mkdir(parents=True)
        files = {program: f"usr/bin/{pathlib.Path(program).name}"
                 for program in [*map(shutil.which, IN_GUEST), *map(str, extra)]}
        files[shutil.which("busybox")] = "bin/busybox"
        files |= {path: path.lstrip("/") for path in (PROVIDER, PROVIDER_CONFIG, LOADED_LATE)}
        for program in [*files]:
            if program != PROVIDER_CONFIG and not program.endswith("busybox"):
                files |= {library: library.lstrip("/") for library in _libraries(program)}
        for source, place in files.items():
            (root / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, root / place)
        for applet in APPLETS:
            (root / "bin" / applet).symlink_to("busybox")
        needed = kernel.modules(linux, MODULES)
        for module in needed:
            shutil.copy(module, root / "modules")
        (root / "modules/order").write_text("".join(f"{module.name}\n" for module in needed))
        (root / "init").write_text(INIT)
        (root / "init").chmod(0o755)
        listing = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
        with open(archive, "wb") as out:
            subprocess.run(["cpio", "-o", "-H", "newc", "--quiet", "-R", "0:0"], cwd=root, input=listing.encode(),
                           stdout=out, check=True)


def _die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Guest:
    """The running guest. `folder` is for the initramfs and the console log. The guest's tap joins `links`."""

    def __init__(self, folder, run, links, extra=()):
        self.folder, self._run, self._links, self._extra = pathlib.Path(folder), run, links, extra
        self.dump = self.folder / "dump.pcap"  # Every packet on the tap is added to this file.
        self._machine = None

    def __enter__(self):
        linux = kernel.find()
        make_initramfs(linux, self.folder / "initramfs", self._extra)
        self._run("ip", "tuntap", "add", "dev", TAP, "mode", "tap")
        self._links.join_guest(TAP)
        console = open(self.folder / "console", "wb")
        self._machine = subprocess.Popen(
            ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", str(MEMORY_MB),
             "-kernel", linux.image, "-initrd", self.folder / "initramfs",
             "-append", "console=ttyS0 quiet panic=1 mitigations=off", "-nographic", "-no-reboot", "-nodefaults",
             # Without offloads, the dump contains the packets as they would be on a cable.
             "-serial", "stdio", "-netdev", f"tap,id=n0,ifname={TAP},script=no,downscript=no,vnet_hdr=off",
             "-device", "virtio-net-pci,netdev=n0,host_mtu=9000,romfile=",
             "-object", f"filter-dump,id=f0,netdev=n0,maxlen=65536,file={self.dump}"],
            stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.STDOUT, preexec_fn=_die_with_parent)
        console.close()
        try:
            self._wait_until_up()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self._machine.kill()
        self._machine.wait()

    def console(self):
        return (self.folder / "console").read_text(errors="replace")

    def _wait_until_up(self):
        deadline = time.monotonic() + BOOT_SECONDS
        while time.monotonic() < deadline and self._machine.poll() is None:
            with contextlib.suppress(OSError, Failed):
                self.run("true", seconds=10)
                self.run("ls /sys/class/infiniband/rxe0", seconds=10)
                return
            time.sleep(0.2)
        raise Failed(f"the guest did not come up:\n{self.console()[-3000:]}")

    def start(self, command, seconds):
        """Starts `command` in the guest's shell, for at most `seconds`. Returns at once."""
        return Running(command, seconds)

    def run(self, command, seconds=60):
        """Runs `command` to its end, and returns its output. Raises Failed unless the exit status is 0."""
        return self.start(command, seconds).finish()

    def gid_index(self, address):
        """Returns the index of the RoCE v2 GID that contains `address`."""
        wanted = socket.inet_pton(socket.AF_INET6, address if ":" in address else f"::ffff:{address}")
        gids = self.run("cd /sys/class/infiniband/rxe0/ports/1/gids; grep -v 0000:0000:0000:0000:0000:0000:0000:0000 *")
        for line in gids.splitlines():
            index, gid = line.split(":", 1)
            if socket.inet_pton(socket.AF_INET6, gid.strip()) == wanted:
                return int(index)
        raise Failed(f"the guest has no GID for {address}: {gids}")


class Running:
    """A command that runs in the guest. A unique mark and the exit status end its output."""

    def __init__(self, command, seconds):
        self._command, self._mark, self._output = command, f"--{secrets.token_hex(8)}--", b""
        self._deadline = time.monotonic() + seconds
        self._socket = socket.create_connection((GUEST4, COMMAND_PORT), timeout=5)
        # `timeout` also ends the command in the guest. So the command's ports are free for the next command.
        self._socket.sendall(f"timeout -k 1 {seconds} sh -c '{command}' 2>&1; echo {self._mark} $?; exit\n".encode())

    def _read(self, until):
        while (found := until(self._output)) is None:
            left = self._deadline + 5 - time.monotonic()
            if left <= 0:
                raise Failed(f"no answer in time to: {self._command}\n{self._output.decode(errors='replace')}")
            self._socket.settimeout(left)
            try:
                chunk = self._socket.recv(65536)
            except TimeoutError:
                continue
            if not chunk:
                raise Failed(f"the guest hung up on: {self._command}\n{self._output.decode(errors='replace')}")
            self._output += chunk
        return found

    def finish(self):
        mark = f"{self._mark} ".encode()

        def ended(output):
            before, found, after = output.partition(mark)
            return (before.decode(errors="replace"), int(after)) if found and after.endswith(b"\n") else None

        printed, status = self._read(ended)
        self._socket.close()
        if status != 0:
            raise Failed(f"exit status {status} of: {self._command}\n{printed}")
        return printed
