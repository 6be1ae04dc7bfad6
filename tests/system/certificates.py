"""Makes authorities and certificates with the openssl program."""
import subprocess

NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


class Certificates:
    """Makes two authorities in `folder`: "ours", which all members trust, and "theirs"."""

    def __init__(self, folder, seconds):
        self.folder, self.seconds = folder, seconds
        for name in "ours", "theirs":
            self.made("req", "-x509", *NEW_KEY, "-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", f"/CN={name}", "-days", "1")

    def openssl(self, *words, **more):
        return subprocess.run(["openssl", *words], cwd=self.folder, capture_output=True, text=True, timeout=self.seconds, check=False, **more)

    def made(self, *words):
        done = self.openssl(*words)
        assert done.returncode == 0, done.stderr

    def member(self, name, authority="ours"):
        """Returns the options of a process that has a certificate signed by `authority` and trusts "ours"."""
        self.made("req", "-new", *NEW_KEY, "-keyout", f"{name}.key", "-out", f"{name}.req", "-subj", f"/CN={name}")
        self.made("x509", "-req", "-in", f"{name}.req", "-CA", f"{authority}.pem", "-CAkey", f"{authority}.key", "-CAcreateserial",
                  "-out", f"{name}.pem", "-days", "1")
        (self.folder / f"{name}.key").chmod(0o600)
        return ["--certificate", str(self.folder / f"{name}.pem"), "--private-key", str(self.folder / f"{name}.key"),
                "--authority", str(self.folder / "ours.pem")]
