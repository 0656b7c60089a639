"""Every unique image and text is encoded once, whatever the batches; what cannot be read is named."""

import json
import threading
from concurrent.futures import Future

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from compclip.config.sections import Scoring
from compclip.data.sample import ImageLocation
from compclip.evaluate import benchmark, embed
from compclip.evaluate.embed import PreparedPictures, crop_to_box
from compclip.model import backbone
from compclip.model.inference_towers import copy_models

CONFIG = {
    "embed_dim": 16,
    "vision_cfg": {"image_size": 16, "patch_size": 8, "width": 32, "layers": 1, "head_width": 16},
    "text_cfg": {"context_length": 24, "vocab_size": 49408, "width": 32, "heads": 2, "layers": 2},
}
TEXTS = ["a cat", "a dog", "a cat and a dog on a mat", "dog", "a very long text " * 20, "two cats, one dog"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "embedtiny.json"
    path.write_text(json.dumps(CONFIG))
    return backbone.create(str(path), seed=1)


@pytest.fixture
def pictures(tmp_path):
    rng = np.random.default_rng(0)
    paths = [tmp_path / f"{i}.png" for i in range(5)]
    for path in paths:
        Image.fromarray(rng.integers(0, 256, (20, 30, 3), dtype=np.uint8)).save(path)
    return [str(path) for path in paths]


@pytest.fixture
def three_models(model, tmp_path):
    """Models of the same architecture with other weights."""
    (tmp_path / "embedtiny.json").write_text(json.dumps(CONFIG))
    return [model, *(backbone.create(str(tmp_path / "embedtiny.json"), seed=seed) for seed in (2, 3))]


def test_several_models_share_each_picture_and_text(three_models, pictures, opened, encoded, monkeypatch):
    """One pass opens each picture once and tokenises each text once, whatever the number of models."""
    tokenised, kind = [], type(three_models[0])
    tokenize = kind.tokenize
    monkeypatch.setattr(kind, "tokenize", lambda self, texts: tokenised.extend(texts) or tokenize(self, texts))
    embed.encode_all(three_models, pictures * 2, TEXTS * 2, Scoring(batch_size=2))
    assert opened == dict.fromkeys(pictures, 1)
    assert sorted(tokenised) == sorted(TEXTS)
    assert encoded == {"image": 3 * 5, "text": 3 * 6}


def assert_equal(embedded, alone):
    """The same rows, to the bit."""
    assert embedded.image_row == alone.image_row and embedded.text_row == alone.text_row
    assert np.array_equal(embedded.image_ID, alone.image_ID) and np.array_equal(embedded.text_TD, alone.text_TD)


@pytest.mark.parametrize("threads", [1, 3])
def test_several_models_have_the_bits_of_each_by_itself(three_models, pictures, threads):
    together = embed.encode_all(three_models, pictures, TEXTS, Scoring(batch_size=2, threads=threads))
    for model, embedded in zip(three_models, together, strict=True):
        assert_equal(embedded, embed.encode(model, pictures, TEXTS, Scoring(batch_size=2)))
    assert not np.array_equal(together[0].image_ID, together[1].image_ID)


@pytest.mark.parametrize("threads", [1, 3])
def test_copies_on_further_devices_share_the_batches_and_change_no_bit(three_models, pictures, threads, monkeypatch):
    """Two sets of the models on "cpu": each meets the other at its first batch, and all vectors are those of one."""
    copies = copy_models(three_models, ["cpu", "cpu"])[1:]
    how, meeting, lock = Scoring(batch_size=2, threads=threads), threading.Barrier(2, timeout=60), threading.Lock()
    tower, awaited = embed.inference_towers.encode_images, {three_models[0].clip, copies[0][0].clip}

    def encode(clip, batch):
        with lock:
            is_first = clip in awaited
            awaited.discard(clip)
        if is_first:
            meeting.wait()
        return tower(clip, batch)

    monkeypatch.setattr(embed.inference_towers, "encode_images", encode)
    shared = embed.encode_all(three_models, pictures, TEXTS, how, None, copies)
    assert not awaited
    monkeypatch.undo()
    for embedded, alone in zip(shared, embed.encode_all(three_models, pictures, TEXTS, how), strict=True):
        assert_equal(embedded, alone)


def test_rows_are_those_of_plain_open_clip(model, pictures):
    embedded = embed.encode(model, pictures, TEXTS, Scoring(batch_size=2, threads=3))
    with torch.no_grad():
        pixels = torch.stack([model.transform(Image.open(path).convert("RGB")) for path in pictures])
        image = model.clip.encode_image(pixels, normalize=True).numpy()
        text = model.clip.encode_text(model.tokenize(TEXTS), normalize=True).numpy()
    assert embedded.images(pictures) == pytest.approx(image, abs=1e-5)
    assert embedded.texts(TEXTS) == pytest.approx(text, abs=1e-5)
    assert embedded.table(pictures, TEXTS) == pytest.approx(image @ text.T, abs=1e-5)
    assert embedded.matches(pictures, TEXTS[:5]) == pytest.approx((image * text[:5]).sum(1), abs=1e-5)
    assert embedded.similarities(TEXTS, TEXTS[::-1]) == pytest.approx((text * text[::-1]).sum(1), abs=1e-5)


def test_equal_texts_tie_exactly(model, pictures):
    embedded = embed.encode(model, pictures, TEXTS, Scoring(batch_size=4))
    table = embedded.table(pictures, [TEXTS[2]] * 37)
    assert (table == table[:, :1]).all()


def test_unreadable_images_are_named(model, pictures, tmp_path):
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n no")
    wrong = [str(tmp_path / "broken.png"), str(tmp_path / "gone.png")]
    embedded = embed.encode(model, [*pictures, *wrong], [], Scoring(batch_size=3))
    assert embedded.failed == {wrong[0]: "unreadable", wrong[1]: "missing"}
    assert embedded.has(pictures) and not embedded.has([pictures[0], wrong[0]])
    nothing = embed.encode(model, wrong, [])
    assert nothing.image_row == {} and len(nothing.failed) == 2


def test_a_picture_within_an_archive_is_the_picture(model, tmp_path):
    """Whole, and a part of it; bytes that are none, and an archive that ends too early, are unreadable."""
    alone, pack = tmp_path / "a.png", tmp_path / "pack"
    Image.effect_noise((32, 16), 90).save(alone)
    raw = alone.read_bytes()
    pack.write_bytes(b"head" + raw)
    inside, late = (benchmark.bytes_of_file(str(pack), 4, length) for length in (len(raw), len(raw) + 1))
    box = (16.0, 0.0, 16.0, 16.0)
    refs = [str(alone), inside, benchmark.with_box(str(alone), box), benchmark.with_box(inside, box), late]
    embedded = embed.encode(model, [*refs, benchmark.bytes_of_file(str(pack), 0, 8)], [])
    assert np.array_equal(embedded.images([inside]), embedded.images([str(alone)]))
    assert np.array_equal(embedded.images([refs[3]]), embedded.images([refs[2]]))
    assert set(embedded.failed.values()) == {"unreadable"} and len(embedded.failed) == 2


@pytest.mark.parametrize(("name", "scale", "margin"), [("whole.png", 1, 0), ("large.jpg", 75, 10)])
def test_a_box_is_cut_out_in_pixels_of_the_file(model, tmp_path, name, scale, margin):
    """Also where a large JPEG is read smaller."""
    full_path, crop_path = str(tmp_path / name), str(tmp_path / "part.png")
    canvas = Image.new("RGB", (32 * scale, 32 * scale), "blue")
    canvas.paste("red", (16 * scale, 8 * scale, 32 * scale, 24 * scale))
    canvas.save(full_path, quality=95)
    Image.new("RGB", (16, 16), "red").save(crop_path)
    side = 16 * scale - 2 * margin
    box = benchmark.with_box(full_path, (16 * scale + margin, 8 * scale + margin, side, side))
    embedded = embed.encode(model, [full_path, crop_path, box], [])
    assert embedded.images([box]) == pytest.approx(embedded.images([crop_path]), abs=0.02 if margin else 1e-6)
    assert not np.allclose(embedded.images([box]), embedded.images([full_path]), atol=1e-3)


NAN, INF = float("nan"), float("inf")
NO_BOXES = [  # of a picture of 30 x 20
    (0, 0, 0, 5), (0, 0, 5, 0), (0, 0, -5, 5), (0, 0, 5, -5), (30, 0, 5, 5), (-5, 0, 5, 5), (NAN, 0, 5, 5), (-INF, 0, 5, 5),
    (0, 20, 5, 5), (0, -5, 5, 5), (0, NAN, 5, 5), (0, 0, NAN, 5), (0, 0, INF, 5), (0, 0, 1e9, 5), (-1e9, -1e9, 2e9, 2e9),
    (0, 0, 10**400, 5), (1e308, 0, 5, 5), (0, 1e308, 1e-300, 10), (-1e308, 0, 1e308, 1e-300), (-5.4, 0, 5, 5), (-0.9, 0, 1, 1),
    (0, 0, 30, 0.1), (0, 0, 90, 40),
]  # fmt: skip


def test_a_box_that_shows_nothing_is_named(model, pictures):
    """Its crop would be black, empty, or fill the memory; the picture itself is read."""
    refs = [benchmark.with_box(pictures[0], box) for box in NO_BOXES]
    embedded = embed.encode(model, [*refs, pictures[0]], [])
    assert embedded.failed == dict.fromkeys(refs, "box")
    assert embedded.has([pictures[0]])


@pytest.mark.parametrize(
    ("box", "crop"),
    [
        ((25, 15, 10, 10), (25, 15, 35, 25)),  # black outside, as in the authors' code
        ((-2, -2, 10, 10), (-2, -2, 8, 8)),
        ((10.1, 10.1, 0.2, 0.2), (10, 10, 11, 11)),  # a part of a pixel
        ((0, 0, 30, 20), (0, 0, 30, 20)),
    ],
)
def test_what_a_box_shows(pictures, box, crop):
    picture = Image.open(pictures[0])
    assert crop_to_box(picture, pictures[0], box).tobytes() == picture.crop(crop).tobytes()


@given(box=st.tuples(*[st.floats() | st.integers() | st.floats(-50, 50)] * 4))
def test_any_box_is_a_crop_of_bounded_size_or_an_error(tmp_path_factory, box):
    """Never an error of another kind, and never gigabytes."""
    path = str(tmp_path_factory.getbasetemp() / "box.png")
    picture = Image.new("RGB", (30, 20))
    picture.save(path)
    name, numbers = benchmark.parse_reference(benchmark.with_box(path, box))
    assert name == path
    try:
        crop = crop_to_box(picture, path, numbers)
    except embed.data_images.ImageError as error:
        assert error.reason == "box"
    else:
        assert 0 < crop.width * crop.height <= 8 * 30 * 20


ODD_NAMES = ["a#box=.jpg", "a#box=1,2,3", "a#box=x,y,z,w", "a#box=1,2,3,4/b.jpg", "a#bytes=7,0", "a#bytes=7,x"]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_half_a_mark_in_a_name_is_part_of_it(name):
    """Names are strangers'."""
    box = (1.0, 2.0, 3.0, 4.5)
    assert benchmark.parse_reference(name) == (name, None)
    assert benchmark.parse_reference(benchmark.with_box(name, box)) == (name, box)
    inside = benchmark.bytes_of_file(name, 7, 9)
    assert benchmark.parse_reference(inside) == (ImageLocation(name, 7, 9), None)


def test_pictures_are_plain_unless_they_shall_be_upright(model, tmp_path):
    """A picture that is turned by its EXIF is another one to the model; a box is cut out of what is seen."""
    canvas = Image.new("RGB", (32, 32), "blue")
    canvas.paste("red", (0, 0, 16, 16))
    canvas.save(tmp_path / "stored.png")
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    canvas.save(tmp_path / "turned.png", exif=exif)
    canvas.rotate(180).save(tmp_path / "upright.png")
    stored, turned, upright = (str(tmp_path / f"{name}.png") for name in ("stored", "turned", "upright"))
    part = {ref: benchmark.with_box(ref, (0, 0, 16, 16)) for ref in (stored, turned, upright)}
    for how, expected_picture in ((Scoring(), stored), (Scoring(pictures="upright"), upright)):
        embedded = embed.encode(model, [*part, *part.values()], [], how)
        assert np.array_equal(embedded.images([turned]), embedded.images([expected_picture]))
        assert np.array_equal(embedded.images([part[turned]]), embedded.images([part[expected_picture]]))
    assert not np.allclose(embedded.images([stored]), embedded.images([upright]), atol=1e-3)


def test_prepared_pictures_are_kept_as_far_as_there_is_room(model, pictures, opened, tmp_path):
    """Room for three of 16 x 16; another preparation is another picture, and why there is none is kept as well."""
    gone = str(tmp_path / "gone.png")
    prepared = PreparedPictures(3 * 4 * 16 * 16 + len("missing"))
    first = embed.encode_all([model], [gone, *pictures[:3]], [], Scoring(threads=1), pictures=prepared)[0]
    second = embed.encode_all([model], [gone, *pictures], [], Scoring(threads=1), pictures=prepared)[0]
    assert opened == {gone: 1, **dict.fromkeys(pictures[:3], 1), **dict.fromkeys(pictures[3:], 1)}
    assert second.failed == {gone: "missing"}
    assert first.images(pictures[:3]) == pytest.approx(second.images(pictures[:3]), abs=1e-6)
    embed.encode_all([model], pictures, [], Scoring(threads=1), pictures=prepared)
    assert opened == {gone: 1, **dict.fromkeys(pictures[:3], 1), **dict.fromkeys(pictures[3:], 2)}
    embed.encode_all([model], pictures, [], Scoring(threads=1, pictures="upright"), pictures=prepared)
    assert opened[pictures[0]] == 2


def test_a_pass_that_is_interrupted_drops_what_has_not_begun():
    """Ctrl-C while texts are waited for would otherwise wait for all pictures."""
    jobs: list[Future] = []
    begun = threading.Event()
    submitted = threading.Event()
    cancelled = threading.Event()

    def work() -> None:
        begun.set()
        submitted.wait(30)
        cancelled.wait(30)

    with pytest.raises(KeyboardInterrupt), embed.one_thread_each(1) as pool:
        jobs += [pool.submit(work) for _ in range(3)]
        jobs[-1].add_done_callback(lambda _: cancelled.set())
        submitted.set()
        assert begun.wait(30)
        raise KeyboardInterrupt
    assert [job.cancelled() for job in jobs] == [False, True, True]
