"""TorchScript archives as tensors: the bits of torch.jit.load, and nothing of an archive's program is run."""

import contextlib
import io
import os
import pickle
import struct
import zipfile
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from compclip.base.errors import UserError
from compclip.model import weight_archives, weight_files


class Inner(nn.Module):
    """Parameters that are tied, transposed, half, missing; a list of modules; a tensor that is no buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 4, bias=False)
        self.tied = self.linear.weight
        self.across = nn.Parameter(torch.randn(4, 3).t())
        self.layers = nn.ModuleList([nn.Sequential(nn.Linear(2, 2), nn.GELU()) for _ in range(2)])
        self.mask = torch.ones(5)
        self.flag, self.name = True, "a name"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class Outer(nn.Module):
    """Buffers of several types, and modules in modules."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.norm = Inner(), nn.BatchNorm1d(3)
        self.conv = nn.Conv2d(3, 2, 2).half()
        self.scale = nn.Parameter(torch.tensor(2.5, dtype=torch.bfloat16))
        self.register_buffer("size", torch.tensor(224))
        self.register_buffer("known", torch.tensor([True, False]))
        self.register_buffer("none", torch.empty(0))
        self.register_buffer("part", torch.arange(12.0).reshape(3, 4)[1:, ::2])
        self.words, self.table = ["a", "b"], {"a": torch.ones(2)}
        self.numbers = [1, 2, 300, 70_000, 1 << 40]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


@pytest.fixture(scope="module")
def archive(tmp_path_factory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("archive") / "a.pt"
    torch.jit.script(Outer()).save(str(path))
    return path


def same(path: Path) -> bool:
    """Whether an archive's tensors are those of torch.jit.load, to the bit."""
    ours, theirs = weight_archives.read_archive(path), torch.jit.load(path, "cpu").state_dict()
    alike = all(ours[name].dtype == value.dtype and torch.equal(ours[name], value) for name, value in theirs.items())
    return alike and ours.keys() == theirs.keys()


def test_a_scripted_module_has_its_bits(archive):
    """Every type, shape and place; what is no parameter or buffer stays out."""
    tensors = weight_archives.read_archive(archive)
    assert same(archive)
    assert "inner.layers.1.0.weight" in tensors and "inner.mask" not in tensors


def test_a_traced_model_in_half_precision_has_its_bits(tmp_path):
    """As OpenAI made its files: open_clip's module, traced, cast, with its sizes as buffers."""
    import open_clip

    from tests.model.test_towers import TINY

    torch.manual_seed(0)
    clip = open_clip.CLIP(**TINY).eval()
    inputs = {"encode_image": (torch.randn(1, 3, 32, 32),), "encode_text": (torch.ones(1, 77, dtype=torch.long),)}
    torch.jit.trace_module(clip, inputs, check_trace=False).half().save(str(tmp_path / "clip.pt"))
    assert same(tmp_path / "clip.pt")
    assert weight_files.read_weights(tmp_path / "clip.pt").keys() - {"attn_mask"} == clip.state_dict().keys()


class Hostile(nn.Module):
    """Its state is set by a program, which makes a file."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.weight, self.path = nn.Parameter(torch.ones(2)), path

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.weight

    @torch.jit.export
    def __getstate__(self) -> tuple[torch.Tensor, str, bool]:
        return self.weight, self.path, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[torch.Tensor, str, bool]) -> None:
        self.weight, self.path, self.training = torch.from_file(state[1], True, 2), state[1], state[2]


def test_the_program_of_an_archive_is_not_run(tmp_path):
    """torch.jit.load makes the file; we do not, with the hostile module on top or below."""
    path, target = tmp_path / "a.pt", tmp_path / "made"
    module = torch.jit.script(nn.Sequential(nn.Linear(2, 2), Hostile(str(target))))
    module.save(str(path))
    torch.jit.load(path)
    assert target.exists()
    target.unlink()
    assert sorted(weight_files.read_weights(path)) == ["0.bias", "0.weight"]
    torch.jit.script(Hostile(str(target))).save(str(path))
    assert weight_files.read_weights(path) == {}
    assert not target.exists()


def rewritten(source: Path, target: Path, changes: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", method) as new:
        for name in old.namelist():
            new.writestr(name, changes.get(name.partition("/")[2], old.read(name)))
    return target


def number(value: int) -> bytes:
    """The instruction that gives a whole number."""
    return b"J" + struct.pack("<i", value)


def text(value: str) -> bytes:
    """The instruction that gives a text."""
    return b"X" + struct.pack("<I", len(value.encode())) + value.encode()


def pile(*values: bytes) -> bytes:
    """The instructions that give a tuple."""
    return b"(" + b"".join(values) + b"t"


def tensor(size: bytes, stride: bytes, offset: int = 0, key: bytes = text("0")) -> bytes:
    """The instructions that give a tensor."""
    storage = pile(text("storage"), b"ctorch\nFloatStorage\n", key, text("cpu"), number(2)) + b"Q"
    return b"ctorch._utils\n_rebuild_tensor_v2\n" + pile(storage, number(offset), size, stride, b"\x89", b"}") + b"R"


def module(value: bytes) -> bytes:
    """A pickle of a module with one attribute."""
    return b"\x80\x02c__torch__.tests\nM\n)\x81}(" + text("weight") + value + b"ub."


def write_archive(path: Path, program: bytes, storage: bytes = bytes(8)) -> Path:
    """An archive by hand, of a module with the parameter `weight`."""
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a/data.pkl", program)
        file.writestr("a/constants.pkl", b"\x80\x02).")
        file.writestr("a/data/0", storage)
        file.writestr("a/code/__torch__/tests.py", 'class M(Module):\n  __parameters__ = ["weight", "m", ]\n')
    return path


LOOP = b"\x80\x02c__torch__.tests\nM\n)\x81q\x00}(" + text("m") + b"h\x00ub."
# Each module holds the one before twice: 2 ** 60 ways through them.
DOUBLE = b"c__torch__.tests\nM\n)\x81}(" + text("m") + b"h%c" + text("n") + b"h%cubq%c"


@pytest.mark.parametrize("program,message", [
    (module(tensor(pile(number(2)), pile(number(1)))), {"weight": [0.0, 0.0]}),  # which the others are variations of
    (module(tensor(pile(number(1 << 30), number(1 << 30)), pile(number(0), number(0)))), "larger than its bytes"),
    (module(tensor(pile(number(3)), pile(number(1)))), "larger than its bytes"),
    (module(tensor(pile(number(2)), pile(number(1)), offset=1)), "larger than its bytes"),
    (module(tensor(pile(number(2)), pile(number(-1)))), "no proper shape"),
    (module(tensor(pile(number(2)), pile())), "no proper shape"),
    (module(tensor(pile(*[number(1)] * 99), pile(*[number(1)] * 99))), "no proper shape"),
    (module(tensor(b"N", b"N")), "no proper shape"),
    (module(tensor(pile(number(2)), pile(number(1)), key=text("../1"))), "no item named"),
    (module(tensor(pile(number(2)), pile(number(1)), key=b")")), "no known type"),
    (LOOP, "without end"),
    (b"\x80\x02c__torch__.tests\nM\n)\x81q\x00"
     + b"".join(DOUBLE % (i, i, i + 1) for i in range(60)) + b".", "without end"),
    (b"\x80\x02cos\nsystem\n" + text("true") + b"\x85R.", {}),
    (b"\x80\x02" + text("a") + b"N\x85R.", "misuse the instruction REDUCE"),
    (b"\x80\x02}" + text("a") + b"a.", "misuse the instruction APPEND"),
    (b"\x80\x02(S'true'\nios\nsystem\n.", "instruction STRING"),
    (b"\x80\x02r\xff\xff\xff\xff.", "list index"),
    (b"\x80\x02X\xff\xff\xff\x7f", "only 0 remain"),
    (b"", "exhausted"),
])  # fmt: skip
def test_what_a_hostile_archive_is_told(tmp_path, program, message):
    """Tensors larger than the file, modules without end, and instructions that no weights need: a line, at once."""
    path = write_archive(tmp_path / "a.pt", program)
    if isinstance(message, dict):
        assert {name: tensor.tolist() for name, tensor in weight_files.read_weights(path).items()} == message
        return
    with pytest.raises(UserError, match=f"a.pt: not a readable weights file.*{message}.*fetch it again"):
        weight_files.read_weights(path)


def test_a_packed_archive_does_not_grow(archive, tmp_path):
    """A hundred megabytes of zeros in some kilobytes."""
    zeros = {f"data/{i}": bytes(3 << 24) for i in (0, 1)}
    bomb = rewritten(archive, tmp_path / "b.pt", zeros, zipfile.ZIP_DEFLATED)
    with pytest.raises(UserError, match="its parts together are larger than the file"):
        weight_files.read_weights(bomb)
    plain = tmp_path / "plain.pt"
    torch.save({"a": torch.zeros(1 << 20)}, plain)
    packed = rewritten(plain, tmp_path / "packed.pt", {}, zipfile.ZIP_DEFLATED)
    with pytest.raises(UserError, match="its parts together are larger than the file"):
        weight_files.read_weights(packed)


@settings(max_examples=150)
@given(st.data())
def test_a_damaged_archive_is_refused_in_a_line(archive, tmp_path_factory, data):
    """Cut short, or some bytes changed: its tensors, or a line."""
    raw = bytearray(archive.read_bytes())
    with zipfile.ZipFile(archive) as file:
        objects = file.getinfo("a/data.pkl")
    start = data.draw(st.sampled_from((0, objects.header_offset, file.start_dir)))
    for place in data.draw(st.lists(st.integers(start, min(start + objects.file_size, len(raw) - 1)), max_size=4)):
        raw[place] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged.pt"
    path.write_bytes(raw[: data.draw(st.sampled_from((len(raw), len(raw) - 9, len(raw) // 2, 100, 0)))])
    try:
        weight_files.read_weights(path)
    except UserError as error:
        assert "damaged.pt" in str(error)


VALUES = st.recursive(
    st.text(max_size=4) | st.integers() | st.booleans(),
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=4), v, max_size=3) | st.tuples(v, v),
    max_leaves=5,
)


@given(st.binary(max_size=60) | VALUES.map(lambda value: pickle.dumps(value, 2)))
def test_any_pickle_is_inert(program):
    """Values, or an error of the few kinds that are promised."""
    with contextlib.suppress(weight_archives.UnsafePickle, ValueError, KeyError, IndexError):
        weight_archives.read_pickle(program)


class Runs:
    """A pickle that would run a command."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


@pytest.mark.parametrize("protocol", [2, 4])
@pytest.mark.parametrize("name", ["w.pt", "w.bin", "w.safetensors"])
def test_no_pickle_runs(tmp_path, name, protocol):
    """Of a file of any name, wrapped as torch does or bare."""
    raw = io.BytesIO()
    torch.save({"a": Runs(f"touch {tmp_path / 'ran'}")}, raw, pickle_protocol=protocol)
    for content in (raw.getvalue(), pickle.dumps(Runs(f"touch {tmp_path / 'ran'}"), protocol)):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match="not a readable weights file|'a' is a posix.system, not a tensor"):
            weight_files.read_weights(tmp_path / name)
    assert not (tmp_path / "ran").exists()
