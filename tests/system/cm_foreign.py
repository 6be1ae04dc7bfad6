"""A peer that speaks only the protocol of connection managers. It is written from the specification (IBTA vol. 1,
chapter 12 and A17.3.3), without any code of the product. It requests connections like rdma_cm, with arbitrary
values."""
import socket
import struct
import zlib

PORT = 4791
UD_SEND_ONLY, MANAGEMENT_KEY = 0x64, 0x80010000
REQUEST, REJECT, REPLY, DISCONNECT = 0x0010, 0x0012, 0x0013, 0x0015
MTU_CODES = {256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}
HEADER_BYTES, MAD_HEADER_BYTES, MAD_BYTES, ICRC_BYTES = 20, 24, 256, 4
# Constants of linux/in.h. With IP_PMTUDISC_DO, the kernel does not set the IPv4 identification.
IP_RECVTOS, IP_MTU_DISCOVER, IP_PMTUDISC_DO = 13, 10, 2


class ForeignEndpoint:
    """Sends and receives at RoCE's port of `address`, which must be an IPv4 address."""

    def __init__(self, address):
        self._address = address
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
        self._socket.setsockopt(socket.IPPROTO_IP, IP_RECVTOS, 1)
        self.traffic_class = None  # The traffic class of the packet that contained the last answer.
        self._socket.bind((address, PORT))

    def close(self):
        self._socket.close()

    def ask(self, server, service, path_mtu, number=1, resources=1, depth=1):
        """Requests a connection to the port number `service` of rdma_cm. The request says that this peer accepts
        `resources` READs at once, and starts at most `depth` READs."""
        ours, theirs = (socket.inet_aton(one) for one in (self._address, server))
        gids = b"".join(bytes(10) + b"\xff\xff" + one for one in (ours, theirs))
        body = bytearray(MAD_BYTES - MAD_HEADER_BYTES)
        struct.pack_into(">I4xQ", body, 0, number, 0x0000000001060000 | service)
        struct.pack_into(">I", body, 32, (number + 0x100) << 8)  # This field is the number of the queue pair.
        body[35], body[39] = resources, depth
        body[43] = 18 << 3  # These fields are the response timeout and the service type, a reliable connection.
        body[47] = 7  # This field is the number of retries.
        struct.pack_into(">HBB", body, 48, 0xFFFF, MTU_CODES[path_mtu] << 4, 15 << 4)
        struct.pack_into(">HH", body, 52, 0xFFFF, 0xFFFF)  # The request has no LIDs.
        body[56:88] = gids
        body[93], body[95] = 64, 14 << 3
        body[140:176] = struct.pack(">BBH12x4s12x4s", 0, 0x40, 7000, ours, theirs)
        self._send(server, REQUEST, number, body)

    def disconnect(self, server, theirs, number=1):
        """Ends the connection. `theirs` is its number in the server's reply."""
        body = struct.pack(">II", number, theirs).ljust(MAD_BYTES - MAD_HEADER_BYTES, b"\0")
        self._send(server, DISCONNECT, number + 1, body)

    def answer(self, seconds):
        """Returns (kind of message, the sender's number, content) of the next message. Returns None if no message
        arrives in time. The content of a rejection is its reason. The content of a reply is (number of READs that the
        server accepts, number of READs that it starts)."""
        self._socket.settimeout(seconds)
        try:
            packet, extra, _, _ = self._socket.recvmsg(4096, 64)
        except TimeoutError:
            return None
        self.traffic_class = extra[0][2][0]
        mad = packet[HEADER_BYTES:]
        body = mad[MAD_HEADER_BYTES:]
        kind = struct.unpack_from(">H", mad, 16)[0]
        says = (body[24], body[25]) if kind == REPLY else struct.unpack_from(">H", body, 10)[0]
        return kind, struct.unpack_from(">I", body)[0], says

    def _send(self, server, attribute, transaction, body):
        mad = struct.pack(">BBBBHHQHHI", 1, 7, 2, 3, 0, 0, transaction, attribute, 0, 0) + bytes(body)
        packet = struct.pack(">BBHIIII", UD_SEND_ONLY, 0, 0xFFFF, 1, 0, MANAGEMENT_KEY, 1) + mad
        length = len(packet) + ICRC_BYTES
        ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0xFF, 28 + length, 0, 0x4000, 0xFF, 17, 0xFFFF,
                         socket.inet_aton(self._address), socket.inet_aton(server))
        udp = struct.pack(">HHHH", PORT, PORT, 8 + length, 0xFFFF)
        masked = bytearray(packet)
        masked[4] = 0xFF
        icrc = zlib.crc32(ip + udp + masked, zlib.crc32(b"\xff" * 8))
        self._socket.sendto(packet + struct.pack("<I", icrc), (server, PORT))
