"""Score models that are no open_clip models: whatever encodes pictures and texts, or scores pairs of them.

I images, T texts, P pairs, D dim. `compclip.evaluate.models` says what such a model offers. Pictures are read once
each, turned and converted as `evaluate.pictures` says; what a model does with them then is its own.

VQAScore (Lin et al., ECCV 2024, arXiv:2404.01291): how sure a generative model is that a picture shows a text.

P pairs, N records.

score(picture, text) = how likely the answer "Yes" is to `Does this figure show "<text>"?`, in one of two ways:

    answer_likelihood   exp of minus the mean cross entropy over the answer's tokens and the one that ends it
    first_token         the probability of the answer's first token

As in the authors' program each family of models has words of its own. The model is a folder of transformers' (an
image-to-text model, with or without a chat), and its scores are in the place of cosines. Benchmarks that compare texts
with texts, or average texts, cannot be scored so.

Checklist. Source: github.com/linzhiqiu/t2v_metrics. Read side by side with the authors' code: questions, answers, score
and squares of pictures for LLaVA-1.5 and InstructBLIP with FlanT5 (answer and end), and for Qwen-VL and GPT-4o (first
token). Not compared: any number. Departures: CLIP-FlanT5 is no class of transformers and is refused; models compute in
the type of their files, the authors' in bfloat16 under autocast; InstructBLIP's questions are not cut at 128 tokens;
LLaVA-1.6, whose pictures transformers cuts into tiles, is asked as a chat.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch

from compclip.base import plugins
from compclip.base.errors import UserError, one_line, unknown
from compclip.base.files import fingerprint
from compclip.base.progress_line import ProgressLine
from compclip.config.sections import DEFAULT_SCORING, Scoring
from compclip.data import images
from compclip.data.images import ImageError
from compclip.evaluate import benchmark_module, score
from compclip.evaluate.benchmark import parse_reference
from compclip.evaluate.benchmark_module import LoadedBenchmarks
from compclip.evaluate.embed import crop_to_box
from compclip.evaluate.embeddings import Embeddings, NoVectorsError, Pair, Paired, Scores, cut_batches, number_keys
from compclip.model.inference_towers import evaluation_mode

if TYPE_CHECKING:
    from PIL.Image import Image

B = TypeVar("B", bound=Sized)  # a batch
BATCH = 8
ANSWER_LIKELIHOOD, FIRST_TOKEN = SCORES = ("answer_likelihood", "first_token")
SQUARE_PADDED = "square_padded"
SQUARE_CUT = "square_cut"
VICUNA = (
    "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, "
    "and polite answers to the user's questions. USER: <image>\n{} ASSISTANT: "
)


@dataclass(frozen=True)
class VqaQuestion:
    """What is asked about each pair, which answer counts and how. Raises UserError for a question without a place.

    `dialogue` is the chat around the question; without it the processor's own template writes it. `pictures` says how
    they become squares before the processor gets them: padded with its mean colour, or the middle of what is resized to
    its shorter side; without it they stay as they are.
    """

    question: str = 'Does this figure show "{}"? Please answer Yes or No.'
    answer: str = "Yes"
    score: str = FIRST_TOKEN
    dialogue: str = ""
    pictures: str = ""

    def __post_init__(self) -> None:
        if "{}" not in self.question:
            raise UserError(f"question={self.question!r}: must have {{}} where the text belongs")
        if not self.answer.strip():
            raise UserError("answer: must be a word, as Yes")
        if self.score not in SCORES:
            raise unknown("score", self.score, SCORES, "--score")

    def about(self, text: str) -> str:
        """Return the question about a text; braces in the text are its own."""
        return self.question.replace("{}", text)


# By transformers' model_type. All others chat, and are asked as the program asks GPT-4o, Qwen-VL and Gemma.
FAMILIES = {
    "llava": VqaQuestion(
        'Does this figure show "{}"? Please answer yes or no.', "Yes", ANSWER_LIKELIHOOD, VICUNA, SQUARE_PADDED
    ),
    "instructblip": VqaQuestion(
        'Question: Does this figure show "{}"? Please answer yes or no.', "yes", ANSWER_LIKELIHOOD, pictures=SQUARE_CUT
    ),
}


def question_of_family(model_type: str, words: Mapping[str, str]) -> VqaQuestion:
    """Return the authors' question for a family of models, with the fields in `words` that are not empty."""
    return replace(FAMILIES.get(model_type, VqaQuestion()), **{name: word for name, word in words.items() if word})


def scores_by_model(
    processor: Any, model: Any, asking: VqaQuestion, batch_size: int = BATCH, upright: bool = False
) -> Scores:
    """Score by a model of transformers and its processor; pictures as they are stored, or turned `upright`."""
    from compclip.prepare.captioners import hf

    where = f"vqascore {model.name_or_path}"
    answering = partial(explaining, f"{where}: cannot be asked", "take a whole image-to-text model's folder")
    likelihood = hf.answer_likelihood if asking.score == ANSWER_LIKELIHOOD else hf.first_token_likelihood

    def scores(pairs: Sequence[Pair]) -> np.ndarray:
        prompts = [asking.about(text) for _, text in pairs]
        with answering():
            length_P = np.array([len(processor.tokenizer(prompt)["input_ids"]) for prompt in prompts])
        scores_P = np.empty(len(pairs))
        for batch in show_batches("pairs", _equal_length_batches(length_P, batch_size), len(pairs)):
            pictures = []
            batch_prompts = []
            for index in batch:
                picture = load_picture(pairs[index][0], upright)
                pictures.append(make_square(picture, asking.pictures, processor))
                batch_prompts.append(prompts[index])
            with answering():
                scores_B = likelihood(processor, model, pictures, batch_prompts, asking.answer, asking.dialogue)
            scores_P[batch] = scores_B.numpy()
        if np.isnan(scores_P).any():
            raise UserError(f"{where}: answers with no numbers (NaN); fetch its weights again")
        return scores_P

    return scores


@contextlib.contextmanager
def explaining(where: str, remedy: str) -> Iterator[None]:
    """Raise UserError in place of any other error: where, its kind, its text, and what to do."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # transformers, jinja2 and somebody else's model have no one error
        reason = f"{type(error).__name__}: {one_line(str(error))[:300]}"
        raise UserError(f"{where}: {reason}; {remedy}") from error


def _equal_length_batches(length_P: np.ndarray, size: int) -> Iterable[np.ndarray]:
    """Places in batches of prompts that are equally long."""
    for length in np.unique(length_P):
        places = np.flatnonzero(length_P == length)
        yield from np.split(places, range(size, len(places), size))


def show_batches(what: str, batches: Iterable[B], total: int) -> Iterator[B]:
    """Yield batches and show how far they are."""
    with ProgressLine(what, total) as progress:
        for batch in batches:
            yield batch
            progress.update(len(batch))


def load_picture(ref: str, upright: bool = False) -> Image:
    """Load the picture of a reference, cut to its box. Raises ImageError."""
    path, box = parse_reference(ref)
    image = images.load_image(path, upright)
    return crop_to_box(image, path, box, upright) if box else image


def make_square(image: Image, way: str, processor: Any) -> Image:
    """Return the picture as the authors' code for its family hands it to the processor."""
    from PIL import Image as pil
    from torchvision.transforms import functional

    if way == SQUARE_PADDED:
        side = max(image.size)
        canvas = pil.new("RGB", (side, side), tuple(int(255 * mean) for mean in processor.image_processor.image_mean))
        canvas.paste(image, ((side - image.width) // 2, (side - image.height) // 2))
        return canvas
    if way == SQUARE_CUT:
        side = processor.image_processor.size["height"]
        shorter = functional.resize(image, side, functional.InterpolationMode.BICUBIC)
        return functional.center_crop(shorter, [side, side])
    return image


@dataclass(frozen=True)
class AnsweredPairs(Paired):
    """What a generative model says of pairs, and nothing else."""

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        """Raises NoVectorsError: there are none."""
        raise NoVectorsError("texts")

    def similarities(self, texts: Sequence[str], other_texts: Sequence[str]) -> np.ndarray:
        """Raises NoVectorsError: a text is compared with pictures alone."""
        raise NoVectorsError("texts, to compare them with each other")


def score_targets(refs: Iterable[str], ask: Scores) -> AnsweredPairs:
    """Return what benchmarks with these pictures are scored on; `failed` lists pictures that cannot be read."""
    image_row: dict[str, int] = {}
    failed: dict[str, str] = {}
    for ref in dict.fromkeys(refs):
        try:
            load_picture(ref)
            image_row[ref] = len(image_row)
        except images.ImageError as error:
            failed[ref] = error.reason
    nothing = np.zeros((0, 0), np.float32)
    return AnsweredPairs(nothing, nothing, image_row, {}, failed, ask=ask)


def vqascore_documents(
    model: str, loaded: benchmark_module.LoadedBenchmarks, device: str, words: Mapping[str, str]
) -> dict[str, dict]:
    """Return result documents by benchmark name, as of a checkpoint. Raises UserError where it cannot be asked.

    `words`: fields of Asking in place of those of the model's family.
    """
    start = time.perf_counter()
    ask, made_with = open_scorer(model, device, words, loaded.how)
    references = chain.from_iterable(benchmark.images for benchmark in loaded.benchmarks.values())
    targets = replace(score_targets(references, ask), ties=loaded.how.ties)
    scored = {name: benchmark.score(targets) for name, benchmark in loaded.benchmarks.items()}
    return benchmark_module.result_documents(scored, loaded, made_with, round(time.perf_counter() - start, 3))


def open_scorer(
    model: str, device: str, words: Mapping[str, str], how: Scoring = DEFAULT_SCORING
) -> tuple[Scores, Mapping[str, str]]:
    """Open a model in a folder; return its scores and what results say of it. Raises UserError where there is none."""
    from compclip.prepare.captioners import hf

    asking = question_of_family("", words)  # words that are wrong end here, before a model is read
    processor, network = hf.load_model(model, device)
    asking = question_of_family(hf.model_family(network), words)
    facts = {"fingerprint": fingerprint(model), "dtype": str(network.dtype).removeprefix("torch.")}
    scores = scores_by_model(processor, network, asking, upright=how.pictures == "upright")
    return scores, {"vqascore": model} | asdict(asking) | facts


# --- models that encode pictures and texts, or score pairs, opened by a plug-in

PAIRS = "score_pairs"
PICTURES = "encode_images"
TEXTS = "encode_texts"


def load_model(loader: str, ref: str, device: str) -> Any:
    """Open a model by a plug-in of `compclip.models`. Raises UserError for one that offers neither way."""
    model = plugins.load_plugin(plugins.MODELS, loader, "--loader").load(ref, device)
    check_model(model)
    return model


def check_model(model: Any) -> None:
    """Raise UserError for a model that neither encodes pictures and texts nor scores pairs."""
    if not (hasattr(model, PAIRS) or (hasattr(model, PICTURES) and hasattr(model, TEXTS))):
        name = type(model).__name__
        raise UserError(f"{name}: has no {PICTURES} with {TEXTS}, and no {PAIRS}; give a model that has one of the two")


def score_model(model: Any, loaded: LoadedBenchmarks, made_with: Mapping[str, str]) -> dict[str, dict]:
    """Return result documents by benchmark name; `made_with` is what they say of the model.

    Raises UserError, with the model's own error as its cause where there is one.
    """
    start = time.perf_counter()
    refs, texts = benchmark_module.list_inputs(loaded.benchmarks.values())
    with using(model):
        targets = replace(embed(model, refs, texts, loaded.how), ties=loaded.how.ties)
        scored = {name: benchmark.score(targets) for name, benchmark in loaded.benchmarks.items()}
    score.check_outcomes(scored)
    return benchmark_module.result_documents(scored, loaded, made_with, round(time.perf_counter() - start, 3))


@contextlib.contextmanager
def using(model: Any) -> Iterator[None]:
    """Set a model's modules to evaluation, without gradients. Raises UserError for whatever it raises meanwhile."""
    modules = [m for m in (model, getattr(model, "model", None)) if isinstance(m, torch.nn.Module)]
    with explaining(type(model).__name__, "repair that model"), torch.inference_mode(), evaluation_mode(modules):
        yield


def embed(model: Any, refs: Sequence[str], texts: Sequence[str], how: Scoring) -> Embeddings:
    """Return what different pictures and texts are compared by; of a model that scores pairs, when they are asked."""
    if hasattr(model, PAIRS):
        return score_targets(refs, partial(_score_pairs, model, how))
    return encode(model, refs, texts, how)


def encode(model: Any, refs: Sequence[str], texts: Sequence[str], how: Scoring) -> Embeddings:
    """Encode different pictures and texts, in batches; a picture that cannot be read is listed in `failed`."""
    failed: dict[str, str] = {}
    image_row: dict[str, int] = {}
    vectors = []
    for batch in show_batches("pictures", cut_batches(refs, how.batch_size), len(refs)):
        pictures = _load_pictures(batch, how.upright, failed)
        if pictures:
            vectors.append(_to_units(model, PICTURES, model.encode_images(list(pictures.values())), len(pictures)))
            for ref in pictures:
                image_row[ref] = len(image_row)
    text_vectors = []
    for batch in show_batches("texts", cut_batches(texts, how.batch_size), len(texts)):
        text_vectors.append(_to_units(model, TEXTS, model.encode_texts(list(batch)), len(batch)))
    nothing = np.zeros((0, 0), np.float32)
    image_ID = np.concatenate(vectors) if vectors else nothing
    text_TD = np.concatenate(text_vectors) if text_vectors else nothing
    if len(image_ID) and len(text_TD) and image_ID.shape[1] != text_TD.shape[1]:
        widths = f"{image_ID.shape[1]} and {text_TD.shape[1]} numbers"
        raise UserError(f"{type(model).__name__}: vectors of pictures and texts have {widths}; give those of one space")
    return Embeddings(image_ID, text_TD, image_row, number_keys(texts), failed)


def _load_pictures(refs: Sequence[str], upright: bool, failed: dict[str, str]) -> dict[str, Image]:
    pictures = {}
    for ref in refs:
        try:
            pictures[ref] = load_picture(ref, upright)
        except ImageError as error:
            failed[ref] = error.reason
    return pictures


def _to_array(values: Any) -> np.ndarray:
    if isinstance(values, torch.Tensor):
        values = values.detach().float().cpu().numpy()
    return np.asarray(values, dtype=np.float32)


def _to_units(model: Any, way: str, values: Any, count: int) -> np.ndarray:
    """Return unit vectors [B, D] of what a model gave. Raises UserError for another shape, or for what is no number."""
    vector_BD = _to_array(values)
    if vector_BD.ndim != 2 or len(vector_BD) != count:
        raise UserError(f"{type(model).__name__}.{way}: gave {list(vector_BD.shape)} for {count}; give [{count}, D]")
    length_B1 = np.linalg.norm(vector_BD, axis=1, keepdims=True)
    if not np.isfinite(length_B1).all() or not length_B1.all():
        raise UserError(f"{type(model).__name__}.{way}: gave vectors that are zero or no numbers")
    return vector_BD / length_B1


def _score_pairs(model: Any, how: Scoring, pairs: Sequence[Pair]) -> np.ndarray:
    batches = cut_batches(pairs, how.batch_size)
    return np.concatenate([_score_batch(model, batch, how.upright) for batch in batches])


def _score_batch(model: Any, pairs: Sequence[Pair], upright: bool) -> np.ndarray:
    refs, texts = zip(*pairs, strict=True)
    picture_of = {ref: load_picture(ref, upright) for ref in dict.fromkeys(refs)}
    score_P = _to_array(model.score_pairs([picture_of[ref] for ref in refs], list(texts)))
    if score_P.shape != (len(pairs),) or not np.isfinite(score_P).all():
        fault = f"gave {list(score_P.shape)} for {len(pairs)} pairs"
        raise UserError(f"{type(model).__name__}.{PAIRS}: {fault}; give as many finite numbers")
    return score_P


class OpenClipEncoder:
    """An open_clip model as a training loop has it: module, `preprocess` of a picture, and `tokenizer` of texts."""

    def __init__(self, model: Any, preprocess: Callable, tokenizer: Callable) -> None:
        self.model = model
        self.preprocess = preprocess
        self.tokenizer = tokenizer
        self.device = next(model.parameters()).device

    def encode_images(self, pictures: Sequence[Image]) -> torch.Tensor:
        """Return vectors [B, D] of pictures."""
        return self.model.encode_image(torch.stack(list(map(self.preprocess, pictures))).to(self.device))

    def encode_texts(self, texts: Sequence[str]) -> torch.Tensor:
        """Return vectors [B, D] of texts."""
        return self.model.encode_text(self.tokenizer(list(texts)).to(self.device))
