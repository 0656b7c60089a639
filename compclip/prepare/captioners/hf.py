"""Caption pictures with an image-to-text model of transformers in a local folder, greedily, on any number of GPUs.

    captioner: hf
    options: {model: models/blip-image-captioning-base}

Two kinds of models: those whose answer is the caption alone (BLIP and encoder-decoders like it), and those that want a
chat, which their processor has a template for (LLaVA, Qwen2.5-VL); these get CLIC's query.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from PIL import Image
from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor

from compclip.base import worker_processes
from compclip.base.errors import UserError
from compclip.base.files import read_mapping
from compclip.llm.answer_cache import Answer
from compclip.prepare import mask_filling
from compclip.prepare.captioners import QUERY, QUERY_TOKENS, Caption, _device_replicas

if TYPE_CHECKING:
    from compclip.config.sections import Data

EXAMPLE = "Salesforce/blip-image-captioning-base"
TEMPLATE_S = 10.0  # for a chat template to write the prompts of a batch
CLIP_T5 = "CLIPT5ForConditionalGeneration"
SHORT_TOKENS = 64  # of a caption that no chat asks for


@dataclass(frozen=True)
class Config(_device_replicas.ModelConfig):
    """A model's folder (config.json, weights, tokenizer, preprocessor_config.json) and how it is run."""

    prompt: str = ""  # words that the caption continues, as "a picture of"; in a chat the query: CLIC's where empty
    batch_size: PositiveInt = 16
    max_new_tokens: NonNegativeInt = 0  # 0: 512 in a chat, 64 else


def reads(data: Data, cfg: Config) -> list[str]:
    """Return the model's files."""
    return sorted(map(str, Path(cfg.model).glob("*")))


@contextmanager
def opened(data: Data, cfg: Config) -> Iterator[Caption]:
    """Give a captioner with its model loaded on each device. Raises UserError for no usable model of transformers."""
    replicas = []
    for device in _device_replicas.parse_devices(cfg.device):
        replicas.append(functools.partial(describe_pictures, *load_model(cfg.model, device), cfg))
    yield lambda samples, shard: _device_replicas.caption_samples(samples, replicas, cfg.batch_size, cfg.model)


# B pictures, L tokens with the prompt's


@torch.inference_mode()
def describe_pictures(processor: Any, model: Any, cfg: Config, pictures: list[Image.Image]) -> list[Answer]:
    """Return a caption of each picture, decoded greedily."""
    prompts = [choose_prompt(processor, cfg)] * len(pictures)
    inputs = _build_inputs(processor, pictures, prompts).to(model.device, dtype=model.dtype)
    tokens_BL = model.generate(**inputs, do_sample=False, num_beams=1, max_new_tokens=choose_max_tokens(processor, cfg))
    if not uses_chat(processor):
        return [Answer(text) for text in processor.batch_decode(tokens_BL, skip_special_tokens=True)]
    prompt_BL = inputs["input_ids"]
    length = prompt_BL.shape[1]
    if torch.equal(tokens_BL[:, :length], prompt_BL):  # so from a decoder, and not from an encoder-decoder
        tokens_BL = tokens_BL[:, length:]
    end = model.generation_config.eos_token_id
    ends = [] if end is None else end if isinstance(end, list) else [end]
    whole_B = torch.isin(tokens_BL, torch.tensor(ends, dtype=torch.long, device=tokens_BL.device)).any(1).tolist()
    texts = processor.batch_decode(tokens_BL, skip_special_tokens=True)
    return [Answer(text, not is_complete) for text, is_complete in zip(texts, whole_B, strict=True)]


def uses_chat(processor: Any) -> bool:
    """Return whether a model is asked in a chat: its processor has a template for one."""
    return bool(getattr(processor, "chat_template", None))


def choose_prompt(processor: Any, cfg: Config) -> str:
    """Return the prompt for every picture; empty where the model begins by itself."""
    return cfg.prompt or (QUERY if uses_chat(processor) else "")


def choose_max_tokens(processor: Any, cfg: Config) -> int:
    """Return the maximum number of tokens of an answer."""
    return cfg.max_new_tokens or (QUERY_TOKENS if uses_chat(processor) else SHORT_TOKENS)


@torch.inference_mode()
def first_token_likelihood(
    processor: Any, model: Any, pictures: list[Image.Image], prompts: Sequence[str], answer: str, dialogue: str = ""
) -> Tensor:
    """Return the probability that each reply begins with the answer's first token, [B].

    The prompts have equally many tokens: models that do not chat must not see padding behind a prompt. `dialogue`
    is a chat with places for picture and prompt, instead of the processor's template. Raises UserError for an answer
    whose first token the model does not know.
    """
    first = _check_answer_tokens(processor, processor.tokenizer.encode(answer, add_special_tokens=False), answer)[0]
    inputs = _build_inputs(processor, pictures, prompts, dialogue).to(model.device, dtype=model.dtype)
    options = {"do_sample": False, "num_beams": 1, "max_new_tokens": 1}
    output = model.generate(**inputs, **options, output_logits=True, return_dict_in_generate=True)
    return output.logits[0].float().softmax(-1)[:, first].cpu()


@torch.inference_mode()
def answer_likelihood(
    processor: Any, model: Any, pictures: list[Image.Image], prompts: Sequence[str], answer: str, dialogue: str = ""
) -> Tensor:
    """Return exp(-mean cross entropy) over the answer's tokens and the one that ends it, after each prompt, [B].

    As `first_token_likelihood`; raises UserError also for a model that neither chats nor has an encoder and a decoder.
    """
    if model.config.get_text_config().is_encoder_decoder:
        inputs = _build_inputs(processor, pictures, prompts, dialogue).to(model.device, dtype=model.dtype)
        label_L = torch.tensor(_check_answer_tokens(processor, processor.tokenizer(answer)["input_ids"], answer))
        labels_BL = label_L.to(model.device).repeat(len(prompts), 1)
        return _mean_probability(model(**inputs, labels=labels_BL).logits, labels_BL)
    if not (dialogue or uses_chat(processor)):
        raise UserError("--score answer_likelihood: this model does not chat; give first_token")
    ending = answer + processor.tokenizer.eos_token
    inputs = _build_inputs(processor, pictures, prompts, dialogue, ending).to(model.device, dtype=model.dtype)
    if not inputs["attention_mask"].all():  # padding before a prompt would shift its tokens' positions
        alone = zip(pictures, prompts, strict=True)
        return torch.cat([answer_likelihood(processor, model, [p], [text], answer, dialogue) for p, text in alone])
    count = len(_check_answer_tokens(processor, _answer_tokens(processor, prompts[0], dialogue, ending), answer))
    return _mean_probability(model(**inputs).logits[:, -count - 1 : -1], inputs["input_ids"][:, -count:])


def _mean_probability(logits_BLV: Tensor, labels_BL: Tensor) -> Tensor:
    """Return the geometric mean over L of the labels' probabilities, [B]."""
    log_BL = logits_BLV.float().log_softmax(-1).gather(-1, labels_BL[..., None])[..., 0]
    return log_BL.mean(1).exp().cpu()


def _answer_tokens(processor: Any, prompt: str, dialogue: str, ending: str) -> list[int]:
    """Return the tokens that an ending adds to a prompt, of which the space before an answer is one."""
    text = _write_chats(processor, [prompt], dialogue)[0]
    alone, both = (processor.tokenizer(t, add_special_tokens=False)["input_ids"] for t in (text, text + ending))
    common_length = next((i for i, (a, b) in enumerate(zip(alone, both, strict=False)) if a != b), len(alone))
    return list(both[common_length:])


def _check_answer_tokens(processor: Any, tokens: list[int], answer: str) -> list[int]:
    """Return the tokens of an answer. Raises UserError for one that the model has no tokens for."""
    if not tokens or processor.tokenizer.unk_token_id in tokens:
        raise UserError(f"answer {answer!r}: the model has no token for it; give another answer")
    return tokens


def model_family(model: Any) -> str:
    """Return the model_type of transformers; "" where the text model is not its family's usual one."""
    text = model.config.get_text_config()
    return "" if model.config.model_type == "instructblip" and not text.is_encoder_decoder else model.config.model_type


def _build_inputs(
    processor: Any, pictures: list[Image.Image], prompts: Sequence[str], dialogue: str = "", ending: str = ""
) -> Any:
    if not (dialogue or uses_chat(processor)):
        options: dict[str, Any] = {"text": list(prompts), "padding": True} if any(prompts) else {}
        return processor(images=pictures, return_tensors="pt", **options)
    texts = [chat + ending for chat in _write_chats(processor, prompts, dialogue)]
    has_bos = bool(processor.tokenizer.bos_token) and texts[0].startswith(processor.tokenizer.bos_token)
    options = {"padding": True, "add_special_tokens": not has_bos, "return_tensors": "pt"}
    return processor(text=texts, images=[[picture] for picture in pictures], **options)


def _write_chats(processor: Any, prompts: Sequence[str], dialogue: str) -> list[str]:
    """Return prompts as chats. Raises UserError for a template, which may hold any loop, that does not end."""

    def write() -> list[str]:
        return [_write_chat(processor, prompt, dialogue) for prompt in prompts]

    try:
        return worker_processes.run_within(TEMPLATE_S, write)
    except TimeoutError:
        raise UserError(
            f"the chat template of the model's folder is not through after {TEMPLATE_S:g} s; take the template that "
            "the model was released with"
        ) from None


def _write_chat(processor: Any, prompt: str, dialogue: str) -> str:
    """Return a prompt about a picture, in a dialogue or as the processor's template writes it."""
    if dialogue:
        return dialogue.replace("<image>", processor.image_token).replace("{}", prompt)
    content = [{"type": "image"}, {"type": "text", "text": prompt}]
    return str(processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True))


def load_model(folder: str, device: str) -> tuple[Any, Any]:
    """Return processor and model of a folder, on a device. Raises UserError saying what to install or to download."""
    with mask_filling.loading("options.model", folder, EXAMPLE) as options:
        if (Path(folder) / "adapter_config.json").is_file():
            raise ValueError("an adapter, which names a model elsewhere; merge it into that one")
        if CLIP_T5 in str(read_mapping(Path(folder) / "config.json").get("architectures")):
            raise ValueError(
                "CLIP-FlanT5 is no class of transformers; take LLaVA-1.5 or InstructBLIP, or its authors' program "
                "(github.com/linzhiqiu/t2v_metrics)"
            )
        from transformers import AutoModelForImageTextToText, AutoProcessor

        processor = AutoProcessor.from_pretrained(folder, **options)
        model = AutoModelForImageTextToText.from_pretrained(folder, weights_only=True, dtype="auto", **options)
        if uses_chat(processor):
            processor.tokenizer.padding_side = "left"  # answers begin where prompts end
            processor.tokenizer.pad_token = processor.tokenizer.pad_token or processor.tokenizer.eos_token
        return processor, model.eval().to(device)
