"""The sections of params.yaml as frozen dataclasses: what may be said, with which defaults; `how` has two of them."""

from __future__ import annotations

import itertools
import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from compclip.base.errors import UserError, unknown
from compclip.base.parts import part
from compclip.config.cell import Cell
from compclip.config.how import MISSING, Benchmark, How

ACTIVATIONS = ("gelu", "quickgelu")
OPENINGS = ("usual", "clic")


@dataclass(frozen=True)
class Grid:
    """The comparison: every method on every backbone and data set, once for each seed."""

    methods: list[str] = field(default_factory=list)
    backbones: list[str] = field(default_factory=list)
    data: list[str] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)


LORA_TARGETS = ("attention", "mlp", "patch")
LORA_PATCHES = ("factors", "matrix")


@dataclass(frozen=True)
class Lora:
    """A low-rank adapter on the trained towers; everything else of the backbone is frozen."""

    rank: int = 4
    alpha: float = 1.0  # the update is scaled by alpha / rank
    targets: list[str] = field(default_factory=lambda: list(LORA_TARGETS))  # patch: the image's patch convolution
    patch: str = "factors"  # of rank `rank`; matrix: of rank `rank` times its side, as FSC-CLIP and SVLC adapt it

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise UserError(f"rank={self.rank}: must be >= 1")
        if not 0 < self.alpha < math.inf:
            raise UserError(f"alpha={self.alpha}: must be > 0")
        if not self.targets or len(set(self.targets)) < len(self.targets):
            raise UserError(f"targets={self.targets}: must name {', '.join(LORA_TARGETS)} or some of them, each once")
        for target in self.targets:
            if target not in LORA_TARGETS:
                raise unknown("target", target, LORA_TARGETS, "targets")
        if self.patch not in LORA_PATCHES:
            raise unknown("patch", self.patch, LORA_PATCHES, "patch")


@dataclass(frozen=True)
class Train:
    """How a method is trained; `methods.<name>.train` overlays it."""

    epochs: float = 5.0
    max_steps: int = 0  # 0: epochs decide
    batch_size: int = 256
    lr: float = 1e-5
    lr_start: float = 0.0  # where the warm-up begins
    lr_end: float = 0.0
    warmup_steps: int = 50
    warmup_fraction: float = 0.0  # of all steps; replaces warmup_steps where > 0
    beta1: float = 0.9
    beta2: float = 0.98
    eps: float = 1e-6
    weight_decay: float = 0.1
    grad_clip_norm: float = 1.0  # 0: off
    trainable: str = part("all", off="all", name="freezing")  # towers: all, text, image, none
    lora: Lora | None = None  # null: the towers' own weights are trained
    train_logit_scale: bool = True  # never with lora
    max_logit_scale: float = 100.0
    precision: str = "float32"  # bf16: autocast; bf16_weights: the weights of products themselves, as open_clip's bf16
    threads: int = 1
    log_every_steps: int = 10
    checkpoint_every_steps: int = 50
    micro_batch: int = 0  # images encoded at a time, the contrast staying the batch's (gradient caching); 0: all
    workers: int = 0  # processes that make batches ahead
    shuffle: str = "full"  # windows: shards in random order, mixed some at a time, for disks that are slow to seek
    augment: str = "none"  # random_resized_crop: a random part of each picture; none: the evaluation transform
    augment_scale: list[float] = field(default_factory=lambda: [0.9, 1.0])  # of its area, at ratios of 3/4 to 4/3
    context_length: int = 0  # positions of a text, of which the backbone has more; 0: all
    # the finished weights are 1 - alpha of the backbone's and alpha of the trained ones
    average_alpha: float = part(1.0, off=1.0, name="averaging")

    def __post_init__(self) -> None:
        scale = self.augment_scale
        if len(scale) != 2 or not 0 < scale[0] <= scale[1] <= 1:
            raise UserError(f"augment_scale={scale}: must be two numbers with 0 < low <= high <= 1")
        if not 0 <= self.average_alpha <= 1:
            raise UserError(f"average_alpha={self.average_alpha}: must be from 0 to 1")


@dataclass(frozen=True)
class Backbone:
    """An open_clip model by name or config file, and its weights: hub tag, local path, or random ones."""

    model: str = MISSING
    weights: str = ""
    tokenizer: str = ""  # a folder, or `clip` for a stand-in; default: the model's own
    activation: str = ""  # gelu or quickgelu, of a weights file that does not tell

    def __post_init__(self) -> None:
        if self.activation and self.activation not in ACTIVATIONS:
            raise unknown("activation", self.activation, ACTIVATIONS, "activation")


@dataclass(frozen=True)
class Data:
    """A section of `data` in params.yaml: which source reads the set, from where, and who captions it."""

    source: str = MISSING
    path: str = MISSING
    images: str = MISSING
    split: str = "train"
    captioner: str = MISSING  # dvc.yaml reads it, so that it has no default; "none" keeps the captions
    options: dict[str, Any] = field(default_factory=dict)  # the captioner's own parameters
    captions: dict[str, Any] = field(default_factory=dict)  # a released list in place of the source's; none where empty
    rewriter: dict[str, Any] = field(default_factory=dict)  # endpoint that writes hard positives; none where empty
    rewrites: dict[str, Any] = field(default_factory=dict)  # files of released ones, in place of a rewriter
    texts: dict[str, Any] = field(default_factory=dict)  # released lists by kind, beside the captions
    masked: dict[str, Any] = field(default_factory=dict)  # a masked language model, for words in others' places
    exclude: list[str] = field(default_factory=list)  # benchmarks whose pictures are left out
    openings: str = "usual"  # of captions, as "This picture shows:", which go; clic: those of CLIC's released program
    captions_each: int = 0  # of a picture, the first so many; 0: all
    relatives: bool = False  # whether words for CLoVe's replace rule are looked up (`replace: clove` of a method)
    limit: int = 0  # 0: all
    min_sentences: int = 0  # of 4 to 34 words in all captions of a picture, which is left out below (CLIC B.1)
    images_outside: bool = False  # whether pictures may lie outside of `images`, by their names or through links
    negative_images: dict[str, Any] = field(default_factory=dict)  # pictures beside each as negatives; none where empty
    members: list[str] = field(default_factory=list)  # endings of further files of a sample's tar whose place is noted

    def __post_init__(self) -> None:
        if self.openings not in OPENINGS:
            raise unknown("openings", self.openings, OPENINGS, "openings")
        if self.captions_each < 0:
            raise UserError(f"captions_each={self.captions_each}: must be >= 0; 0 keeps all captions of a picture")


@dataclass(frozen=True)
class Evaluate(How):
    """What every checkpoint is scored on, and how."""

    benchmarks: list[str] = field(default_factory=list)

    @property
    def how(self) -> How:
        """How alone, without what."""
        return How(**{f.name: getattr(self, f.name) for f in fields(How)})


@dataclass(frozen=True)
class WiseFt:
    """Which of the grid's runs are also scored between the pretrained weights and theirs, and where."""

    methods: list[str] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)
    benchmarks: list[str] = field(default_factory=list)  # none: those of `evaluate`
    alphas: list[float] = field(default_factory=lambda: [i / 10 for i in range(11)])

    def __post_init__(self) -> None:
        rising = all(a < b for a, b in itertools.pairwise(self.alphas))  # false of nan
        if not rising or [*self.alphas[:1], *self.alphas[-1:]] != [0.0, 1.0]:
            raise UserError(f"alphas={self.alphas}: must rise from 0 to 1")


@dataclass(frozen=True)
class Report:
    """The columns of the comparison (`benchmark/metric`; none: all whole-benchmark metrics)."""

    columns: list[str] = field(default_factory=list)
    reference: str = ""  # a method of the grid that all others are compared with as well, beside the pretrained model


@dataclass(frozen=True)
class Pretrain:
    """How the world's own pretrained model is trained, on freshly drawn pictures; rates rise, stay and fall."""

    steps: int = 8000
    lr: float = 1.5e-3
    things: list[float] = field(default_factory=lambda: [0.5, 0.25, 0.15, 0.1])  # shares of 1 to 4
    collages: float = 0.15  # share of pictures that are made of two or four
    noise: float = 0.05  # share of captions that say nothing of their picture
    bound_steps: int = 600  # first steps, in which every text tells what stands with what
    paired: float = 0.25  # share of short texts that name one symbol with its colour, and of true relations
    siblings: float = 0.06  # share of draws that give two pictures with colours or places exchanged, each told as it is
    batch_size: int = 256
    warmup_steps: int = 100
    cooldown: float = 0.25  # share of steps, the last, in which the rate falls to nothing
    unbound_steps: int = 400  # after these, in which no text tells what stands with what: a training of its own
    unbound_lr: float = 1.0e-3
    save_every_steps: int = 250  # what a training that was stopped goes on from
    weight_decay: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.98
    eps: float = 1e-6
    grad_clip_norm: float = 1.0
    threads: int = 2


@dataclass(frozen=True)
class World:
    """Sizes and seed of the world; a scene depends on (seed, split, index) alone."""

    seed: int = 0
    train: int = 6000  # pictures for fine-tuning
    retrieval: int = 500  # test pictures with several captions
    records: int = 300  # records of each benchmark subset
    per_class: int = 20  # pictures of each class in zero-shot classification
    processes: int = 2
    beside: bool = False  # edited pictures, negations, paraphrases and single sentences of each picture for fine-tuning
    pretrain: Pretrain = field(default_factory=Pretrain)

    def __post_init__(self) -> None:
        for name in ("train", "retrieval", "records", "per_class", "processes"):
            if getattr(self, name) < 1:
                raise UserError(f"scenes.{name}={getattr(self, name)}: must be at least 1; set it in params.yaml")


@dataclass(frozen=True)
class Params:
    """params.yaml as a whole; `methods` stays raw until a cell asks for one."""

    grid: Grid
    train: Train
    methods: dict[str, dict]
    backbones: dict[str, Backbone]
    data: dict[str, Data]
    benchmarks: dict[str, Benchmark]
    evaluate: Evaluate
    wise_ft: WiseFt
    report: Report
    scenes: World


@dataclass(frozen=True)
class Run:
    """A cell with everything resolved: what training reads."""

    cell: Cell
    method: Any
    train: Train
    backbone: Backbone
    data: Data

    @property
    def plain(self) -> dict[str, Any]:
        """As mappings, for files and run keys."""
        return {**asdict(self), "cell": self.cell.plain}

    @property
    def method_name(self) -> str:
        """The method's module; a cell's method may name a variant behind a dot."""
        return self.cell.method.partition(".")[0]
