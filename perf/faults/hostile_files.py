"""Small files made to take time and memory: each is read in a process of its own, which is measured.

    python -m perf.faults.hostile_files --files 500 --seed 0

A file is refused, or read in less than `LONGEST_S` and `MOST_MEMORY` above what the process had before. Prints each
that was not; exit code 1 where there is one.

Takes 5 minutes; needs idle cores.
"""

import gzip
import io
import json
import os
import pickle
import random
import resource
import sys
import time
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from compclip.base.errors import UserError
from compclip.config.released_lists import Regions
from compclip.data import caption_files, tables
from compclip.model import weight_files
from compclip.prepare import region_lists
from perf.faults.fuzz import file_programs

LONGEST_S = 10.0
MOST_MEMORY = 1 << 30
ACCEPTED, REFUSED = 0, 1  # how a process ends; anything else is a defect
Writer = Callable[[Path, random.Random], None]


def _write_pickle(path: Path, rng: random.Random) -> None:
    """Tuples of tuples as a key, a large memo, many objects, or deep lists."""
    depth = rng.randint(20, 400)
    programs = [
        b"}K\x01" + b"2\x86" * depth + b"K\x01s.",
        b"}K\x01" + b"".join(b"r%sh\x00h\x00\x86" % n.to_bytes(4, "little") for n in range(depth)) + b"K\x01s.",
        b"}r" + rng.getrandbits(31).to_bytes(4, "little") + b".",
        b"}(" + b"(" * depth + b"t" * depth + b"K\x01u.",
        b"]" * depth + b"a" * (depth - 1) + b".",
        b"(" + b"}" * rng.randint(1, 1 << 20) + b"t.",
        b"]" + b"(" + b"2" * depth + b"e.",
    ]
    program = b"\x80\x02" + rng.choice(programs)
    if rng.random() < 0.4:
        path.write_bytes(program)
    elif rng.random() < 0.5:
        start = [pickle.dumps(0x1950A86A20F9469CFC6C, 2), pickle.dumps(1001, 2), pickle.dumps({}, 2)]
        path.write_bytes(b"".join([*start, program]))
    else:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("x/data.pkl", program)
            file.writestr("x/version", "3\n")


def _write_arrays(path: Path, rng: random.Random) -> None:
    """Arrays that pack well, or whose header promises more than there is."""
    np.savez_compressed(path.with_suffix(".npz"), a=np.zeros(rng.randint(1, 1 << 25), np.uint8))
    path.with_suffix(".npz").rename(path)


def _write_regions(path: Path, rng: random.Random) -> None:
    """Brackets within brackets, huge numbers, and texts without a space."""
    count = rng.randint(1, 100_000)
    bodies = ["[" * count, '[{"a":' * count, f"[{'1' * count}]", "[" + "[]," * count + "[]]", '["' + "(" * count + '"]']
    captions = [rng.choice(("(", "a dog ", "[")) * count] * rng.randint(1, 20)
    rows = [{"image": "a", "box": [0, 0, 1, 1], "caption": captions}]
    path.write_text(rng.choice([*bodies, json.dumps(rows)]))


def _write_table(path: Path, rng: random.Random) -> None:
    """One large value of many rows, and columns that nobody names."""
    size = rng.choice((1 << 10, 1 << 20, 1 << 25))
    value = rng.choice((b"\xff", b"a")) * size
    kind = pa.binary() if value[:1] == b"\xff" else pa.string()
    column = pa.array([value], pa.binary()).take(pa.array([0] * rng.choice((1, 4) if size > 1 << 20 else (1, 300))))
    values = column if kind == pa.binary() else column.cast(kind)
    names = rng.choice((["image", "caption"], ["caption", "image"], ["x", "caption"], ["image", "image"]))
    table = pa.table([values, pa.array(["a"] * len(values))], names=names)
    pq.write_table(table, path, compression=rng.choice(("zstd", "gzip", "none")), dictionary_pagesize_limit=1 << 30)


def _write_lines(path: Path, rng: random.Random) -> None:
    """Open quotes, lines without an end, and what grows when it is unpacked."""
    count = rng.randint(1, 200_000)
    bodies = [
        'image,caption\na.jpg,"' + "b.jpg,x\n" * count,
        "image,caption\n" + "," * count,
        "image,caption\na.jpg," + '"' * count,
        "image\tcaption\n" + 'a.jpg\t"x\n' * count,
        "image,caption\n" + "\0" * count,
        "image,caption\n" + '"\n' * count,
        "image,caption\n" + "\n" * count,
    ]
    path.write_bytes(gzip.compress(rng.choice(bodies).encode() * rng.choice((1, 1, 2, 40))))


def _read_tables(path: Path) -> None:
    columns = tables.read_columns(path)
    for _ in tables.read_rows(path, [name for name in columns if name in ("image", "caption")], Counter()):
        pass


def _read_captions(path: Path) -> None:
    plain = path.with_name("captions.txt")
    plain.write_bytes(gzip.decompress(path.read_bytes())[: 1 << 22])
    caption_files.read_lines(plain, Counter(), drops_damaged=True)


def _read_regions(path: Path) -> None:
    for _ in region_lists.read_rows(Regions(str(path), on="image"), Counter()):
        pass


KINDS: dict[str, tuple[str, Writer, Callable[[Path], object]]] = {
    "weights": ("x.pt", _write_pickle, weight_files.read_weights),
    "arrays": ("x.npz.pt", _write_arrays, weight_files.read_weights),
    "regions": ("x.json", _write_regions, _read_regions),
    "parquet": ("x.parquet", _write_table, _read_tables),
    "csv": ("x.csv.gz", _write_lines, _read_tables),
    "captions": ("y.csv.gz", _write_lines, _read_captions),
}


def try_file(kind: str, number: int, seed: int, folder: Path) -> str:
    """Write and read a file; return what is wrong, "" for nothing."""
    name, write, read = KINDS[kind]
    path = folder / name
    write(path, random.Random(f"{seed} {kind} {number}"))
    started = time.monotonic()
    child = os.fork()
    if not child:
        _read_and_exit(read, path)
    _, status, usage = os.wait4(child, 0)
    seconds = usage.ru_utime + usage.ru_stime
    memory = (usage.ru_maxrss << 10) - _resident_bytes()
    size = path.stat().st_size
    path.unlink()
    code = os.waitstatus_to_exitcode(status)
    faults = [f"ended by {code}"] if code not in (ACCEPTED, REFUSED) else []
    faults += [f"{seconds:.1f} s"] if seconds > LONGEST_S else []
    faults += [f"{memory >> 20} MiB"] if memory > MOST_MEMORY else []
    words = f"{kind}/{number} ({size:,} bytes, {time.monotonic() - started:.1f} s): {', '.join(faults)}"
    return words if faults else ""


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _read_and_exit(read: Callable[[Path], object], path: Path) -> None:
    """Read in a child, which ends in any case."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(LONGEST_S) + 5,) * 2)
    sys.stderr = io.StringIO()
    code = ACCEPTED
    try:
        read(path)
    except UserError:
        code = REFUSED
    except BaseException:
        code = 3
    os._exit(code)


def try_files(files: int, seed: int, folder: Path) -> list[str]:
    """Return a line for each file that took too much, or ended in a traceback; kinds in turn."""
    kinds = list(KINDS)
    tried = (try_file(kinds[number % len(kinds)], number, seed, folder) for number in range(files))
    return list(filter(None, tried))


if __name__ == "__main__":
    sys.exit(file_programs.try_all(__doc__, 500, try_files))
