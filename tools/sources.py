"""Which files are the project's own: what git tracks, or, in a tree that git does not know, what lies in it."""
import os
import pathlib
import subprocess

CPP = (".cpp", ".hpp", ".h", ".c")


def tracked(root, suffixes=CPP):
    """Paths relative to `root`, sorted, of the files that exist and end in one of `suffixes`."""
    root = pathlib.Path(root)
    if (root / ".git").exists():
        # The checkout may belong to another user than root, who runs the checks.
        listed = subprocess.run(["git", "-c", "safe.directory=*", "-C", root, "ls-files", "-z"],
                                check=True, capture_output=True, stdin=subprocess.DEVNULL).stdout
        names = [os.fsdecode(name) for name in listed.split(b"\0") if name]
    else:
        names = [str(path.relative_to(root)) for path in root.rglob("*")
                 if not path.relative_to(root).parts[0].startswith(("build", "."))]
    return sorted(name for name in names if name.endswith(tuple(suffixes)) and (root / name).is_file())
