"""VQAScore (Lin et al., ECCV 2024, arXiv:2404.01291): how sure a generative model is that a picture shows a text.

P pairs, N records.

score(picture, text) = how likely the answer "Yes" is to `Does this figure show "<text>"?`, over the answer and its end
or by its first token (`evaluate/asking.py`). The model is a folder of transformers' (an image-to-text model, with or
without a chat) or an OpenAI-compatible endpoint that tells the probabilities of tokens; it stands in a checkpoint's
place, and its scores in the place of cosines. Benchmarks that compare texts with texts, or average texts, cannot be
scored so.

Checklist. Source: github.com/linzhiqiu/t2v_metrics. Read side by side with the authors' code: questions, answers, score
and squares of pictures for LLaVA-1.5 and InstructBLIP with FlanT5 (answer and end), and for Qwen-VL and GPT-4o (first
token). Not compared: any number. Departures: CLIP-FlanT5 is no class of transformers and is refused; models compute in
the type of their files, the authors' in bfloat16 under autocast; InstructBLIP's questions are not cut at 128 tokens;
LLaVA-1.6, whose pictures transformers cuts into tiles, is asked as a chat. An endpoint tells the twenty likeliest
tokens (the authors ask for two), and the probabilities of all spellings of the answer are added.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from compclip.base.errors import UserError, one_line
from compclip.base.files import fingerprint
from compclip.config.sections import DEFAULT_SCORING, Scoring
from compclip.config.servers import Server
from compclip.data import images
from compclip.evaluate import asking as askings
from compclip.evaluate import score
from compclip.evaluate.asking import ANSWER_LIKELIHOOD, FIRST_TOKEN, SQUARE_CUT, SQUARE_PADDED, VqaQuestion
from compclip.evaluate.embeddings import Pair, Paired, Scores
from compclip.evaluate.picture_references import parse_reference
from compclip.evaluate.prepared_pictures import crop_to_box
from compclip.llm import chat_client
from compclip.llm.chat_question import Question

if TYPE_CHECKING:
    from PIL.Image import Image

LIKELIEST = 20  # tokens that an endpoint tells of; more are refused
OPPOSITES = {"yes": "no", "no": "yes"}
SIDE = 1024  # pixels of a picture that is sent
BATCH = 8
CACHE = ".work/vqascore.sqlite"


def scores_by_model(
    processor: Any, model: Any, asking: VqaQuestion, batch_size: int = BATCH, upright: bool = False
) -> Scores:
    """Scores by a model of transformers and its processor; pictures as they are stored, or turned `upright`."""
    from compclip.prepare.captioners import hf

    likelihood = hf.answer_likelihood if asking.score == ANSWER_LIKELIHOOD else hf.first_token_likelihood

    def scores(pairs: Sequence[Pair]) -> np.ndarray:
        prompts = [asking.about(text) for _, text in pairs]
        with _answering(model):
            length_P = np.array([len(processor.tokenizer(prompt)["input_ids"]) for prompt in prompts])
        scores_P = np.empty(len(pairs))
        for batch in _equal_length_batches(length_P, batch_size):
            pictures = [
                make_square(load_picture(pairs[index][0], upright), asking.pictures, processor) for index in batch
            ]
            batch_prompts = [prompts[index] for index in batch]
            with _answering(model):
                scores_B = likelihood(processor, model, pictures, batch_prompts, asking.answer, asking.dialogue)
            scores_P[batch] = scores_B.numpy()
        if np.isnan(scores_P).any():
            raise UserError(f"--vqascore {model.name_or_path}: answers with no numbers (NaN); fetch its weights again")
        return scores_P

    return scores


@contextlib.contextmanager
def _answering(model: Any) -> Iterator[None]:
    """Raise UserError for whatever a folder's template, tokenizer or settings make of a question."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # transformers and jinja2 have no one error for it
        why = f"{type(error).__name__}: {one_line(str(error))[:300]}"
        raise UserError(
            f"--vqascore {model.name_or_path}: cannot be asked: {why}; take a whole image-to-text model's folder"
        ) from error


@contextlib.contextmanager
def _undamaged(cache: str) -> Iterator[None]:
    """Raise UserError for answers in the cache that are none of ours."""
    try:
        yield
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise UserError(f"{cache}: holds a damaged answer; remove it, and all questions are asked again") from error


def _equal_length_batches(length_P: np.ndarray, size: int) -> Iterable[np.ndarray]:
    """Places in batches of prompts that are equally long."""
    for length in np.unique(length_P):
        places = np.flatnonzero(length_P == length)
        yield from (places[start : start + size] for start in range(0, len(places), size))


def scores_by_endpoint(server: Server, asking: VqaQuestion) -> Scores:
    """Scores by an endpoint; answers are kept in `server.cache`, so that asking again sends nothing.

    Pictures are sent upright, as JPEG, their longer side at most SIDE. Raises UserError where more questions fail than
    `server` allows, the score of one that fails otherwise is NaN; for a part of a picture, which is not sent; and for
    a score over all of the answer.
    """
    if asking.score == ANSWER_LIKELIHOOD:
        raise UserError(f"--score {ANSWER_LIKELIHOOD}: an endpoint tells the first token alone; give {FIRST_TOKEN}")

    def scores(pairs: Sequence[Pair]) -> np.ndarray:
        questions = [_question(pair, asking) for pair in pairs]
        answers = chat_client.ask_questions(questions, server).answers
        with _undamaged(server.cache):
            return np.array([_likelihood(reply.text, asking.answer) if reply else math.nan for reply in answers])

    return scores


def _question(pair: Pair, asking: VqaQuestion) -> Question:
    path, box = parse_reference(pair[0])
    if box:
        raise UserError(f"{pair[0]}: a part of a picture is not sent to an endpoint; take a model in a folder")
    return Question(asking.about(pair[1]), path, SIDE, max_tokens=1, likeliest=LIKELIEST)


def _likelihood(likeliest: str, answer: str) -> float:
    """The answer's probability over all its spellings; where only its opposite is among the tokens, what that leaves.

    Spellings differ in case and in the spaces around. Of an answer with neither it is 0.
    """
    share: dict[str, float] = {}
    for token, log in json.loads(likeliest).items():
        word = token.strip().lower()
        share[word] = min(share.get(word, 0.0) + math.exp(min(log, 0.0)), 1.0)
    expected = answer.strip().lower()
    opposite = share.get(OPPOSITES.get(expected, ""))
    return share.get(expected, 0.0 if opposite is None else 1 - opposite)


def load_picture(ref: str, upright: bool = False) -> Image:
    """The picture of a reference, cut to its box. Raises ImageError."""
    path, box = parse_reference(ref)
    image = images.load_image(path, upright)
    return crop_to_box(image, path, box, upright) if box else image


def make_square(image: Image, way: str, processor: Any) -> Image:
    """The picture as the authors' code for its family hands it to the processor."""
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

    def images(self, refs: Sequence[str]) -> np.ndarray:
        """Raises UserError: there are no vectors."""
        raise _no_vectors("vectors of pictures")

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        """Raises UserError: there are no vectors."""
        raise _no_vectors("vectors of texts")

    def similarities(self, texts: Sequence[str], other_texts: Sequence[str]) -> np.ndarray:
        """Raises UserError: a text is compared with pictures alone."""
        raise _no_vectors("texts beside texts")


def _no_vectors(what: str) -> UserError:
    return UserError(f"--vqascore: this benchmark needs {what}, and VQAScore has none; leave it out of --benchmarks")


def score_targets(refs: Iterable[str], ask: Scores) -> AnsweredPairs:
    """What benchmarks with these pictures are scored on; pictures that cannot be read are listed in `failed`."""
    reason = {ref: _read_fault(ref) for ref in dict.fromkeys(refs)}
    good = [ref for ref, why in reason.items() if not why]
    nothing = np.zeros((0, 0), np.float32)
    failed = {ref: why for ref, why in reason.items() if why}
    return AnsweredPairs(nothing, nothing, {ref: row for row, ref in enumerate(good)}, {}, failed, ask=ask)


def _read_fault(ref: str) -> str:
    try:
        load_picture(ref)
    except images.ImageError as error:
        return error.reason
    return ""


def vqascore_documents(
    model: str, loaded: score.LoadedBenchmarks, device: str, words: Mapping[str, str], api_key_env: str = ""
) -> dict[str, dict]:
    """Result documents by benchmark name, as those of a checkpoint. Raises UserError where it cannot be asked.

    `words`: fields of Asking in place of those of the model's family.
    """
    start = time.perf_counter()
    ask, made_with = open_scorer(model, device, words, loaded.how, api_key_env)
    references = (ref for benchmark in loaded.benchmarks.values() for ref in benchmark.images)
    targets = replace(score_targets(references, ask), ties=loaded.how.ties)
    scored = {name: benchmark.score(targets) for name, benchmark in loaded.benchmarks.items()}
    return score.result_documents(scored, loaded, made_with, round(time.perf_counter() - start, 3))


def open_scorer(
    model: str, device: str, words: Mapping[str, str], how: Scoring = DEFAULT_SCORING, api_key_env: str = ""
) -> tuple[Scores, Mapping[str, str]]:
    """Scores by `URL::MODEL` or by a folder, and what results say of it. Raises UserError for neither."""
    from compclip.prepare.captioners import hf

    asking = askings.question_of_family("", words)  # words that are wrong end here, before a model is read
    if model.startswith(("http://", "https://")):
        url, _, name = model.rpartition("::")
        server = Server(url=url, model=name, api_key_env=api_key_env, cache=CACHE, failures_allowed=0.0)
        return scores_by_endpoint(server, asking), {"vqascore": model} | asdict(asking)
    processor, network = hf.load_model(model, device)
    asking = askings.question_of_family(hf.model_family(network), words)
    facts = {"fingerprint": fingerprint(model), "dtype": str(network.dtype).removeprefix("torch.")}
    scores = scores_by_model(processor, network, asking, upright=how.pictures == "upright")
    return scores, {"vqascore": model} | asdict(asking) | facts
