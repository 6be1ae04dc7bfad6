"""The packets on the wire, as QEMU has recorded them. The packets of port 4791 are taken from the dump of a run. This
module computes the ICRC from the specification, without any code of the product (IBTA vol. 1, A17.3.3). tshark also
checks the packets."""
import collections
import dataclasses
import gzip
import pathlib
import struct
import subprocess
import zlib

PCAP_HEADER, RECORD = 24, 16
ROCE_PORT = 4791
# These are the names in the specification, because Wireshark's names are long.
OPCODES = {0x00: "SEND FIRST", 0x01: "SEND MIDDLE", 0x02: "SEND LAST", 0x03: "SEND LAST IMM", 0x04: "SEND ONLY",
           0x05: "SEND ONLY IMM", 0x06: "WRITE FIRST", 0x07: "WRITE MIDDLE", 0x08: "WRITE LAST", 0x0A: "WRITE ONLY",
           0x0C: "READ REQUEST", 0x0D: "READ FIRST", 0x0E: "READ MIDDLE", 0x0F: "READ LAST", 0x10: "READ ONLY",
           0x11: "ACK", 0x64: "UD SEND ONLY"}


@dataclasses.dataclass(frozen=True)
class Packet:
    source: bytes  # The IP address.
    opcode: int
    identification: int  # The IPv4 identification. 0 for IPv6.
    sound: bool  # True if the ICRC is correct.
    dscp: int = 0


def records(dump):
    """Yields the frames of a pcap file (little endian), each with its record header."""
    at = PCAP_HEADER
    while at + RECORD <= len(dump):
        length = struct.unpack_from("<I", dump, at + 8)[0]
        if at + RECORD + length > len(dump):
            break
        yield dump[at:at + RECORD], dump[at + RECORD:at + RECORD + length]
        at += RECORD + length


def parse(frame):
    """Returns the RoCE packet in an Ethernet frame, or None."""
    ethertype, ip = frame[12:14], bytearray(frame[14:])
    if ethertype == b"\x08\x00" and ip[9] == 17:
        header, end = 20, struct.unpack_from(">H", ip, 2)[0]
        source, identification, dscp = bytes(ip[12:16]), struct.unpack_from(">H", ip, 4)[0], ip[1] >> 2
        ip[1] = ip[8] = ip[10] = ip[11] = 0xFF
    elif ethertype == b"\x86\xdd" and ip[6] == 17:
        header, end = 40, 40 + struct.unpack_from(">H", ip, 4)[0]
        source, identification, dscp = bytes(ip[8:24]), 0, struct.unpack_from(">H", ip)[0] >> 6 & 0x3F
        ip[0] |= 0x0F
        ip[1] = ip[2] = ip[3] = ip[7] = 0xFF
    else:
        return None
    if struct.unpack_from(">H", ip, header + 2)[0] != ROCE_PORT or end > len(ip):
        return None
    bth = header + 8
    ip[header + 6] = ip[header + 7] = ip[bth + 4] = 0xFF
    icrc = zlib.crc32(bytes(ip[:end - 4]), zlib.crc32(b"\xff" * 8))
    return Packet(source, ip[bth], identification, icrc == struct.unpack_from("<I", ip, end - 4)[0], dscp)


@dataclasses.dataclass(frozen=True)
class Capture:
    """The RoCE packets of one run, and the pcap file with them."""
    packets: list
    pcap: bytes

    @staticmethod
    def since(start, path):
        """Returns the packets that were added to a growing dump since the dump had `start` bytes."""
        with open(path, "rb") as dump:
            header = dump.read(PCAP_HEADER)
            dump.seek(start)
            return Capture.of(header, dump.read())

    @staticmethod
    def of(header, dump):
        """Returns the capture of a dump. `dump` is a sequence of records, and `header` is the dump's file header."""
        kept, packets = [header], []
        for record, frame in records(header + dump):
            packet = parse(frame)
            if packet is not None:
                packets.append(packet)
                kept += [record, frame]
        return Capture(packets, b"".join(kept))

    def sources(self):
        return {packet.source for packet in self.packets}

    def save(self, path):
        # The file contains no time and no name, so the same packets always make the same file.
        pathlib.Path(path).write_bytes(gzip.compress(self.pcap, 9, mtime=0))


def load(path):
    pcap = gzip.decompress(pathlib.Path(path).read_bytes())
    return Capture.of(pcap[:PCAP_HEADER], pcap[PCAP_HEADER:])


def _tshark(path, *arguments):
    # RoCE needs no UDP checksum, because the ICRC is stronger. Soft-RoCE also sends none over IPv6. The
    # payload may look like RPC to tshark, but it is not RPC.
    done = subprocess.run(["tshark", "-n", "-r", path, "-o", "udp.ignore_ipv6_zero_checksum:TRUE",
                           "--disable-heuristic", "rpcrdma_infiniband", *arguments],
                          capture_output=True, text=True, stdin=subprocess.DEVNULL, check=True)
    return done.stdout


def complaints(path):
    """Returns the packets about which tshark has an error or a warning, one line for each."""
    found = _tshark(path, "-Y", "_ws.malformed || _ws.expert.severity >= 6291456 || !infiniband.bth",
                    "-T", "fields", "-e", "frame.number", "-e", "_ws.expert.message", "-e", "frame.protocols")
    return [line for line in found.splitlines() if line.strip()]


def opcodes(path):
    """Returns [(name, count)] of the opcodes, in the order of their numbers. tshark decodes the packets."""
    decoded = _tshark(path, "-T", "fields", "-e", "infiniband.bth.opcode").split()
    counted = collections.Counter(int(number, 0) for number in decoded)
    return [(OPCODES.get(number, f"opcode 0x{number:02x}"), count) for number, count in sorted(counted.items())]
