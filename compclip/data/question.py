"""A question to a language model: what is sent, and what it is known by."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from compclip.config.servers import Server
from compclip.data import images
from compclip.data.images import Place


@dataclass(frozen=True)
class Question:
    """A prompt and, where `image` names one, a picture, sent with its longer side at most `image_side` pixels.

    `likeliest`: in place of the answer, how likely each of so many tokens was to begin it.
    """

    prompt: str
    image: str | Place = ""
    image_side: int = 0
    max_tokens: int = 512
    likeliest: int = 0


def body(question: Question, server: Server) -> dict:
    """What is posted. Raises ImageError for a picture that cannot be sent."""
    content: str | list = question.prompt
    if question.image:
        picture = {"type": "image_url", "image_url": {"url": _data_url(question)}}
        content = [{"type": "text", "text": question.prompt}, picture]
    return {
        "model": server.model,
        "messages": [{"role": "user", "content": content}],
        "max_tokens": question.max_tokens,
        "temperature": server.temperature,
        "seed": server.seed,
        **({"logprobs": True, "top_logprobs": question.likeliest} if question.likeliest else {}),
    }


def said(choice: Mapping[str, Any], question: Question) -> str:
    """The text of an answer; where `likeliest` is asked for, JSON of {token: log of its probability}.

    Raises LookupError, TypeError, ValueError or AttributeError where the answer has another form.
    """
    if not question.likeliest:
        return str(choice["message"]["content"].strip())
    listed = choice["logprobs"]["content"][0]["top_logprobs"]
    likely = {str(one["token"]): float(one["logprob"]) for one in listed}
    if not all(map(math.isfinite, likely.values())):
        raise ValueError("logprobs that are no numbers")
    return json.dumps(likely)


def _data_url(question: Question) -> str:
    """The picture upright and in RGB, as JPEG."""
    picture = images.load(question.image)
    if question.image_side:
        picture.thumbnail((question.image_side, question.image_side))
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=90)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


def key(question: Question, server: Server) -> str:
    """A hash over what decides the answer; the address is no part of it: the same model may move."""
    told = {name: value for name, value in asdict(question).items() if name != "likeliest" or value}
    asked = told | {"model": server.model, "temperature": server.temperature, "seed": server.seed}
    if question.image:
        asked["image"] = _picture_hash(question.image)
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _picture_hash(picture: str | Place) -> str:
    """Of its bytes; one that has none is told by its place, and counted when it is to be sent."""
    try:
        return hashlib.sha256(images.read(picture)).hexdigest()
    except images.ImageError:
        return str(picture)
