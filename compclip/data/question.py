"""A question to a language model: what is sent, and what it is known by."""

from __future__ import annotations

import base64
import hashlib
import io
import json
from dataclasses import asdict, dataclass

from compclip.config.servers import Server
from compclip.data import images
from compclip.data.images import Place


@dataclass(frozen=True)
class Question:
    """A prompt and, where `image` names one, a picture, sent with its longer side at most `image_side` pixels."""

    prompt: str
    image: str | Place = ""
    image_side: int = 0
    max_tokens: int = 512


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
    }


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
    asked = asdict(question) | {"model": server.model, "temperature": server.temperature, "seed": server.seed}
    if question.image:
        asked["image"] = _picture_hash(question.image)
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _picture_hash(picture: str | Place) -> str:
    """Of its bytes; one that has none is told by its place, and counted when it is to be sent."""
    try:
        return hashlib.sha256(images.read(picture)).hexdigest()
    except images.ImageError:
        return str(picture)
