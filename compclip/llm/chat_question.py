"""Questions to a language model: the request that is sent, and the key of its answer."""

from __future__ import annotations

import base64
import hashlib
import io
import json
from dataclasses import asdict, dataclass

from compclip.config.servers import Server
from compclip.data import images
from compclip.data.sample import ImageLocation


@dataclass(frozen=True)
class Question:
    """A prompt and, where `image` names one, a picture, sent with its longer side at most `image_side` pixels."""

    prompt: str
    image: str | ImageLocation = ""
    image_side: int = 0
    max_tokens: int = 512


def request_body(question: Question, server: Server) -> dict:
    """Return the request. Raises ImageError for a picture that cannot be sent."""
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
    """Return the picture upright and in RGB, as JPEG."""
    picture = images.load_image(question.image)
    if question.image_side:
        picture.thumbnail((question.image_side, question.image_side))
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=90)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


def cache_key(question: Question, server: Server) -> str:
    """Return a hash of what decides the answer; the address is no part of it: a model may move."""
    settings = asdict(question) | {"model": server.model, "temperature": server.temperature, "seed": server.seed}
    if question.image:
        try:
            settings["image"] = hashlib.sha256(images.read_bytes(question.image)).hexdigest()
        except images.ImageError:  # counted when it is to be sent
            settings["image"] = str(question.image)
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
