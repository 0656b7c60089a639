"""The copy of a batch to a GPU: on a stream of its own, and seen whole by the step. There is no GPU: calls are noted."""

import contextlib
from types import SimpleNamespace

import torch

from compclip.interface.views import Views
from compclip.train import accumulate
from compclip.train.batch import Batch
from tests import distributed_check


def test_the_step_waits_for_a_copy_beside_it(monkeypatch):
    """Copied on another stream than the step's, which waits for it, and which all memory of the copy is noted for."""
    calls, batch = [], distributed_check.batch(Views())

    @contextlib.contextmanager
    def entered(stream):
        calls.append("begin")
        yield
        calls.append("end")

    copied = [SimpleNamespace(record_stream=lambda stream: calls.append(stream)) for _ in batch.tensors()]
    compute = SimpleNamespace(wait_stream=lambda stream: calls.append(("waits for", stream)))
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: "copying")
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: compute)
    monkeypatch.setattr(torch.cuda, "stream", entered)
    monkeypatch.setattr(
        Batch, "to", lambda batch, device: calls.append("copy") or SimpleNamespace(tensors=lambda: copied)
    )
    accumulate._copy_stream.cache_clear()
    try:
        accumulate.copy_batch(batch, torch.device("cuda", 7))
    finally:
        accumulate._copy_stream.cache_clear()
    assert calls == ["begin", "copy", "end", ("waits for", "copying"), *[compute] * len(copied)]
