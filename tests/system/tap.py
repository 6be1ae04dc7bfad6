"""An observer on the path between hosts, which gets every packet."""
import socket
import threading
import time


class Tap:
    """Counts the octets that pass on `device`, and how often one of `secrets` passes. At the end it still reads the
    packets that have passed until then. It stops when the device is silent, or after one second."""

    LAST_LOOK = 1.0

    def __init__(self, device, *secrets):
        self.octets = self.seen = 0
        self._secrets = secrets
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))  # The number is ETH_P_ALL.
        self._socket.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # The number 33 is SO_RCVBUFFORCE.
        self._socket.bind((device, 0))
        self._socket.settimeout(0.2)
        self._over = threading.Event()
        self._reader = threading.Thread(target=self._read)

    def __enter__(self):
        self._reader.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._reader.join()
        self._socket.close()

    def _read(self):
        ends = None
        while ends is None or time.monotonic() < ends:
            if ends is None and self._over.is_set():
                ends = time.monotonic() + self.LAST_LOOK
            try:
                packet = self._socket.recv(1 << 17)
            except TimeoutError:
                if ends is not None:
                    return
                continue
            self.octets += len(packet)
            self.seen += sum(packet.count(secret) for secret in self._secrets)
