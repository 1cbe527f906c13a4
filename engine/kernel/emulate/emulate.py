"""Runs single functions of a Go test binary on an emulated CPU that has AVX-512 and VNNI.

The test (emulate_test.go in the directory above) starts it with the path of its own binary and speaks to it over stdin
and stdout. All numbers are little-endian, u4 and u8. A request is

    u4 length of the function's symbol, the symbol
    u4 number of regions, then for each: u8 address, u4 length, u4 1 if it is to be sent back, the bytes
    u8 the function's one argument, a pointer

and the answer is the bytes of those regions that were to be sent back, in order, behind u4 0; or u4 length of an error and
the error. Regions lie from HEAP on. Only they, the binary and the stack are there: a function that reads or writes past
what it was given, by a page, faults and is an error.
"""

import ctypes
import mmap
import os
import struct
import sys

import bochscpu
import bochscpu.cpu
import bochscpu.memory

SIZE = 256 << 20  # of the emulated memory, all mapped one to one
TABLES = 0x10_0000
HALT = 0x20_0000  # a page with one instruction, where functions return to
STACK = 0x3F_0000
PAGE = 4096


def read_elf(path):
    """Gives (address, bytes) of each loaded segment, and the addresses of the functions by name."""
    data = open(path, "rb").read()
    assert data[:6] == b"\x7fELF\x02\x01", "not a 64-bit ELF file"
    phoff, shoff = struct.unpack_from("<QQ", data, 32)
    phsize, phnum, shsize, shnum = struct.unpack_from("<4H", data, 54)
    segments, symbols, sections = [], {}, []
    for i in range(phnum):
        kind, _, off, vaddr, _, filesz, _, _ = struct.unpack_from("<IIQQQQQQ", data, phoff + i * phsize)
        if kind == 1:
            segments.append((vaddr, data[off : off + filesz]))
    for i in range(shnum):
        sections.append(struct.unpack_from("<IIQQQQIIQQ", data, shoff + i * shsize))
    for _, kind, _, _, off, size, link, _, _, _ in sections:
        if kind != 2:
            continue
        names = sections[link][4]
        for at in range(off, off + size, 24):
            name, info, _, _, value, _ = struct.unpack_from("<IBBHQQ", data, at)
            if info & 15 == 2:
                start = names + name
                symbols[data[start : data.index(b"\0", start)].decode()] = value
    return segments, symbols


REGISTERS = "rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15".split()


def vpdpbusd(code, state, memory):
    """Does one VPDPBUSD on 512 bits, which is all of code; false where it is not.

    The emulated CPU is a Skylake-X, which is without VNNI: this is the one instruction that is interpreted here. By Intel's
    manual: EVEX.512.66.0F38.W0 50 /r; to each 32-bit lane of the destination are added the products of the four unsigned
    bytes of the first source with the four signed bytes of the second, which is a register or memory, and with EVEX.b set
    one 32-bit word of memory for all lanes.
    """
    p0, p1, p2 = code[1:4]
    if code[0] != 0x62 or p0 & 7 != 2 or p1 & 0x87 != 5 or code[4] != 0x50 or p2 & 0x60 != 0x40 or p2 & 0x87 != 0:
        return False
    broadcast, modrm, at = p2 >> 4 & 1, code[5], 6
    r = (modrm >> 3 & 7) | (~p0 >> 7 & 1) << 3 | (~p0 >> 4 & 1) << 4
    v = (~p1 >> 3 & 15) | (~p2 >> 3 & 1) << 4
    mod, rm, x, b = modrm >> 6, modrm & 7, (~p0 >> 6 & 1) << 3, (~p0 >> 5 & 1) << 3
    length = 6 + (mod != 3 and rm == 4) + (0, 1, 4, 0)[mod]
    if length != len(code):
        return False
    zmm = state.zmm
    if mod == 3:
        second = struct.pack("<8Q", *zmm[rm | b | x << 1].q)
    else:
        address = 0
        if rm == 4:
            scale, index, base, at = code[6] >> 6, code[6] >> 3 & 7 | x, code[6] & 7 | b, 7
            if index != 4:
                address += getattr(state, REGISTERS[index]) << scale
        else:
            base = rm | b
        assert mod != 0 or base & 7 != 5, "an address without a base"
        address += getattr(state, REGISTERS[base])
        if mod == 1:
            address, at = address + struct.unpack_from("<b", code, at)[0] * (4 if broadcast else 64), at + 1
        elif mod == 2:
            address, at = address + struct.unpack_from("<i", code, at)[0], at + 4
        second = memory(address, 4) * 16 if broadcast else memory(address, 64)
    sums = list(struct.unpack("<16I", struct.pack("<8Q", *zmm[r].q)))
    first, second = struct.pack("<8Q", *zmm[v].q), struct.unpack("<64b", second)
    for lane in range(16):
        for i in range(4 * lane, 4 * lane + 4):
            sums[lane] += first[i] * second[i]
        sums[lane] &= 0xFFFF_FFFF
    zmm[r].q = list(struct.unpack("<8Q", struct.pack("<16I", *sums)))
    state.zmm = zmm
    return True


class Machine:
    """One emulated CPU with its memory."""

    def __init__(self, binary):
        self.session = bochscpu.Session()
        self.session.missing_page_handler = self.missing
        self.memory = mmap.mmap(-1, SIZE)
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        for at in range(0, SIZE, PAGE):
            bochscpu.memory.page_insert(at, self.base + at)
        segments, self.symbols = read_elf(binary)
        self.present = set()
        for vaddr, content in segments:
            assert vaddr >= 0x40_0000 and vaddr + len(content) <= SIZE, "the binary lies elsewhere than expected"
            self.memory[vaddr : vaddr + len(content)] = content
            self.allow(vaddr, len(content))
        self.memory[HALT] = 0xF4
        self.allow(HALT, 1)
        self.allow(STACK - 0x4000, 0x5000)
        self.hook = bochscpu.Hook()
        self.hook.exception = self.exception
        self.hook.hlt = lambda session, cpu: session.stop()
        self.error = None

    def missing(self, gpa):
        raise RuntimeError(f"physical page {gpa:#x}")

    def exception(self, session, cpu, vector, code):
        state = session.cpu.state
        if vector == 6:
            # The hook sees the address behind the instruction, so that its length is what fits.
            if any(vpdpbusd(self.memory[state.rip - n : state.rip], state, self.at) for n in range(6, 12)):
                self.resume = state
                session.stop()
                return
        self.error = f"exception {vector} before {state.rip:#x}, address {state.cr2:#x}"
        session.stop()

    def at(self, address, n):
        """Bytes that an interpreted instruction reads: they must be mapped as for any other."""
        for page in {address // PAGE, (address + n - 1) // PAGE}:
            assert page in self.present, f"nothing at {address:#x}"
        return self.memory[address : address + n]

    def allow(self, at, n):
        """Maps the pages of a range. The tables are four levels, those below the first one after the other."""
        for page in range(at // PAGE, (at + n + PAGE - 1) // PAGE):
            self.present.add(page)
            self.entry(TABLES, 0, TABLES + PAGE)
            self.entry(TABLES + PAGE, 0, TABLES + 2 * PAGE)
            self.entry(TABLES + 2 * PAGE, page // 512, TABLES + (3 + page // 512) * PAGE)
            self.entry(TABLES + (3 + page // 512) * PAGE, page % 512, page * PAGE)

    def entry(self, table, index, target):
        struct.pack_into("<Q", self.memory, table + 8 * index, target | 7)

    def forbid(self, at, n):
        for page in range(at // PAGE, (at + n + PAGE - 1) // PAGE):
            self.present.discard(page)
            struct.pack_into("<Q", self.memory, TABLES + (3 + page // 512) * PAGE + page % 512 * 8, 0)

    def state(self):
        state = bochscpu.State()
        bochscpu.cpu.set_long_mode(state)
        state.cr0 = 0x8005_0033
        state.cr3 = TABLES
        state.cr4 |= 1 << 9 | 1 << 10 | 1 << 18
        state.xcr0 = 0xE7
        state.mxcsr, state.mxcsr_mask = 0x1F80, 0xFFFF
        cs, ds = bochscpu.Segment(), bochscpu.Segment()
        cs.present, cs.selector, cs.base, cs.limit, cs.attr = True, 0x10, 0, 0xFFFF_FFFF, 0x209B
        ds.present, ds.selector, ds.base, ds.limit, ds.attr = True, 0x18, 0, 0xFFFF_FFFF, 0xCF3
        state.cs = cs
        state.ss = state.ds = state.es = state.fs = state.gs = ds
        return state

    def call(self, symbol, regions, argument):
        """Calls a function with Go's stack calling convention. regions are (address, bytes, wanted)."""
        address = self.symbols.get(symbol + ".abi0") or self.symbols.get(symbol)
        if address is None:
            raise RuntimeError(f"no function {symbol}")
        for at, content, _ in regions:
            self.memory[at : at + len(content)] = content
            self.allow(at, len(content))
        struct.pack_into("<QQ", self.memory, STACK, HALT, argument)
        state = self.state()
        state.rsp, state.rip = STACK, address
        self.error, self.resume = None, state
        while self.resume:
            self.session.cpu.state, self.resume = self.resume, None
            self.session.run([self.hook])
        if self.error:
            raise RuntimeError(f"{symbol}: {self.error}")
        if self.session.cpu.state.rsp != STACK + 8:
            raise RuntimeError(f"{symbol}: it returned with another stack")
        out = [bytes(self.memory[at : at + len(content)]) for at, content, wanted in regions if wanted]
        for at, content, _ in regions:
            self.forbid(at, len(content))
        return b"".join(out)


def read(n):
    data = sys.stdin.buffer.read(n)
    if len(data) < n:
        os._exit(0)  # the other end is done; the module complains at an ordinary exit
    return data


def request():
    symbol = read(struct.unpack("<I", read(4))[0]).decode()
    regions = []
    for _ in range(struct.unpack("<I", read(4))[0]):
        at, n, wanted = struct.unpack("<QII", read(16))
        regions.append((at, read(n), wanted))
    return symbol, regions, struct.unpack("<Q", read(8))[0]


def main():
    machine = Machine(sys.argv[1])
    while True:
        symbol, regions, argument = request()
        try:
            answer = struct.pack("<I", 0) + machine.call(symbol, regions, argument)
        except Exception as e:
            text = str(e).encode()
            answer = struct.pack("<I", len(text)) + text
        sys.stdout.buffer.write(answer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
