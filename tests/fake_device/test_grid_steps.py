"""The largest step of every paper's grid is the one that its head names, with the memory that stands there."""

from dataclasses import asdict

import pytest

from compclip.config import grid, read
from compclip.config.grid import Run
from compclip.config.sections import Params
from compclip.launch import cost_table
from compclip.model import t5
from compclip.train.throughput import GIB
from tests.config.test_grids import GRIDS, PAPERS, read_claim


def describe_step(run: Run) -> str:
    """What a step's memory follows from. Of a weight that is whether it is 0; how large it is changes nothing."""
    method = {key: bool(value) if isinstance(value, float) else value for key, value in asdict(run.method).items()}
    train = {key: value for key, value in asdict(run.train).items() if key not in cost_table.SAME_STEP}
    return repr((run.method_name, method, train, run.backbone.model))


def list_steps(params: Params) -> dict[str, Run]:
    """A cell of each step that is another one, but for models whose shape only a hub knows."""
    runs = [group[0] for group in cost_table.group_runs(list(grid.resolve_all(params)))]
    return {describe_step(run): run for run in runs if not run.backbone.model.startswith("hf-hub:")}


@pytest.fixture(scope="module")
def peaks() -> dict[tuple[str, str], float]:
    """The GiB of the steps that were predicted, by card and step: grids share some."""
    return {}


@pytest.fixture
def published_t5(monkeypatch):
    """READ-CLIP's decoder in the shape of T5 v1.1 large, whose files need not be there."""
    transformers = pytest.importorskip("transformers")
    shape = transformers.T5Config(
        vocab_size=32128, d_model=1024, d_kv=64, d_ff=2816, num_layers=24, num_decoder_layers=24, num_heads=16,
        feed_forward_proj="gated-gelu", tie_word_embeddings=False, decoder_start_token_id=0,
    )  # fmt: skip
    monkeypatch.setattr(t5, "load_decoder", lambda source: transformers.T5ForConditionalGeneration(shape))


@pytest.mark.long
@pytest.mark.parametrize("name", PAPERS)
@pytest.mark.usefixtures("published_t5")
def test_the_largest_step_is_predicted_so(name, peaks):
    claim, params = read_claim(name), read.load_params(GRIDS[name])
    predictor, steps = cost_table.CostPredictor(cost_table.find_card(claim.card)), list_steps(params)
    for step, run in steps.items():
        if (claim.card, step) not in peaks:
            peaks[claim.card, step] = predictor.predict(run).configured.peak_bytes / GIB
    claimed = peaks[claim.card, describe_step(grid.resolve(params, claim.cell))]
    assert claimed == pytest.approx(claim.gib, rel=0.01)
    assert max(peaks[claim.card, step] for step in steps) == pytest.approx(claimed, rel=0.01)
