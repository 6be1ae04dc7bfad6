"""Finds the project's own files: the files that git tracks, or all files of the tree if it is no git checkout."""
import os
import pathlib
import subprocess

CPP = (".cpp", ".hpp", ".h", ".c")


def tracked(root, suffixes=CPP):
    """Returns the paths of the files that exist and whose names end with one of `suffixes`. The paths are sorted and
    relative to `root`."""
    root = pathlib.Path(root)
    if (root / ".git").exists():
        # The checks may run as root while the checkout belongs to another user. Without this setting, git then refuses.
        listed = subprocess.run(["git", "-c", "safe.directory=*", "-C", root, "ls-files", "-z"],
                                check=True, capture_output=True, stdin=subprocess.DEVNULL).stdout
        names = [os.fsdecode(name) for name in listed.split(b"\0") if name]
    else:
        names = [str(path.relative_to(root)) for path in root.rglob("*")
                 if not path.relative_to(root).parts[0].startswith(("build", "."))]
    return sorted(name for name in names if name.endswith(tuple(suffixes)) and (root / name).is_file())
