"""Builds a request's sampler chain: only steps that have an effect, in the order asked for."""

from __future__ import annotations

import numpy as np

from engine.sampling.cuts import MinP, TopK, TopNSigma, TopP, Typical, Xtc
from engine.sampling.dry import Dry, breakers
from engine.sampling.infill import Infill
from engine.sampling.logits import DynamicTemperature, LogitBias, Penalties, Temperature
from engine.sampling.params import SamplingParams
from engine.sampling.pick import AdaptiveP, Dist, Mirostat, MirostatV2
from engine.sampling.step import Step
from engine.sampling.vocab import Vocab


def build(
    params: SamplingParams, n_vocab: int, vocab: Vocab, suppressed: tuple[int, ...], end: int | None
) -> list[Step]:
    """The steps of a chain; the last one picks. Raises ValueError with the reference's text."""
    _check(params)
    steps: list[Step] = []
    biases = (*params.logit_bias, *((token, -np.inf) for token in suppressed))
    if biases:
        steps.append(LogitBias(biases))
    if params.mirostat:
        # Mirostat takes the place of every sampler but the temperature.
        if np.float32(params.temperature) != 1:
            steps.append(Temperature(params.temperature))
        mirostat = Mirostat if params.mirostat == 1 else MirostatV2
        steps.append(mirostat(n_vocab, params.seed, params.mirostat_tau, params.mirostat_eta))
        return steps
    for name in params.samplers:
        step = _step(name, params, n_vocab, vocab, end)
        if step is not None:
            steps.append(step)
    if "adaptive_p" in params.samplers:
        steps.append(AdaptiveP(params.adaptive_target, params.adaptive_decay, params.seed))
    else:
        steps.append(Dist(params.seed, shown=params.post_sampling_probs))
    return steps


def _check(params: SamplingParams) -> None:
    with np.errstate(all="ignore"):
        repeat = np.float32(params.repeat_penalty)
        if not (np.isfinite(repeat) and repeat > 0 and np.isfinite(np.float32(1) / repeat)):
            raise ValueError("penalty_repeat must be finite and greater than 0")
        if not np.isfinite(np.float32(params.frequency_penalty)):
            raise ValueError("penalty_freq must be finite")
        if not np.isfinite(np.float32(params.presence_penalty)):
            raise ValueError("penalty_present must be finite")


def _step(
    name: str, params: SamplingParams, n_vocab: int, vocab: Vocab, end: int | None
) -> Step | None:
    """The step called `name`, or None where the parameters switch it off."""
    p = params
    match name:
        case "penalties":
            repeat, frequency, presence = (
                float(np.float32(x))
                for x in (p.repeat_penalty, p.frequency_penalty, p.presence_penalty)
            )
            if p.repeat_last_n <= 0 or (repeat == 1 and frequency == 0 and presence == 0):
                return None
            return Penalties(n_vocab, p.repeat_last_n, repeat, frequency, presence)
        case "dry":
            if (
                np.float32(p.dry_multiplier) == 0
                or np.float32(p.dry_base) < 1
                or p.dry_penalty_last_n <= 0
            ):
                return None
            return Dry(
                p.dry_multiplier,
                p.dry_base,
                p.dry_allowed_length,
                p.dry_penalty_last_n,
                breakers(vocab, n_vocab, p.dry_sequence_breakers),
            )
        case "top_n_sigma":
            return TopNSigma(p.top_n_sigma) if np.float32(p.top_n_sigma) > 0 else None
        case "top_k":
            return TopK(p.top_k) if p.top_k > 0 else None
        case "typ_p":
            return Typical(p.typical_p, p.min_keep) if np.float32(p.typical_p) < 1 else None
        case "top_p":
            return TopP(p.top_p, p.min_keep) if np.float32(p.top_p) < 1 else None
        case "min_p":
            return MinP(p.min_p, p.min_keep) if np.float32(p.min_p) > 0 else None
        case "xtc":
            chance = float(np.float32(p.xtc_probability))
            threshold = float(np.float32(p.xtc_threshold))
            if chance <= 0 or threshold > 0.5:
                return None
            return Xtc(chance, threshold, p.min_keep, p.seed)
        case "temperature":
            if np.float32(p.dynatemp_range) > 0:
                return DynamicTemperature(p.temperature, p.dynatemp_range, p.dynatemp_exponent)
            return Temperature(p.temperature) if np.float32(p.temperature) != 1 else None
        case "infill":
            return Infill(vocab, end)
        case "adaptive_p":
            return None  # it picks, so it always stands at the end
        case _:
            raise ValueError(f"unknown sampler: {name}")
