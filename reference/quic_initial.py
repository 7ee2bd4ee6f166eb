"""Initial packets of a QUIC client, made from RFC 9001 and RFC 9369 with the library `cryptography`, which pip installs. They are the
test data of `measure::applications`: `python3 reference/quic_initial.py --write DIRECTORY`. The one of RFC 9001 appendix A.2
is compared with the bytes that the RFC prints."""

import sys
from pathlib import Path

from cryptography.hazmat.primitives import hashes, hmac
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

SALTS = {1: "38762cf7f55934b34d179ae6a4c80cadccbb7f0a", 0x6B3343CF: "0dede3def700a6db819381be6e269dcbf9bd2ed9"}
LABELS = {1: "quic", 0x6B3343CF: "quicv2"}
INITIAL = {1: 0, 0x6B3343CF: 1}

# The CRYPTO frame of RFC 9001 appendix A.2.
FRAME = bytes.fromhex(
    "060040f1010000ed0303ebf8fa56f12939b9584a3896472ec40bb863cfd3e86804fe3a47f06a2b69484c00000413011302010000c0"
    "00000010000e00000b6578616d706c652e636f6dff01000100000a00080006001d0017001800100007000504616c706e0005000501"
    "00000000003300260024001d00209370b2c9caa47fbabaf4559fedba753de171fa71f50f1ce15d43e994ec74d748002b0003020304"
    "000d0010000e0403050306030203080408050806002d00020101001c00024001003900320408ffffffffffffffff05048000ffff07"
    "048000ffff0801100104800075300901100f088394c8f03e51570806048000ffff"
)
PRINTED_HEAD = bytes.fromhex("c000000001088394c8f03e5157080000449e7b9aec34d1b1c98dd7689fb8ec11")
PRINTED_TAIL = bytes.fromhex("e221af44860018ab0856972e194cd934")


def expand(secret, label, length):
    name = b"tls13 " + label.encode()
    info = length.to_bytes(2, "big") + bytes([len(name)]) + name + b"\0"
    return HKDFExpand(hashes.SHA256(), length, info).derive(secret)


def packet(version, destination, number, frames, token=b""):
    mac = hmac.HMAC(bytes.fromhex(SALTS[version]), hashes.SHA256())
    mac.update(destination)
    secret = expand(mac.finalize(), "client in", 32)
    key, iv, hp = (expand(secret, f"{LABELS[version]} {what}", n) for what, n in (("key", 16), ("iv", 12), ("hp", 16)))
    length = 4 + len(frames) + 16
    header = bytes([0xC3 | INITIAL[version] << 4]) + version.to_bytes(4, "big")
    header += bytes([len(destination)]) + destination + b"\0"
    header += bytes([len(token)]) + token + (0x4000 | length).to_bytes(2, "big") + number.to_bytes(4, "big")
    nonce = (int.from_bytes(iv, "big") ^ number).to_bytes(12, "big")
    text = AESGCM(key).encrypt(nonce, frames, header)
    mask = Cipher(algorithms.AES(hp), modes.ECB()).encryptor().update(text[:16])
    hidden = bytearray(header)
    hidden[0] ^= mask[0] & 0x0F
    for i in range(4):
        hidden[len(header) - 4 + i] ^= mask[1 + i]
    return bytes(hidden) + text


def crypto(offset, data):
    return b"\x06" + (0x4000 | offset).to_bytes(2, "big") + (0x4000 | len(data)).to_bytes(2, "big") + data


def padded(frames, size=1162):
    return frames + bytes(size - len(frames))


def rfc9001():
    made = packet(1, bytes.fromhex("8394c8f03e515708"), 2, padded(FRAME))
    assert made.startswith(PRINTED_HEAD) and made.endswith(PRINTED_TAIL)
    return [made]


def version_2_in_pieces():
    """A handshake in two packets, whose pieces are out of order and overlap, between PING and ACK frames."""
    hello = FRAME[4:]
    destination = bytes(range(1, 9))
    first = crypto(100, hello[100:180]) + b"\x01" + crypto(0, hello[:60])
    second = b"\x02\x05\x0a\x00\x05" + crypto(170, hello[170:]) + crypto(40, hello[40:120])
    return [packet(0x6B3343CF, destination, n, padded(f), b"token") for n, f in enumerate((first, second))]


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--write", directory]:
            for made in (rfc9001, version_2_in_pieces):
                for n, bytes_ in enumerate(made()):
                    (Path(directory) / f"{made.__name__}-{n}").write_bytes(bytes_)
        case _:
            sys.exit("usage: quic_initial.py --write DIRECTORY")
