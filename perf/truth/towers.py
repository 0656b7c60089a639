"""Every method on every family of towers: it trains, is refused by one line before it starts, or fails.

    python -m perf.truth.towers [--methods fsc_clip] [--families ViT ResNet] [--write experiments/grids/towers.md]

One small model for each family of open_clip's list, with random weights, and two steps on a made batch: random pixels
and words, every text there. Three tables. Each method with its defaults; each option of `train` by finetune; what is
checked of each family: a frozen tower keeps every tensor, a batch cut by `micro_batch` has the whole one's first loss,
a resumed training is one without a stop, the weights open in plain open_clip with the vectors of the evaluation. A
refusal counts where `compclip config check` says the same from the config alone (compclip/train/tower_check.py). Exit
status 1 where a cell fails, or is refused by one of the two alone. Two processes, connected by gloo, train two methods
on each family; that all methods' terms and gradients are one process's is tests/train/test_distributed.py.

Takes some 20 minutes for all; needs nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import multiprocessing
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from compclip.base import plugins, worker_processes
from compclip.base.errors import UserError, entry, one_line
from compclip.base.files import write_atomic, write_json
from compclip.config.cell import Cell
from compclip.config.grid import Run
from compclip.config.sections import Backbone, Data, Lora, Train
from compclip.interface.method import Method, load_method
from compclip.interface.views import Step
from compclip.model import backbone, clip_model, inference_towers, towers
from compclip.model.clip_model import ClipModel
from compclip.train import accumulate, checkpoint, distributed, fine_tuning, optimiser, simulated_step, tower_check
from compclip.train.batch import Batch

METHODS = [name for name in plugins.list_plugins(plugins.METHODS) if load_method(name).TRAINS]
# Beside each method's defaults: a variant that asks the towers for something else.
VARIANTS: dict[str, dict[str, Any]] = {
    "hybrid.local": {"place": "contrast+local", "negatives": "negclip"},
    "read_clip.state": {"reads": "state"},
    "clip_in.rotary": {"rotary": 100},
    "c2lip.encoded": {"concepts": "encoded"},
    "superclip.wide": {"vocabulary": 1 << 18},
}
BATCH, SIDE, WORDS = 4, 64, 49408
TEXT = {"context_length": 77, "vocab_size": WORDS, "width": 16, "heads": 1, "layers": 2}
VISION = {"image_size": SIDE, "patch_size": 16, "width": 32, "layers": 1, "head_width": 16}
# Towers of transformers: their config files, written beside the models' own.
TRANSFORMERS = {
    "xlm-roberta": {"vocab_size": 60000, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
                    "intermediate_size": 32, "max_position_embeddings": 90, "pad_token_id": 1},
    "mt5": {"vocab_size": 60000, "d_model": 32, "num_layers": 2, "num_heads": 2, "d_kv": 16, "d_ff": 32},
    "m2m_100": {"vocab_size": 60000, "d_model": 32, "encoder_layers": 2, "decoder_layers": 1, "encoder_ffn_dim": 32,
                "decoder_ffn_dim": 32, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
                "max_position_embeddings": 90},
}  # fmt: skip
# Towers of timm, by the name they are registered under: a real one's name, and what is smaller.
TIMM: dict[str, tuple[str, dict[str, Any]]] = {
    "small_siglip": ("vit_base_patch16_siglip_224", {"depth": 1, "embed_dim": 64, "num_heads": 2}),
    "small_pe": ("vit_pe_core_tiny_patch16_384", {"depth": 1}),
    "small_eva01": ("eva_giant_patch14_224", {"depth": 1, "embed_dim": 64, "num_heads": 2, "patch_size": 16}),
    "small_eva02": ("eva02_base_patch16_clip_224", {"depth": 1, "embed_dim": 64, "num_heads": 2}),
    "small_swin": ("swin_base_patch4_window7_224",
                   {"depths": (1, 1), "num_heads": (1, 2), "embed_dim": 16, "window_size": 4}),
    "small_relpos": ("vit_relpos_medium_patch16_cls_224", {"depth": 2, "embed_dim": 64, "num_heads": 2}),
    "small_gap": ("vit_medium_patch16_gap_256", {"depth": 1, "embed_dim": 64, "num_heads": 2}),
    "small_mci": ("vit_base_mci_224", {"depth": 1}),
    "small_vitamin": ("vitamin_small_224", {"depth": 2}),
}  # fmt: skip


def use_timm(name: str, pool: str, projection: str | None, side: int = SIDE) -> dict[str, Any]:
    """Return an image tower of timm's."""
    return {"timm_model_name": name, "timm_pool": pool, "timm_proj": projection, "image_size": side}


def join_towers(vision: Mapping[str, Any], text: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return a model's config."""
    return {"embed_dim": 16, "vision_cfg": dict(vision), "text_cfg": dict(text), **more}


def use_transformers(kind: str, pooler: str, projection: str) -> dict[str, Any]:
    """Return a text tower of transformers, whose config lies in a folder of that name."""
    return {"hf_model_name": kind, "hf_tokenizer_name": kind, "hf_pooler_type": pooler, "hf_proj_type": projection}


OWN_TEXT = {"custom_text": True}
SIGLIP_TEXT = TEXT | {"width": 64, "no_causal_mask": True, "proj_bias": True, "pool_type": "last"}
CLIPA_VISION = VISION | {"no_ln_pre": True, "pool_type": "avg", "final_ln_after_pool": True}
COCA = {"context_length": 76, "vocab_size": WORDS, "width": 16, "heads": 1, "layers": 1, "attn_pooler_heads": 1}
COCA_TEXT = {"context_length": 76, "embed_cls": True, "output_tokens": True}
FAMILIES: dict[str, dict[str, Any]] = {
    "ViT": join_towers(VISION, TEXT),
    "CLIPA": join_towers(CLIPA_VISION, TEXT | {"pool_type": "last", "no_causal_mask": True}),
    "MetaCLIP 2": join_towers(VISION, TEXT | {"pool_type": "eos", "eos_id": WORDS - 1}),
    "SigLIP": join_towers(use_timm("small_siglip", "map", "none"), SIGLIP_TEXT, embed_dim=64, init_logit_bias=-10,
                          **OWN_TEXT),
    "PE": join_towers(use_timm("small_pe", "map", None), TEXT, embed_dim=512, **OWN_TEXT),
    "EVA01": join_towers(use_timm("small_eva01", "token", None), TEXT, **OWN_TEXT),
    "EVA02": join_towers(use_timm("small_eva02", "token", None), TEXT, **OWN_TEXT),
    "CoCa": join_towers(VISION | {"attentional_pool": True, "attn_pooler_heads": 1, "output_tokens": True},
                        TEXT | COCA_TEXT, multimodal_cfg=COCA, **OWN_TEXT),
    "ResNet": join_towers({"image_size": SIDE, "layers": [1, 1, 1, 1], "width": 8, "head_width": 8}, TEXT),
    "ConvNeXt": join_towers(use_timm("test_convnext", "", "linear"), TEXT),
    "MobileCLIP": join_towers(use_timm("fastvit_t8", "avg", None), TEXT | {"no_causal_mask": True}, **OWN_TEXT),
    "MobileCLIP-B": join_towers(use_timm("small_mci", "token", None), TEXT, **OWN_TEXT),
    "ViTamin": join_towers(use_timm("small_vitamin", "", "linear") | {"timm_drop_path": 0.1}, TEXT, **OWN_TEXT),
    "Swin": join_towers(use_timm("small_swin", "", "linear"), TEXT),
    "ViT relpos": join_towers(use_timm("small_relpos", "", "linear"), TEXT),
    "ViT gap": join_towers(use_timm("small_gap", "", "linear"), TEXT),
    "XLM-R": join_towers(VISION, use_transformers("xlm-roberta", "mean_pooler", "mlp")),
    "mT5": join_towers(VISION, use_transformers("mt5", "mean_pooler", "linear")),
    "NLLB": join_towers(VISION, use_transformers("m2m_100", "cls_pooler", "linear")),
}  # fmt: skip
OPTIONS: dict[str, dict[str, Any]] = {
    "trainable: text": {"trainable": "text"},
    "trainable: image": {"trainable": "image"},
    "text_layers: 1": {"text_layers": 1},
    "lora: {rank: 2}": {"lora": Lora(rank=2)},
    "lora: {rank: 2, targets: [mlp]}": {"lora": Lora(rank=2, targets=["mlp"])},
    "context_length: 64": {"context_length": 64},
    "checkpoint_activations: true": {"checkpoint_activations": True},
    "micro_batch: 2": {"micro_batch": 2},
    "micro_batch: 2, trainable: text": {"micro_batch": 2, "trainable": "text"},
    "text_groups: 2": {"text_groups": 2},
    "compile: true": {"compile": True},
    "decayed: all_but_norms": {"decayed": "all_but_norms"},
    "precision: bf16_weights": {"precision": "bf16_weights"},
}
# Two processes, by method and options.
TOGETHER: dict[str, tuple[str, dict[str, Any]]] = {
    "two processes": ("finetune", {}),
    "two processes, trainable: text": ("finetune", {"trainable": "text"}),
    "two processes, fsc_clip, trainable: text": ("fsc_clip", {"trainable": "text"}),
}
PATIENCE = timedelta(minutes=2)  # of one process for the other
TRAINS = "yes"


@dataclass(frozen=True)
class Outcome:
    """What became of a cell: "yes", or the line that refused it, or the error it ended with."""

    line: str = TRAINS
    fails: bool = False
    losses: tuple[float, ...] = ()
    model: ClipModel | None = None
    digest: str = ""  # of a model that another process trained


def lay_models(folder: Path) -> None:
    """Write the configs of transformers' towers, and have timm know its small ones."""
    import timm
    from timm.models import is_model, register_model

    for kind, config in TRANSFORMERS.items():
        write_json(folder / kind / "config.json", {"model_type": kind, **config})
    for name, (source, options) in TIMM.items():

        def build(_source: str = source, _options: Mapping[str, Any] = options, **more: Any) -> Any:
            return timm.create_model(_source, **{**more, **_options, "img_size": SIDE})

        build.__name__ = name
        build.__module__ = "timm.models.vision_transformer"
        if not is_model(name):
            register_model(build)


def make_run(method: str, **options: Any) -> Run:
    """Return a cell of a method or of one of `VARIANTS`, with options of `train`."""
    config = load_method(method).Config(**VARIANTS.get(method, {}))
    train = Train(batch_size=BATCH, lr=1e-3, warmup_steps=1, **options)
    return Run(
        Cell(method, "small", "made", 0), config, train, Backbone("small.json"), Data("karpathy", "made", "made")
    )


def try_cell(run: Run, model_cfg: Mapping[str, Any], steps: int = 2, processes: int = 1) -> Outcome:
    """Train a cell, and look whether the check by shapes says what its training says."""
    method = load_method(run.method_name)
    foreseen = _catch(functools.partial(tower_check.check_cell, run, method, model_cfg, processes))
    if processes == 1:
        outcome = _catch(functools.partial(train_cell, run, method, model_cfg, steps))
    else:
        futures = [worker.submit(_train_share, run, model_cfg, steps) for worker in open_pair()]
        outcome, other = (future.result() for future in futures)
        if other != outcome:
            outcome = replace(outcome, line="the processes differ", fails=True)
    if foreseen.fails or outcome.fails or foreseen.line == outcome.line:
        return foreseen if foreseen.fails else outcome
    return Outcome(f"foreseen: {foreseen.line}; trained: {outcome.line}", fails=True)


def _catch(call: functools.partial[Any]) -> Outcome:
    try:
        losses, model = call() or ((), None)
    except UserError as error:
        return Outcome(one_line(str(error)))
    except Exception as error:
        return Outcome(f"{type(error).__name__}: {one_line(str(error))[:160]}", fails=True)
    return Outcome(losses=losses, model=model)


@functools.cache
def open_pair() -> tuple[ProcessPoolExecutor, ProcessPoolExecutor]:
    """Start two processes that train a cell together; they have what this one has loaded, and end with it."""
    meeting = Path(tempfile.mkdtemp(prefix="pair-")) / "meeting"
    context = multiprocessing.get_context("fork")
    first, second = (ProcessPoolExecutor(1, context, _meet, (rank, meeting)) for rank in (0, 1))
    return first, second


def _meet(rank: int, meeting: Path) -> None:
    worker_processes.end_with_parent()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2, timeout=PATIENCE)


def _train_share(run: Run, model_cfg: Mapping[str, Any], steps: int) -> Outcome:
    """Train a cell as one of two processes; the model comes back as a digest."""
    outcome = _catch(functools.partial(train_cell, run, load_method(run.method_name), model_cfg, steps))
    digest = hashlib.sha256()
    for tensor in outcome.model.clip.state_dict().values() if outcome.model else ():
        digest.update(tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return replace(outcome, model=None, digest=digest.hexdigest())


def train_cell(
    run: Run, method: Method, model_cfg: Mapping[str, Any], steps: int, draws: int = 0, folder: Path | None = None
) -> tuple[tuple[float, ...], ClipModel]:
    """Return the losses of a cell's steps, and its model; `draws` seeds dropout, `folder` has checkpoints.

    Each process of a run has its share of a batch.
    """
    process = distributed.current_process()
    share = BATCH // process.world
    torch.manual_seed(0)
    backbone.check_kind(dict(model_cfg), f"model {run.backbone.model}", captioner=False)
    model = simulated_step.build_model(run, method, model_cfg, "cpu")
    state = fine_tuning.start_state(run, method, model)
    optimiser.set_modes(model.clip)
    optimiser.check_batch_norms(model.clip, run.train, process.world)
    if run.train.compile:
        towers.compile_blocks(model.clip)
    computer = fine_tuning.build_computer(state, run.train)
    header = folder and checkpoint.read(folder, model.clip, state.adamw, extra_parts=state.extras)
    losses = []
    for number in range(header["step"] if header else 0, steps):
        step = Step(number, simulated_step.PER_EPOCH)
        views = method.views(run.method, step)
        whole = fill_batch(simulated_step.build_batch(views, BATCH, model), count_words(model))
        batch = whole.rows(share * process.rank, share * (process.rank + 1)) if process.world > 1 else whole
        state.adamw.zero_grad(set_to_none=True)
        fine_tuning.seed_dropout(draws, number, process.rank)
        loss = functools.partial(method.loss, cfg=run.method, step=step)
        terms = computer.compute_gradients(batch, views, loss)
        fine_tuning.update(model, state.adamw, run.train.lr, run.train, state.extras)
        losses.append(float(accumulate.sum_terms(terms)))
    if folder:
        tensors = checkpoint.collect_tensors(model.clip, state.adamw, state.extras)
        checkpoint.write_tensors(folder, steps, tensors, {"step": steps})
    fine_tuning.leave_training(model, run.train)
    return tuple(losses), model


def count_words(model: ClipModel) -> int:
    """Return how many words the text tower knows, of which the last ends a text."""
    text: Any = getattr(model.clip, "text", model.clip)
    return int(text.vocab_size)


def fill_batch(batch: Batch, words: int) -> Batch:
    """Return a batch with random pixels and texts (a start, 3 to 8 words, an end, padding; words alone to read)."""
    generator = torch.Generator().manual_seed(1)
    for tensor in batch.tensors():
        if tensor.dtype == torch.uint8:
            tensor.random_(0, 256, generator=generator)
    if batch.target_BL is not None:
        batch.target_BL.random_(3, words, generator=generator)
    for block in batch.texts.values():
        for row_L in block.ids.view(-1, block.ids.shape[-1]):
            length = int(torch.randint(3, 9, (), generator=generator))
            row_L[: length + 1] = torch.randint(3, words - 2, (length + 1,), generator=generator)
            row_L[length + 1] = words - 1
    return batch


# --- what is checked of each family ---------------------------------------------------------------------------------


def check_frozen(model_cfg: Mapping[str, Any]) -> str:
    """A frozen image tower keeps every tensor, buffers included."""
    run = make_run("finetune", trainable="text")
    states = [train_cell(run, load_method("finetune"), model_cfg, steps)[1].clip.state_dict() for steps in (0, 2)]
    moved = [name for name, tensor in states[0].items() if not torch.equal(tensor, states[1][name])]
    return ", ".join(name for name in moved if name.startswith("visual."))[:80] or TRAINS


def check_cut(model_cfg: Mapping[str, Any]) -> str:
    """The losses of batches cut in two are the whole ones'; a tower with dropout draws anew for each part."""
    return _compare(model_cfg, try_cell(make_run("finetune", micro_batch=2), model_cfg))


def check_together(model_cfg: Mapping[str, Any]) -> str:
    """The same of two processes, which hold equal tensors after the last step."""
    return _compare(model_cfg, try_cell(make_run("finetune"), model_cfg, processes=2))


def _compare(model_cfg: Mapping[str, Any], cut: Outcome) -> str:
    """Say whether losses are those of whole batches; the second one is behind a step of the optimiser."""
    if not cut.losses:
        return cut.line if cut.fails else "refused"
    train = functools.partial(train_cell, make_run("finetune"), load_method("finetune"), model_cfg, len(cut.losses))
    whole = train()[0]
    if all(abs(a - b) < 1e-3 for a, b in zip(cut.losses, whole, strict=True)):
        return TRAINS
    return "other draws" if train(draws=1)[0] != whole else f"{cut.losses} for {whole}"


def check_resumed(model_cfg: Mapping[str, Any]) -> str:
    """Two steps with a stop between them leave every tensor as two steps without one do."""
    train = functools.partial(train_cell, make_run("finetune"), load_method("finetune"), model_cfg)
    with tempfile.TemporaryDirectory() as folder:
        train(1, folder=Path(folder))
        resumed = train(2, folder=Path(folder))[1].clip.state_dict()
    through = train(2)[1].clip.state_dict()
    return ", ".join(name for name in through if not torch.equal(through[name], resumed[name]))[:80] or TRAINS


def check_published(model_cfg: Mapping[str, Any]) -> str:
    """Trained weights open in open_clip's classes by the written config, whose vectors are those of the evaluation."""
    _, model = train_cell(make_run("finetune"), load_method("finetune"), model_cfg, 2)
    plain = clip_model.build_module(model.model_cfg).eval()
    plain.load_state_dict(model.clip.state_dict())
    model.clip.eval()
    batch = fill_batch(simulated_step.build_batch(load_method("finetune").views(make_run("finetune").method, 0), 2,
                                                  model), count_words(model))  # fmt: skip
    image_B3HW = batch.image_B3HW.float() / 255
    text_BL = batch.text_BL
    pairs: list[tuple[Tensor, Tensor]] = [
        (inference_towers.embed_images(model, image_B3HW), plain.encode_image(image_B3HW, normalize=True)),
        (inference_towers.embed_texts(model, text_BL), plain.encode_text(text_BL, normalize=True)),
    ]
    return TRAINS if all(torch.allclose(ours, theirs, atol=1e-5) for ours, theirs in pairs) else "other vectors"


CHECKS = {
    "a frozen image tower keeps every tensor": check_frozen,
    "batches cut by `micro_batch` have the whole ones' losses": check_cut,
    "two processes have the losses of one": check_together,
    "resumed, it has the tensors of a run without a stop": check_resumed,
    "opens in open_clip, with the vectors of the evaluation": check_published,
}


# --- tables ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tables:
    """Outcomes by row and family; of checks what they found."""

    methods: dict[str, dict[str, Outcome]]
    options: dict[str, dict[str, Outcome]]
    checks: dict[str, dict[str, str]]

    @property
    def cells(self) -> list[Outcome]:
        """All outcomes of methods and options."""
        return [outcome for table in (self.methods, self.options) for row in table.values() for outcome in row.values()]


def fill_tables(methods: Sequence[str], families: Sequence[str], options: Sequence[str] = tuple(OPTIONS)) -> Tables:
    """Try all cells of some methods and options on some families, in the current folder."""
    of_methods: dict[str, dict[str, Outcome]] = {name: {} for name in methods}
    of_options: dict[str, dict[str, Outcome]] = {name: {} for name in (*options, *TOGETHER)}
    of_checks: dict[str, dict[str, str]] = {name: {} for name in CHECKS}
    for family in families:
        print(family, file=sys.stderr, flush=True)
        for name in methods:
            of_methods[name][family] = replace(try_cell(make_run(name), FAMILIES[family]), model=None)
        for name in options:
            of_options[name][family] = replace(try_cell(make_run("finetune", **OPTIONS[name]), FAMILIES[family]),
                                               model=None)  # fmt: skip
        for name, (method, further) in TOGETHER.items():
            of_options[name][family] = try_cell(make_run(method, **further), FAMILIES[family], processes=2)
        for name, check in CHECKS.items():
            try:
                of_checks[name][family] = check(FAMILIES[family])
            except UserError:
                of_checks[name][family] = "refused"
    return Tables(of_methods, of_options, of_checks)


def format_tables(tables: Tables, families: Sequence[str]) -> str:
    """Return the tables and the refusals as a page."""
    refusals: dict[str, int] = {}
    lines = list(_format_outcomes("method", tables.methods, families, refusals))
    lines += ["", *_format_outcomes("`train`", tables.options, families, refusals), ""]
    lines += _format_rows("", families)
    for name, row in tables.checks.items():
        lines.append(f"| {name} | " + " | ".join(row[family] for family in families) + " |")
    lines += ["", *(f"{number}. {line}" for line, number in refusals.items())]
    return "\n".join(lines) + "\n"


def _format_rows(head: str, families: Sequence[str]) -> list[str]:
    return [f"| {head} | " + " | ".join(families) + " |", "|---" * (len(families) + 1) + "|"]


def _format_outcomes(
    head: str, table: Mapping[str, Mapping[str, Outcome]], families: Sequence[str], refusals: dict[str, int]
) -> Iterator[str]:
    """Yield the rows of a table; a refusal is the number of its line."""
    yield from _format_rows(head, families)
    for name, row in table.items():
        cells = []
        for family in families:
            outcome = row[family]
            number = 0 if outcome.line == TRAINS else refusals.setdefault(outcome.line, len(refusals) + 1)
            cells.append(f"{'FAILS ' if outcome.fails else ''}{number}" if number else "✓")
        yield f"| `{name}` | " + " | ".join(cells) + " |"


HEAD = """# Methods on towers

Made by `python -m perf.truth.towers --write experiments/grids/towers.md`: one small model of each family of open_clip's
list, random weights, two steps. ✓ trains; a number is the line below that refuses it, which `compclip config check`
says before anything runs. "Other draws": dropout or stochastic depth draws anew for each part of a cut batch.
`compclip launch` knows how many processes its profile gives a run, and says a refusal of those.

"""


def main(argv: list[str]) -> int:
    """Print the tables and a line with the counts, or write them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", default=[*METHODS, *VARIANTS], choices=[*METHODS, *VARIANTS])
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), choices=FAMILIES)
    parser.add_argument("--options", nargs="*", default=list(OPTIONS), choices=OPTIONS)
    parser.add_argument("--write", type=Path)
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    towers.COMPILER = "eager"  # what is compiled is asked here, not how fast it gets
    with tempfile.TemporaryDirectory(prefix="towers-") as folder, contextlib.chdir(folder):
        lay_models(Path(folder))
        tables = fill_tables(args.methods, args.families, args.options)
    page = format_tables(tables, args.families)
    if args.write:
        write_atomic(args.write, HEAD + page)
    else:
        print(page)
    trained = sum(outcome.line == TRAINS for outcome in tables.cells)
    failed = sum(outcome.fails for outcome in tables.cells)
    print(
        f"{len(tables.cells)} cells: {trained} train, {len(tables.cells) - trained - failed} are refused, {failed} fail"
    )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(entry(main))
