"""Reads checkpoints: safetensors shards whose tensors are rectangles of the model's."""

import json
import re
import struct
from array import array
from pathlib import Path

PIECE = re.compile(r"(.*)\[(\d+):(\d+),(\d+):(\d+)\]$")


def read_shard(path):
    """Name -> (shape, values)."""
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + length])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        first, end = entry["data_offsets"]
        values = array("f")
        values.frombytes(data[8 + length + first:8 + length + end])
        tensors[name] = (entry["shape"], values)
    return tensors


def read_checkpoint(folder):
    """Tensor -> {(row, column): value} flattened to a list by row and column, of every tensor and
    moment, whatever layout wrote it."""
    whole = {}
    for shard in sorted(Path(folder).glob("rank-*.safetensors")):
        for name, (shape, values) in read_shard(shard).items():
            piece = PIECE.match(name)
            tensor = piece.group(1) if piece else name
            row, column = (int(piece.group(2)), int(piece.group(4))) if piece else (0, 0)
            elements = whole.setdefault(tensor, {})
            for i in range(shape[0]):
                for j in range(shape[1]):
                    place = (row + i, column + j)
                    assert place not in elements, f"{tensor} {place} is there twice"
                    elements[place] = values[i * shape[1] + j]
    return {name: [elements[place] for place in sorted(elements)]
            for name, elements in whole.items()}


def newest(folder):
    """The newest checkpoint of a run."""
    return max(Path(folder, "checkpoints").glob("step-*"))
