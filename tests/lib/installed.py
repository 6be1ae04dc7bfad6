"""librdmc as its users get it: only the files that `meson install` puts into an empty directory."""
import os
import pathlib
import subprocess


def install(build, directory):
    """Installs librdmc into `directory`. Returns the options that the compiler and the linker need."""
    root = os.path.join(directory, "root")
    subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--tags", "devel", "--destdir", root], check=True,
                   stdout=subprocess.DEVNULL)
    described = next(pathlib.Path(root).rglob("rdmc.pc"))
    environment = dict(os.environ, PKG_CONFIG_LIBDIR=str(described.parent), PKG_CONFIG_SYSROOT_DIR=root)
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "rdmc"], check=True, env=environment, stdout=subprocess.PIPE,
                           text=True).stdout.split()
    return [*flags, f"-Wl,-rpath,{described.parent.parent}"]
