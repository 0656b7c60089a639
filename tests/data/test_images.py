"""Pictures as they come: every odd one is upright RGB or a named error."""

import os
import struct
import tracemalloc
import zlib

import pytest
from PIL import Image

from compclip.data import images
from compclip.data.images import ImageError


def pixel(path, xy=(0, 0)):
    return images.load_image(path).getpixel(xy)


def save(path, mode, colour, size=(8, 8), **options):
    Image.new(mode, size, colour).save(path, **options)
    return path


@pytest.mark.parametrize("mode,colour,suffix,expected", [
    ("RGB", (10, 20, 30), "png", (10, 20, 30)), ("L", 77, "png", (77, 77, 77)), ("1", 1, "png", (255, 255, 255)),
    ("RGBA", (255, 0, 0, 0), "png", (255, 255, 255)), ("RGBA", (255, 0, 0, 255), "png", (255, 0, 0)),
    ("LA", (0, 0), "png", (255, 255, 255)), ("CMYK", (0, 0, 0, 0), "tiff", (255, 255, 255)),
    *(("I;16", value, "png", (value // 257,) * 3) for value in (0, 100, 255, 256, 32768, 65535)),
])  # fmt: skip
def test_modes(tmp_path, mode, colour, suffix, expected):
    """Transparency lies on white, CMYK is converted; 16 bit are scaled by the mode, whatever the picture holds."""
    path = save(tmp_path / f"a.{suffix}", mode, colour)
    assert pixel(path) == expected
    assert images.load_image(path).mode == "RGB"


def palette(path, transparency):
    """A picture of four colours of which the first is red."""
    picture = Image.new("P", (4, 4), 0)
    picture.putpalette([200, 0, 0] + [0, 0, 0] * 255)
    picture.save(path, transparency=transparency)
    return path


def test_exif_rotation(tmp_path):
    """A picture stored lying is shown upright: size and pixels turn together."""
    picture = Image.new("RGB", (20, 10), "blue")
    picture.paste("red", (0, 0, 10, 10))
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees clockwise
    picture.save(tmp_path / "r.png", exif=exif)
    assert images.read_size(tmp_path / "r.png") == (10, 20)
    upright = images.load_image(tmp_path / "r.png")
    assert upright.size == (10, 20)
    assert upright.getpixel((5, 2)) == (255, 0, 0)
    assert upright.getpixel((5, 18)) == (0, 0, 255)


def test_huge_jpeg_is_decoded_small(tmp_path):
    """A large JPEG is decoded at a reduced scale, still larger than any model's input."""
    Image.new("RGB", (9000, 6000), (0, 128, 0)).save(tmp_path / "h.jpg")
    decoded = images.load_image(tmp_path / "h.jpg")
    assert images.read_size(tmp_path / "h.jpg") == (9000, 6000)
    assert images.DRAFT_SIDE <= max(decoded.size) < 9000
    assert abs(decoded.getpixel((0, 0))[1] - 128) <= 2


def refusal_of(path) -> str:
    """Why neither the picture nor its size is read."""
    reasons = set()
    for reading in (images.load_image, images.read_size):
        with pytest.raises(ImageError) as error:
            reading(path)
        reasons.add(error.value.reason)
    (reason,) = reasons
    return reason


NO_PICTURES = {
    "empty": b"",
    "text": b"not a picture",
    "bare header": b"\x89PNG\r\n\x1a\n",
    # other formats: Pillow starts Ghostscript for one of them, and cannot end some
    "dds": b"DDS |" + bytes(3) + b"\x07\x10" + bytes(110),
    "eps": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\n(/tmp/x) (w) file\n",
    "ico": b"\0\0\1\0\1\0\x10\x10\0\0\1\0\x20\0\x68\4\0\0\x16\0\0\0" + bytes(1200),
    "svg": b"<svg xmlns='http://www.w3.org/2000/svg'/>",
    "fits": b"SIMPLE  =                    T" + b" " * 2850,
    "xbm": b"#define im_width 8\n#define im_height 8\nstatic char im_bits[] = {\n0x00};\n",
}


@pytest.mark.parametrize("kind", NO_PICTURES)
def test_what_is_no_picture(tmp_path, kind):
    """Under its own suffix and under another."""
    for suffix in (kind, "jpg"):
        (tmp_path / f"x.{suffix}").write_bytes(NO_PICTURES[kind])
        assert refusal_of(tmp_path / f"x.{suffix}") == "unreadable"


def test_what_is_no_file(tmp_path):
    """A pipe without a writer, a folder, names that no file has."""
    os.mkfifo(tmp_path / "pipe.png")
    names = {"missing": ("none.png", "", "a\0.png"), "unreadable": ("pipe.png", "x" * 300, "\udcff.png")}
    for reason in names:
        assert {refusal_of(f"{tmp_path}/{name}") for name in names[reason]} == {reason}


@pytest.mark.parametrize("size", [(8, 8), (20_000, 1), (1, 20_000), (1_000_000, 1), (1005, 5)])
def test_a_picture_that_would_grow_is_refused_before_a_pixel_of_it_is_read(tmp_path, monkeypatch, size):
    """More pixels than the limit (here 50), or a strip: a model would scale 20000 x 1 to 5 GB."""
    monkeypatch.setattr(images, "MAX_PIXELS", 50 if size == (8, 8) else images.MAX_PIXELS)
    Image.new("1", size).save(tmp_path / "x.png")
    monkeypatch.setattr(images.Image.Image, "load", None)
    assert refusal_of(tmp_path / "x.png") == "unreadable"
    with pytest.raises(ImageError, match=f"{size[0]} x {size[1]}"):
        images.load_image(tmp_path / "x.png")


@pytest.mark.parametrize("fault", [struct.error, IndexError, MemoryError, RecursionError])
@pytest.mark.parametrize("where", ["load", "draft"])
def test_whatever_pillow_raises(tmp_path, monkeypatch, fault, where):
    """Decoders end in any error there is; Ctrl-C is none of theirs."""

    def fail(*args):
        raise fault("deep inside")

    path = save(tmp_path / "a.png", "RGB", (1, 2, 3))
    monkeypatch.setattr(images.PngImagePlugin.PngImageFile, where, fail)
    with pytest.raises(ImageError, match=fault.__name__) as error:
        images.load_image(path)
    assert error.value.reason == "unreadable"
    fault = KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        images.load_image(path)


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


@pytest.mark.parametrize("kind", [b"iCCP", b"zTXt", b"iTXt"])
def test_a_chunk_that_unpacks_to_gigabytes_stays_packed(tmp_path, kind):
    """Pillow stops at a megabyte; here after 64 times as much in each of two."""
    packed = zlib.compress(bytes(1 << 26), 9)
    body = {b"iCCP": b"n\0\0", b"zTXt": b"n\0\0", b"iTXt": b"n\0\1\0\0\0"}[kind] + packed
    raw = save(tmp_path / "a.png", "RGB", (1, 2, 3)).read_bytes()
    (tmp_path / "a.png").write_bytes(raw[:33] + chunk(kind, body) * 2 + raw[33:])
    tracemalloc.start()
    try:
        assert images.load_image(tmp_path / "a.png").size == (8, 8)
    except ImageError as error:
        assert error.reason == "unreadable"
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 1 << 24


@pytest.mark.parametrize(
    "mode,colour,suffix",
    [("RGBA", (255, 0, 0, 0), "png"), ("LA", (7, 0), "png"), ("I;16", 300, "png"), ("CMYK", (9, 0, 0, 0), "tiff")],
)
def test_plain_is_what_pillow_makes_of_it(tmp_path, mode, colour, suffix):
    """As the authors of the benchmarks open pictures."""
    path = save(tmp_path / f"a.{suffix}", mode, colour)
    plain, pillows = images.load_image(path, upright=False), Image.open(path).convert("RGB")
    assert plain.mode == "RGB" and plain.tobytes() == pillows.tobytes()


def test_plain_is_as_stored(tmp_path):
    """Lying, at its full size, and a palette without its transparency, which else lies on white."""
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (3000, 2100), "blue").save(tmp_path / "r.jpg", exif=exif)
    assert images.load_image(tmp_path / "r.jpg", upright=False).size == (3000, 2100)
    assert images.read_size(tmp_path / "r.jpg", upright=False) == (3000, 2100)
    assert images.read_size(tmp_path / "r.jpg") == (2100, 3000)
    assert pixel(palette(tmp_path / "t.png", 0)) == (255, 255, 255)
    path = palette(tmp_path / "p.png", bytes([0, 255]))
    assert images.load_image(path, upright=False).getpixel((0, 0)) == (200, 0, 0)
