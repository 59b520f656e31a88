#!/usr/bin/env python3
"""Writes small copies of golden files: only the tensors that `troupe verify` judges.

    trim.py GOLDEN.safetensors... OUT_DIR
"""

import json
import pathlib
import struct
import sys


def judged(name, layerwise):
    quant, _, leaf = name.partition(".")
    if layerwise or quant not in ("off", "sim"):
        return True
    if leaf.startswith(("spec.", "replay.", "hit.")):
        return False
    return quant == "off" or leaf.startswith("greedy")


def trim(path, out):
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    layerwise = "trace_rows" not in header
    kept, body = {}, b""
    for name in sorted(header):
        if judged(name, layerwise):
            entry = header[name]
            begin, end = entry["data_offsets"]
            kept[name] = {**entry, "data_offsets": [len(body), len(body) + end - begin]}
            body += data[8 + size + begin:8 + size + end]
    text = json.dumps(kept, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    (out / path.name).write_bytes(struct.pack("<Q", len(text)) + text + body)


for given in sys.argv[1:-1]:
    trim(pathlib.Path(given), pathlib.Path(sys.argv[-1]))
