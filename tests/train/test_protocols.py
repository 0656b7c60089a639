"""How a run is trained by its parameters: weights in bfloat16, float16 with a scaled loss, averaged weights, fewer positions, texts to be read.

B texts, L positions, D dim.
"""

import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from compclip.base.errors import UserError
from compclip.interface.views import Target, Widths
from compclip.model import backbone, clip_model, towers
from compclip.model import t5 as t5_of
from compclip.model.clip_model import WEIGHTS
from compclip.train import __main__ as train_command
from compclip.train import decoders, extras, loader
from compclip.train.batch import View
from compclip.train.recorder import do_nothing
from tests import small_training, tiny_project
from tests.model.test_towers import TEXTS, make_model
from tests.tiny_project import at, cell


@pytest.fixture(scope="module")
def project(project, tmp_path_factory) -> Path:
    return tiny_project.other(project, tmp_path_factory.mktemp("protocols") / "p", steps=4)


@pytest.fixture
def model(tmp_path):
    return make_model(tmp_path)


EVERY_STEP = ("train.checkpoint_every_steps=1", "train.log_every_steps=1")


def test_weights_in_bfloat16_train_go_on_and_end_in_float32(project, tmp_path, monkeypatch):
    """Also resumed: products' weights fit in bfloat16, norms and embeddings do not; in checkpoints too; some moved."""
    monkeypatch.chdir(project)
    overrides = ("train.precision=bf16_weights", *EVERY_STEP)
    trained_model = small_training.check_killed_run(project, "fsc_clip", tmp_path, *overrides)
    start = backbone.load(project / "models" / "tiny").clip.state_dict()
    moved, wide = 0, ("embedding", ".ln_", "ln_final", "logit_scale")
    for name, value in trained_model.clip.state_dict().items():
        assert value.dtype != torch.bfloat16
        rounded, start_rounded = (tensor.to(torch.bfloat16).to(value.dtype) for tensor in (value, start[name]))
        assert any(fragment in name for fragment in wide) or torch.equal(value, rounded), name
        moved += int(not torch.equal(value, start_rounded))
    assert moved > 10
    (last,) = sorted((tmp_path / "a").glob("step_*"))[-1:]
    dtypes = {k: v.dtype for k, v in load_file(last).items() if k.startswith("exp_avg.")}
    for name, dtype in dtypes.items():
        assert dtype == (torch.float32 if any(fragment in name for fragment in wide) else torch.bfloat16), name
    assert set(dtypes.values()) == {torch.bfloat16, torch.float32}


def test_a_killed_run_in_float16_goes_on_to_the_same_bits(project, tmp_path, monkeypatch):
    """It begins with a factor that overflows, is killed after some steps were left out, and logs the same numbers."""
    monkeypatch.chdir(project)
    monkeypatch.setattr(extras, "START", 2.0**35)
    small_training.check_killed_run(project, "fsc_clip", tmp_path, "train.precision=fp16", *EVERY_STEP)
    rows, resumed = (tiny_project.steps(tmp_path / folder / "metrics.jsonl") for folder in "ab")
    for key in ("loss", "grad_norm", "loss_scale", "skipped_steps"):
        assert [row[key] for row in rows] == [row[key] for row in resumed], key
    skipped = [row["skipped_steps"] for row in rows]
    assert skipped[0] == 1 and skipped == sorted(skipped)
    assert [row["loss_scale"] for row in rows] == [2.0 ** (35 - count) for count in skipped]
    was_skipped = [a > b for a, b in zip(skipped, [0, *skipped], strict=False)]
    assert [math.isinf(row["grad_norm"]) for row in rows] == was_skipped


def test_float16_is_near_float32_and_says_nothing_elsewhere(project, tmp_path, monkeypatch):
    """Losses and norms of four steps, none of which overflows; no line of another precision has the factor."""
    monkeypatch.chdir(project)
    monkeypatch.setattr(extras, "START", 1024.0)
    logs = {}
    for precision in ("fp16", "float32"):
        overrides = (f"train.precision={precision}", "train.log_every_steps=1")
        small_training.train(project, "fsc_clip", tmp_path / precision, do_nothing, *overrides)
        logs[precision] = tiny_project.steps(tmp_path / precision / "metrics.jsonl")
    for name in ("loss", "grad_norm"):
        half, full = ([row[name] for row in logs[precision]] for precision in ("fp16", "float32"))
        assert half == pytest.approx(full, rel=0.02) and half != full, name
    assert [(row["loss_scale"], row["skipped_steps"]) for row in logs["fp16"]] == [(1024.0, 0)] * 4
    assert not any("loss_scale" in row or "skipped_steps" in row for row in logs["float32"])


def test_averaged_weights_lie_on_the_line(project, tmp_path, monkeypatch):
    """The run with 0.6 is exactly 0.4 of the backbone and 0.6 of the run without, and its adapter-free folder loads."""
    ends = {}
    for alpha in ("1.0", "0.6", "0.0"):
        root = tiny_project.other(project, tmp_path / alpha, steps=4)
        monkeypatch.chdir(root)
        overrides = (f"train.average_alpha={alpha}",)
        assert train_command.main(["--cell", cell("finetune"), *overrides]) == 0
        ends[alpha] = load_file(at(cell("finetune"), *overrides).folder.final.path / "checkpoint" / WEIGHTS)
    start = load_file(project / "models" / "tiny" / WEIGHTS)
    for name, value in clip_model.interpolate(start, ends["1.0"], 0.6).items():
        assert torch.equal(ends["0.6"][name], value) and torch.equal(ends["0.0"][name], start[name])


def test_fewer_positions_keep_what_fits(model, tmp_path):
    """Embeddings of texts that fit are those of the whole tower; the config and the tokenizer say the new number."""
    for beyond in (2, 78):
        with pytest.raises(UserError, match=f"train.context_length={beyond}: must be from 3 to 77"):
            clip_model.cut_context(model, beyond)
    before = towers.encode_texts(model.clip, model.tokenize(TEXTS), tokens=True)
    length = model.tokenize(TEXTS).argmax(-1).max().item() + 1
    short = clip_model.cut_context(model, length)
    after = towers.encode_texts(short.clip, short.tokenize(TEXTS), tokens=True)
    assert short.tokenize(TEXTS).shape[1] == length == short.model_cfg["text_cfg"]["context_length"]
    for a, b in zip(before, after, strict=True):
        torch.testing.assert_close(a, b)
    assert short.tokenize(["word " * 200])[0, -1] == short.tokenize(["word"]).max()  # the end token stays
    short.save(tmp_path / "cut")
    again = backbone.load(tmp_path / "cut")
    assert again.clip.positional_embedding.shape[0] == length == again.tokenize(["a"]).shape[1]


# --- texts to be read ---------------------------------------------------------------------------------------------

WIDTHS = Widths(joint=8, context=12, vocabulary=50)


def test_targets_are_the_texts_own_tokens(model):
    """Start, words and end as the model's tokenizer has them, and -1 behind."""
    rows = [View(torch.zeros(3, 32, 32), text, texts={"target": (text,)}) for text in TEXTS]
    ids_BL = loader._tokenize_targets(rows, Target(), model)
    plain_BL = model.tokenize(TEXTS)
    for ids, plain in zip(ids_BL.tolist(), plain_BL.tolist(), strict=True):
        end = plain.index(max(plain)) + 1
        assert ids == plain[:end] + [-1] * (len(plain) - end)


def test_the_likelihood_is_the_mean_over_tokens_of_a_decoder_that_looks_back():
    """Two texts of unlike lengths, by hand from the head's logits, without padding; a later token changes none before it."""
    torch.manual_seed(0)
    head = decoders.SmallDecoder(WIDTHS).double()
    text, target = torch.randn(2, 8).double(), torch.tensor([[1, 5, 7, 9], [1, 6, -1, -1]])
    logits, _ = head(text, target)
    places = ((0, 0, 5), (0, 1, 7), (0, 2, 9), (1, 0, 6))  # text, position, token behind it
    expected = sum(logits[row, i].log_softmax(0)[token] for row, i, token in places) / 4
    torch.testing.assert_close(decoders.log_likelihood(head, text, target), expected)
    assert decoders.log_likelihood(head, text, torch.full((2, 4), -1)).item() == 0
    one, other = head(text[:1], target[:1])[0], head(text[:1], torch.tensor([[1, 5, 8, 9]]))[0]
    assert torch.equal(one[:, :2], other[:, :2]) and not torch.equal(one[:, 2], other[:, 2])
    assert not torch.allclose(head(text[:1] + 1, target[:1])[0], one)


@pytest.fixture(scope="module")
def t5(tmp_path_factory) -> Path:
    """A T5 of a few thousand numbers with a tokenizer of words, as transformers writes them."""
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("tokenizers")
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    folder = tmp_path_factory.mktemp("t5")
    sizes = {"vocab_size": 40, "d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_decoder_layers": 1}
    cfg = transformers.T5Config(**sizes, num_heads=2, decoder_start_token_id=0)
    torch.manual_seed(0)
    transformers.T5ForConditionalGeneration(cfg).save_pretrained(folder)
    words = {w: i for i, w in enumerate(["<pad>", "</s>", "<unk>", "a", "red", "star", "blue", "moon"])}
    plain = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    plain.pre_tokenizer = pre_tokenizers.Whitespace()
    plain.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=plain, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(folder)
    return folder


def test_a_frozen_t5_reads_as_transformers_own_loss_has_it(t5):
    """Token mean over unequal lengths; a slope for the map and the embedding, none for T5; no dropout, no cache."""
    ids = t5_of.tokenize_targets(str(t5), ["a red star", "a moon"], 12)
    assert ids[:, :4].tolist() == [[3, 4, 5, 1], [3, 7, 1, -1]] and (ids[:, 4:] == -1).all()
    torch.manual_seed(0)
    head = decoders.build_decoder(str(t5), WIDTHS).train()
    text, outputs = torch.randn(2, 8, requires_grad=True), []
    hook = head.decoder.register_forward_hook(lambda *call: outputs.append(call[-1]))
    loss = -decoders.log_likelihood(head, text, ids)
    hook.remove()
    assert outputs[0].past_key_values is None  # keys for a next token, which training never asks for
    theirs = head.decoder(encoder_outputs=(head.project(text)[:, None],), labels=ids.masked_fill(ids == -1, -100)).loss
    torch.testing.assert_close(loss, theirs)
    loss.backward()
    assert text.grad.abs().sum() > 0 and head.project.weight.grad.abs().sum() > 0
    assert all(p.grad is None for p in head.decoder.parameters())
