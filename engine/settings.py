"""How the engine is set up: values from the command line, none defaulted here."""

from dataclasses import dataclass

from engine.speculation.settings import SpeculationSettings


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """llama-server's options under its names; token counts unless said otherwise."""

    n_ctx: int
    """Context of all slots together; 0 takes the model's, for each slot if they don't share it."""
    n_parallel: int
    """Slots; negative means 4 that share one context (`kv_unified`)."""
    kv_unified: bool
    """Every slot may use the whole context, instead of its equal share."""
    n_batch: int
    """Prompt tokens between two progress reports."""
    n_ubatch: int
    """Most prompt tokens evaluated in one step; on a CPU at most 256 are, where more is slower."""
    n_predict: int
    """The limit for tasks that set none; -1 for no limit."""
    slot_prompt_similarity: float
    """A slot is preferred if more than this share of the prompt is in its cache; 0 turns it off."""
    special: bool
    """Show the text of special tokens too."""
    ctx_shift: bool
    """When a slot is full, drop old tokens and go on; not with every model."""
    cache_ram_mib: int
    """MiB for prompts kept outside the slots; negative for no limit, 0 for none kept."""
    cache_idle_slots: bool
    """Keep the prompts of idle slots there when a task starts."""
    n_ctx_checkpoints: int
    """Most checkpoints of a slot, where the model's cache can't be rolled back."""
    checkpoint_min_step: int
    """Fewest tokens between the checkpoints that different tasks leave."""
    cache_type_k: str
    """llama.cpp's name of the type that keys are held in; empty for the one they come in."""
    cache_type_v: str
    """The same for values."""
    speculation: SpeculationSettings
    """What is guessed ahead, and how."""


@dataclass(frozen=True, slots=True)
class ContextSizes:
    """How the context is shared out, in tokens."""

    n_slots: int
    n_ctx: int
    """Of all slots together."""
    n_ctx_slot: int
    """The most one slot may hold; never beyond what the model was trained for."""


_CONTEXT_STEP = 256


def context_sizes(settings: EngineSettings, n_ctx_train: int) -> ContextSizes:
    """Share the context out as llama-server does: sizes are rounded up to whole steps of 256."""
    automatic = settings.n_parallel < 0
    n_slots = 4 if automatic else max(1, settings.n_parallel)
    shared = automatic or settings.kv_unified
    n_ctx = _rounded_up(settings.n_ctx or n_ctx_train * (1 if shared else n_slots))
    if shared:
        n_ctx_slot = n_ctx
    else:
        n_ctx_slot = _rounded_up(n_ctx // n_slots)
        n_ctx = n_ctx_slot * n_slots
    return ContextSizes(n_slots, n_ctx, min(n_ctx_slot, n_ctx_train))


def _rounded_up(n_tokens: int) -> int:
    return -(-n_tokens // _CONTEXT_STEP) * _CONTEXT_STEP
