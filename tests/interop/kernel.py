"""The kernel that the guest boots. It is Debian's own kernel with its Soft-RoCE. An installed kernel is used in place.
Otherwise the package is downloaded and unpacked into a cache directory of rdmc. The package is never installed: an
installation would change the kernel that this machine boots, and would make an initramfs that nobody needs."""
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lab"))
from lab import Unavailable, run

PACKAGE = "linux-image-amd64"
# An unpacked kernel has 400 MB. These are the parts that the guest may need.
WANTED = ["./boot/vmlinuz-*", "./lib/modules/*/modules.builtin*", "./lib/modules/*/modules.order",
          *(f"./lib/modules/*/kernel/{part}" for part in
            ("arch/*", "crypto/*", "lib/*", "net/*", "drivers/infiniband/*", "drivers/net/virtio_net.ko",
             "drivers/net/net_failover.ko", "drivers/virtio/*", "fs/configfs/*"))]


@dataclasses.dataclass(frozen=True)
class Kernel:
    image: pathlib.Path
    root: pathlib.Path  # The folder that contains lib/modules/VERSION.
    version: str


def cache():
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "rdmc/guest-kernel"


def _kernel_in(root):
    """Returns the newest kernel under `root` that has Soft-RoCE. Debian's reduced kernels for clouds do not have it."""
    found = []
    for image in (root / "boot").glob("vmlinuz-*"):
        version = image.name.removeprefix("vmlinuz-")
        if (root / "lib/modules" / version / "kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko").is_file():
            found.append(([int(number) for number in re.findall(r"\d+", version)], Kernel(image, root, version)))
    return max(found, key=lambda one: one[0])[1] if found else None


def find():
    """Returns the kernel. Raises Unavailable if there is none."""
    for root in (pathlib.Path("/"), cache()):
        kernel = _kernel_in(root)
        if kernel and os.access(kernel.image, os.R_OK):
            return kernel
    raise Unavailable(f"no Debian kernel with rdma_rxe: run tests/interop/fetch_kernel (it downloads {PACKAGE}, 70 MB)")


def fetch():
    """Downloads and unpacks the kernel, unless there already is one. Raises Unavailable on failure."""
    try:
        return find()
    except Unavailable:
        pass
    depends = re.search(r"Depends: (linux-image-\S+)", run("apt-cache", "depends", PACKAGE))
    if depends is None:
        raise Unavailable(f"apt knows no {PACKAGE}: run apt-get update")
    cache().parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache().parent) as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)  # apt downloads into this folder under a user of its own.
        run("apt-get", "download", depends[1], cwd=folder)
        package = next(folder.glob("*.deb"))
        unpacked = folder / "root"
        unpacked.mkdir()
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE) as archive:
            _unpack(archive.stdout, unpacked)
        version = next((unpacked / "lib/modules").iterdir()).name
        run("depmod", "-b", unpacked, version)
        shutil.rmtree(cache(), ignore_errors=True)
        unpacked.rename(cache())
    return find()


def _unpack(archive, folder):
    done = subprocess.run(["tar", "-x", "--wildcards", "-C", folder, *WANTED], stdin=archive, capture_output=True,
                          text=True, check=False)
    # tar also returns an error if a pattern matches nothing. find() checks the result.
    if not (folder / "lib/modules").is_dir():
        raise Unavailable(f"the kernel's package cannot be unpacked: {done.stderr.strip()}")


def modules(kernel, names):
    """Returns the paths of the modules to insert, with dependencies first. Raises Unavailable on failure."""
    ordered = []
    for name in names:
        for line in run("modprobe", "-d", kernel.root, "-S", kernel.version, "--show-depends", name).splitlines():
            kind, path = line.split()[:2]
            if kind == "insmod" and path not in ordered:
                ordered.append(path)
    return [pathlib.Path(path) for path in ordered]
