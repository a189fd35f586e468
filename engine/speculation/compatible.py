"""Whether a draft model's tokens mean the same as the model's, by llama-server's rules."""

from engine.tokenizer import Tokenizer

_FIRST_COMPARED = 5
_MOST_MORE = 128


def difference(target: Tokenizer, draft: Tokenizer) -> str | None:
    """Why the two vocabularies can't be used together, in a few words; None if they can."""
    if target.vocab_type != draft.vocab_type:
        return f"its type is {draft.vocab_type} and the model's {target.vocab_type}"
    if _differ(target.add_bos, target.bos, draft.add_bos, draft.bos):
        return "its texts begin with another token"
    if _differ(target.add_eos, target.eos, draft.add_eos, draft.eos):
        return "its texts end with another token"
    if abs(target.n_tokens - draft.n_tokens) > _MOST_MORE:
        return f"it has {draft.n_tokens} tokens and the model {target.n_tokens}"
    for token in range(_FIRST_COMPARED, min(target.n_tokens, draft.n_tokens)):
        if target.token_text(token) != draft.token_text(token):
            return f"token {token} is another"
    return None


def _differ(adds: bool, token: int | None, draft_adds: bool, draft_token: int | None) -> bool:
    return adds != draft_adds or (adds and token != draft_token)
