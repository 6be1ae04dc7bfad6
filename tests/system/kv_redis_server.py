#!/usr/bin/env python3
"""Stands in for redis-server in Redis' test suite: reads a configuration file of the suite, and starts rdmc_kv with what the
file says about access control. The suite waits for the lines that this prints."""
import os
import pathlib
import shlex
import signal
import socket
import subprocess
import sys


def parameters_of(path):
    parameters, users = {}, []
    for line in pathlib.Path(path).read_text().splitlines():
        name, _, value = line.partition(" ")
        if name == "user":
            users.append(line)
        elif name:
            parameters[name] = " ".join(shlex.split(value))
    return parameters, users


def send(port, *words):
    request = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in (one.encode() for one in words))
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(request)
        return connection.recv(1000)


def main():
    parameters, users = parameters_of(sys.argv[1])
    folder = pathlib.Path(parameters["dir"])
    port = int(parameters["port"])
    command = [os.environ["RDMC_KV"], "serve", "--listen", f"127.0.0.1:{port}"]
    acl_file = folder / parameters["aclfile"] if "aclfile" in parameters else None
    if users:
        acl_file = folder / "users.acl"
        acl_file.write_text("\n".join(users) + "\n")
    if acl_file:
        command += ["--acl-file", str(acl_file)]
    if "requirepass" in parameters:
        password_file = folder / "password"
        password_file.write_text(parameters["requirepass"])
        password_file.chmod(0o600)
        command += ["--requirepass-file", str(password_file)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as server:
        for number in signal.SIGTERM, signal.SIGINT:
            signal.signal(number, lambda *_: server.terminate())
        # The server says when clients can connect.
        if not server.stderr.readline():
            print(f"Failed listening on port {port}")
            return 1
        if "acl-pubsub-default" in parameters:
            send(port, "config", "set", "acl-pubsub-default", parameters["acl-pubsub-default"])
        print(f" PID: {os.getpid()}\nReady to accept connections", flush=True)
        for line in server.stderr:
            print(line, end="", file=sys.stderr, flush=True)
        return server.wait()


if __name__ == "__main__":
    sys.exit(main())
