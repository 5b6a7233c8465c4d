"""GGUF files taken apart and put together with one thing wrong."""
import struct

SIZES = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<B", 10: "<Q", 11: "<q", 12: "<d"}
U32, I32, F32, STRING, ARRAY, U64 = 4, 5, 6, 8, 9, 10


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        value, = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def bytes(self):
        n = self.take("<Q")
        self.at += n
        return self.data[self.at - n:self.at]

    def value(self, kind):
        if kind == STRING:
            return self.bytes()
        if kind == ARRAY:
            kind, n = self.take("<I"), self.take("<Q")
            return kind, [self.value(kind) for _ in range(n)]
        return self.take(SIZES[kind])


class File:
    """keys: [[name, type, value]]; tensors: [[name, dims, type, offset]]; data: the bytes of all tensors."""

    def __init__(self, data):
        r = Reader(data)
        assert r.take("<I") == 0x46554747 and r.take("<I") == 3
        n_tensors, n_keys = r.take("<Q"), r.take("<Q")
        self.keys = [[r.bytes().decode(), kind := r.take("<I"), r.value(kind)] for _ in range(n_keys)]
        self.tensors = [[r.bytes().decode(), [r.take("<Q") for _ in range(r.take("<I"))], r.take("<I"), r.take("<Q")]
                        for _ in range(n_tensors)]
        self.data = data[(r.at + 31) // 32 * 32:]

    def key(self, name):
        return next(k for k in self.keys if k[0] == name)

    def tensor(self, name):
        return next(t for t in self.tensors if t[0] == name)

    def pack(self):
        text = lambda b: struct.pack("<Q", len(b)) + b  # noqa: E731

        def value(kind, v):
            if kind == STRING:
                return text(v)
            if kind == ARRAY:
                return struct.pack("<IQ", v[0], len(v[1])) + b"".join(value(v[0], x) for x in v[1])
            return struct.pack(SIZES[kind], v)

        out = struct.pack("<IIQQ", 0x46554747, 3, len(self.tensors), len(self.keys))
        out += b"".join(text(name.encode()) + struct.pack("<I", kind) + value(kind, v) for name, kind, v in self.keys)
        for name, dims, kind, offset in self.tensors:
            out += text(name.encode()) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)
        return out + bytes(-len(out) % 32) + self.data


def bare(*keys):
    """A file of keys alone; each is (name, type, raw bytes of the value)."""
    return struct.pack("<IIQQ", 0x46554747, 3, 0, len(keys)) + b"".join(
        struct.pack("<Q", len(name)) + name + struct.pack("<I", kind) + raw for name, kind, raw in keys)
