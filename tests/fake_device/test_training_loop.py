"""The whole training loop with its recorder, on a GPU that is not there: how often a step waits for it."""

import contextlib
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace

from compclip.config.sections import Train
from compclip.interface.method import load_method
from compclip.train import checkpoint, fake_device, fine_tuning, loader, recorder, simulated_step
from tests.fake_device.test_steps import KINDS, SHAPE, make_run

STEPS = 4


def count_waits(monkeypatch, folder, name: str, **options) -> list[Counter[str]]:
    """Return where each step waited; the last one saves."""
    method, train = load_method(name), Train(batch_size=6, max_steps=STEPS, **options)
    run = make_run(method, train)
    waits: list[Counter[str]] = []
    monkeypatch.setattr(checkpoint, "write_tensors", lambda *_: None)
    with fake_device.simulate() as ledger:
        model = simulated_step.build_model(run, method, SHAPE, fake_device.NAME)

        @contextlib.contextmanager
        def open_batches(sampler, views_at, model, steps, *_) -> Iterator[Iterator]:
            yield (simulated_step.build_batch(views_at(step), 6, model).pin_memory() for step in steps)

        def on_step(step: int, *_) -> None:
            if step:
                waits.append(Counter(ledger.waits))
            ledger.reset_counts()

        monkeypatch.setattr(loader, "open_batches", open_batches)
        with recorder.recording(run, folder, on_step) as record:
            fine_tuning.train(run, method, model, SimpleNamespace(per_epoch=STEPS, share=6), record)
            waits.append(Counter(ledger.waits))
    return waits


def test_a_logged_step_waits_once_and_others_never(monkeypatch, tmp_path):
    """Terms, norm, scale and whether every loss was finite come by one copy."""
    waits = count_waits(monkeypatch, tmp_path, "negclip", log_every_steps=2, **KINDS["cached"])
    assert [sum(places.values()) for places in waits[1:]] == [1, 0, 1]
    assert {place.partition(":")[0] for places in waits[1:] for place in places} == {"train/fine_tuning.py"}
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 2
