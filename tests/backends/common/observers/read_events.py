#!/ usr / bin / env python3
"""Prints a TensorBoard event file, a line an event: its step, then what it holds. Written from the
published formats alone: TensorFlow's tfrecord frame, CRC-32C bit by bit (RFC 3720, B.4), protobuf's
encoding and the field numbers of event.proto and summary.proto. Fails on a wrong check sum."""

import struct
import sys


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(crc):
    return ((crc >> 15 | crc << 17 & 0xFFFFFFFF) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        (length_sum,) = struct.unpack("<I", data[8:12])
        content = data[12 : 12 + length]
        (content_sum,) = struct.unpack("<I", data[12 + length : 16 + length])
        if masked(crc32c(data[:8])) != length_sum or masked(crc32c(content)) != content_sum:
            sys.exit("wrong check sum")
        yield content
        data = data[16 + length :]


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if not data[at - 1] & 0x80:
            return value, at


def fields(data):
    """Yields (number, value): an int, a float, or bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = varint(data, at)
        elif wire == 1:
            value, at = struct.unpack("<d", data[at : at + 8])[0], at + 8
        elif wire == 2:
            length, at = varint(data, at)
            value, at = data[at : at + length], at + length
        elif wire == 5:
            value, at = struct.unpack("<f", data[at : at + 4])[0], at + 4
        else:
            sys.exit(f"wire type {wire}")
        yield number, value


def describe(event):
    """(time, text) of an Event message."""
    time, step, rest = 0.0, 0, []
    for number, value in fields(event):
        if number == 1:
            time = value
        elif number == 2:
            step = value
        elif number == 3:
            rest.append("version " + value.decode())
        elif number == 5:
            for _, each in fields(value):
                scalar = dict(fields(each))
                rest.append(f"{scalar[1].decode()}={scalar[2]:.6g}")
        elif number == 7:
            rest.append(f"session {dict(fields(value))[1]}")
        else:
            sys.exit(f"field {number}")
    return time, " ".join([str(step), *rest])


def main():
    if crc32c(b"123456789") != 0xE3069283:  # the check value of the CRC catalogue
        sys.exit("this reader's own check sum is wrong")
    with open(sys.argv[1], "rb") as file:
        data = file.read()
    before = 0.0
    for event in records(data):
        time, text = describe(event)
        if time < before or time < 1.6e9:
            sys.exit(f"time {time} after {before}")
        before = time
        print(text)


main()
