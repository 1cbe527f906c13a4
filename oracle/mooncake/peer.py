"""Mooncake's TCP transport between two processes, for `bulkhead bench handoff`. scripts/fetch-mooncake puts it beside the
package's virtual environment.

    peer.py serve PAGES BYTES               registers so many pages; prints PORT ADDRESS; ends with standard input
    peer.py pull PORT ADDRESS PAGES BYTES   for each line SECONDS of standard input, reads pages for so long, 32 to a batch
                                            (of the batch sizes 1, 8, 32 and of reading and writing, nothing is faster), and
                                            prints the bytes and the seconds that it took
"""

import ctypes
import mmap
import os
import sys
import time

os.environ["MC_FORCE_TCP"] = "1"
os.environ.setdefault("MC_LOG_LEVEL", "ERROR")

from mooncake.engine import TransferEngine  # noqa: E402  after its environment

BATCH = 32


def engine(pages, size):
    e = TransferEngine()
    memory = mmap.mmap(-1, pages * size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)  # as on the other side of the comparison
    memory.write(b"\x5a" * (pages * size))  # every page of it exists before anything is timed
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    if e.initialize("127.0.0.1", "P2PHANDSHAKE", "tcp", "") != 0:
        sys.exit("mooncake: initialize failed")
    if e.register_memory(address, pages * size) != 0:
        sys.exit("mooncake: register_memory failed")
    return e, memory, address


def serve(pages, size):
    e, _memory, address = engine(pages, size)
    print(e.get_rpc_port(), address, flush=True)
    sys.stdin.read()


def pull(port, remote, pages, size):
    e, memory, address = engine(pages, size)
    print("ready", flush=True)
    at = 0
    for line in sys.stdin:
        seconds, moved, start = float(line), 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            batch = [(at + i) % pages for i in range(BATCH)]
            at = (at + BATCH) % pages
            failed = e.batch_transfer_sync_read(
                f"127.0.0.1:{port}", [address + i * size for i in batch], [remote + i * size for i in batch], [size] * BATCH)
            if failed:
                sys.exit(f"mooncake: batch_transfer_sync_read gave {failed}")
            moved += BATCH * size
        print(moved, time.perf_counter() - start, flush=True)
    del memory


if __name__ == "__main__":
    numbers = [int(a) for a in sys.argv[2:]]
    {"serve": serve, "pull": pull}[sys.argv[1]](*numbers)
    os._exit(0)  # its destructors wait for peers that are gone
