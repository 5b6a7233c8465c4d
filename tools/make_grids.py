#!/usr/bin/env python3
"""Prints src/tensor/grid_books.def: the code books of the IQ block types, from the PyPI package gguf.

A code book entry is a 16-bit number: eight elements of two bits (IQ1, IQ2), or four of four bits of which three are
used (IQ3), the first element lowest.  What an element stands for is in src/tensor/grids.h."""
import gguf.quants as q
import numpy as np

BOOKS = [("iq2_xxs", q.IQ2_XXS), ("iq2_xs", q.IQ2_XS), ("iq2_s", q.IQ2_S), ("iq3_xxs", q.IQ3_XXS), ("iq3_s", q.IQ3_S),
         ("iq1", q.IQ1_S)]

print("/* grid_books.def - the code books of the IQ block types; made by tools/make_grids.py. */\n")
for name, cls in BOOKS:
    words = np.frombuffer(bytes.fromhex(cls.grid_hex.decode()), "<u2")
    assert len(words) == cls.grid_shape[0]
    print(f"static const uint16_t grid_{name}[{len(words)}] = {{")
    for i in range(0, len(words), 12):
        print("    " + " ".join(f"0x{w:04x}," for w in words[i:i + 12]))
    print("};")
