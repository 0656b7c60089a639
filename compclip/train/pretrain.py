"""The training of the scenes world's own "pretrained" models, from random weights.

A small ViT trained contrastively on pictures and alt-text as the web has them, which name what is there and bind next
to nothing, so that it retrieves and names well and is near chance on swaps, as CLIP is. It takes an hour or two;
one that is stopped goes on from its last save.

B pictures, H, W pixels.
"""

from __future__ import annotations

import io
import json
import math
import time
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor

from compclip.base.errors import UserError
from compclip.base.files import write_atomic
from compclip.config.sections import Pretrain
from compclip.model import towers
from compclip.model.clip_model import ClipModel
from compclip.scenes import web_pictures
from compclip.train import losses

PARTS = 6  # of a step's texts, by length


def draw_batch(cfg: Pretrain, seed: int, step: int) -> tuple[list[np.ndarray], list[str]]:
    """Draw pictures [H, W, 3] and alt-texts of one step: a function of (seed, step)."""
    rng = np.random.default_rng((seed, 2, step))
    if step >= cfg.steps:
        return web_pictures.samples(rng, replace(cfg, paired=0.0, siblings=0.0), cfg.batch_size)
    bound = step < cfg.bound_steps * cfg.bound_every and step % cfg.bound_every == 0
    return web_pictures.samples(rng, cfg, cfg.batch_size, bound=bound)


def pixels(pictures: list[np.ndarray], model: ClipModel) -> Tensor:
    """Return normalised pictures, float32 [B, 3, H, W]."""
    mean, std = (torch.tensor(model.preprocess_cfg[k])[:, None, None] for k in ("mean", "std"))
    return (torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2).float() / 255 - mean) / std


def learning_rate(cfg: Pretrain, step: int) -> float:
    """Return a step's learning rate: it rises, stays, and falls to 0 in the last share of `steps`; then once more."""
    if step >= cfg.steps:
        cfg, step = replace(cfg, lr=cfg.unbound_lr, steps=cfg.unbound_steps), step - cfg.steps
    rise = (step + 1) / cfg.warmup_steps if cfg.warmup_steps else 1.0
    fall = (cfg.steps - step) / max(1.0, cfg.cooldown * cfg.steps)
    return cfg.lr * min(1.0, rise, fall)


def train(model: ClipModel, cfg: Pretrain, seed: int, weights: Path) -> None:
    """Train from random weights, or go on where a training of the same numbers was stopped.

    The steps whose texts bind nothing begin anew with what half precision keeps of the weights: they can be had again
    from a file of these. A step's rate and samples depend on its number alone. Beside the weights: the log, one JSON
    line every ten steps, and until the end what to go on from. Raises UserError where that is of other numbers.
    """
    torch.set_num_threads(cfg.threads)
    model.clip.train()
    adamw = _build_optimiser(model, cfg)
    start, lines = _resume(model, adamw, state_path(weights), _settings_text(cfg, seed))
    started = time.perf_counter()
    for step in range(start, cfg.steps + cfg.unbound_steps):
        if step == cfg.steps:
            model.clip.load_state_dict(_half_weights(model))
            adamw = _build_optimiser(model, cfg)
        for group in adamw.param_groups:
            group["lr"] = learning_rate(cfg, step)
        loss = _train_step(model, adamw, draw_batch(cfg, seed, step), cfg)
        if (step + 1) % 10 == 0:
            speed = (step + 1 - start) * cfg.batch_size / (time.perf_counter() - started)
            lines.append(json.dumps({"step": step + 1, "loss": round(loss, 4), "samples_per_second": round(speed)}))
            print(lines[-1], flush=True)
        if (step + 1) % cfg.save_every_steps == 0:
            about = {"numbers": _settings_text(cfg, seed), "step": step + 1, "lines": lines}
            buffer = io.BytesIO()
            torch.save({**about, "model": model.clip.state_dict(), "adamw": adamw.state_dict()}, buffer)
            write_atomic(state_path(weights), buffer.getvalue())
    write_atomic(weights.with_suffix(".log.jsonl"), "".join(line + "\n" for line in lines))


def state_path(weights: Path) -> Path:
    """Return what a stopped training goes on from."""
    return weights.with_suffix(".state.pt")


def _resume(model: ClipModel, adamw: torch.optim.AdamW, path: Path, numbers: str) -> tuple[int, list[str]]:
    """Restore the saved state, if any; return the step to go on from and the log until then."""
    if not path.exists():
        return 0, []
    state = torch.load(path, weights_only=True)
    if state["numbers"] != numbers:
        raise UserError(f"{path}: is of a training with other numbers; remove it to begin anew")
    model.clip.load_state_dict(state["model"])
    adamw.load_state_dict(state["adamw"])
    return state["step"], state["lines"]


def _settings_text(cfg: Pretrain, seed: int) -> str:
    """Return all settings that a step depends on, as JSON; threads and the interval of saves are not among them."""
    return json.dumps({**asdict(cfg), "threads": 0, "save_every_steps": 0, "seed": seed}, sort_keys=True)


def _build_optimiser(model: ClipModel, cfg: Pretrain) -> torch.optim.AdamW:
    groups = [
        {"params": [p for p in model.clip.parameters() if p.ndim >= 2], "weight_decay": cfg.weight_decay},
        {"params": [p for p in model.clip.parameters() if p.ndim < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=cfg.lr, betas=(cfg.beta1, cfg.beta2), eps=cfg.eps, fused=True)


def _half_weights(model: ClipModel) -> dict[str, Tensor]:
    return {k: v.half().contiguous() for k, v in model.clip.state_dict().items()}


def _train_step(model: ClipModel, adamw: torch.optim.AdamW, samples: tuple[list, list], cfg: Pretrain) -> float:
    pictures, texts = samples
    image_BD, _ = towers.encode_images(model.clip, pixels(pictures, model))
    text_BD = _embed_texts(model, texts)
    loss = losses.clip(image_BD, text_BD, model.clip.logit_scale.exp())
    adamw.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.clip.parameters(), cfg.grad_clip_norm)
    adamw.step()
    with torch.no_grad():
        model.clip.logit_scale.clamp_(0.0, math.log(100))
    return loss.item()


def _embed_texts(model: ClipModel, texts: list[str]) -> Tensor:
    """Return unit embeddings [B, D]; short texts run apart from long ones, since the tower runs to the longest end."""
    text_BL = model.tokenize(texts)
    order_B = text_BL.argmax(-1).argsort(stable=True)
    vectors = [towers.encode_texts(model.clip, texts_BL)[0] for texts_BL in text_BL[order_B].chunk(PARTS)]
    return torch.cat(vectors)[order_B.argsort()]


def write_half_weights(model: ClipModel, path: Path) -> None:
    """Write the weights in half precision: what is shipped."""
    write_atomic(path, save(_half_weights(model)))
