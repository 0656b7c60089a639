"""What is only installed for some models, and how often pictures are opened and towers asked."""

from collections import Counter

import pytest

from compclip.evaluate import embed


@pytest.fixture(scope="session")
def transformers():
    """The package, or a skip."""
    return pytest.importorskip("transformers", reason="optional: pip install compclip[captioners]")


@pytest.fixture
def opened(monkeypatch):
    """How often each picture was opened."""
    counts, load = Counter(), embed.data_images.load_image

    def count(path, *options):
        counts[path] += 1
        return load(path, *options)

    monkeypatch.setattr(embed.data_images, "load_image", count)
    return counts


@pytest.fixture
def encoded(monkeypatch):
    """How many images and texts went through the towers."""
    counts = Counter()

    def count(kind, tower):
        def encode(clip, batch, *args):
            counts[kind] += len(batch)
            return tower(clip, batch, *args)

        monkeypatch.setattr(embed.inference_towers, f"encode_{kind}s", encode)

    count("image", embed.inference_towers.encode_images)
    count("text", embed.inference_towers.encode_texts)
    return counts
