"""Writes engine events as the JSON of each API: native, OpenAI completions, OpenAI chat."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from engine.events import Final, Progress, Token, TokenProbs
from engine.timings import Timings
from generated import replies
from generated.absent import ABSENT
from generated.build import BUILD_INFO
from generated.requests.completion import CompletionRequest
from handlers.chat_output import ChatOutput, Delta
from handlers.generation_settings import generation_settings

Frame = dict[str, Any]

_NO_TOKEN = 0
"""What upstream puts where no token was predicted yet."""
_STOPPED = ("eos", "word")


class Writer(Protocol):
    """Writes the events of one task in one API's shape."""

    def partial(self, event: Token | Progress) -> list[Frame]:
        """The frames of a stream for an event in the middle."""
        ...

    def last(self, event: Final) -> list[Frame]:
        """The frames that end a stream."""
        ...

    def whole(self, event: Final) -> Frame:
        """The plain reply."""
        ...


class NativeWriter:
    """llama.cpp's own completion reply."""

    def __init__(
        self,
        request: CompletionRequest,
        *,
        index: int,
        model: str,
        prompt_text: Callable[[list[int]], str],
        speculative_types: Sequence[str],
    ) -> None:
        """`prompt_text` gives the text of the prompt's tokens."""
        self.request = request
        self.index = index
        self.model = model
        self.prompt_text = prompt_text
        self.speculative_types = speculative_types

    def partial(self, event: Token | Progress) -> list[Frame]:
        token = event if isinstance(event, Token) else None
        return [
            replies.completion_partial(
                index=self.index,
                content=token.text if token else "",
                tokens=list(token.tokens) if token else [_NO_TOKEN],
                tokens_predicted=token.n_decoded if token else 0,
                tokens_evaluated=n_prompt_tokens(event),
                timings=timings(event.timings),
                prompt_progress=progress(event) if isinstance(event, Progress) else ABSENT,
                completion_probabilities=self._probabilities(event),
            )
        ]

    def last(self, event: Final) -> list[Frame]:
        return [self.whole(event)]

    def whole(self, event: Final) -> Frame:
        reply = self.complete(event)
        fields = self.request.response_fields
        return _selected(reply, fields) if fields else reply

    def complete(self, event: Final) -> Frame:
        """The reply before `response_fields` picks from it."""
        return replies.completion_final(
            index=self.index,
            content=event.content + event.held_back,
            tokens=list(event.tokens),
            id_slot=event.id_slot,
            model=self.model,
            tokens_predicted=event.n_decoded,
            tokens_evaluated=event.n_prompt_tokens,
            generation_settings=generation_settings(self.request, self.speculative_types),
            prompt=self.prompt_text(event.prompt),
            has_new_line=event.has_new_line,
            truncated=event.truncated,
            stop_type=event.stop_type,
            stopping_word=event.stopping_word,
            tokens_cached=event.n_tokens_cached,
            timings=timings(event.timings),
            completion_probabilities=probabilities(event.probs, self.request) or ABSENT,
        )

    def _probabilities(self, event: Token | Progress) -> Any:
        if isinstance(event, Token) and event.probs and event.probs.top:
            return probabilities([event.probs], self.request)
        return ABSENT


class OpenAiWriter:
    """OpenAI's text completion."""

    def __init__(self, native: NativeWriter, id: str) -> None:
        self.native = native
        self.id = id

    def partial(self, event: Token | Progress) -> list[Frame]:
        token = event if isinstance(event, Token) else None
        choice = replies.oai_completion_choice(
            text=token.text if token else "",
            index=self.native.index,
            logprobs=_logprobs(event, self.native.request),
            finish_reason=None,
        )
        return [
            replies.oai_completion_chunk(
                choices=[choice],
                created=now(),
                model=self.native.model,
                system_fingerprint=BUILD_INFO,
                id=self.id,
                verbose=self.native.partial(event)[0] if self.native.request.verbose else ABSENT,
                timings=timings(event.timings),
                prompt_progress=progress(event) if isinstance(event, Progress) else ABSENT,
            )
        ]

    def last(self, event: Final) -> list[Frame]:
        return [self.whole(event)]

    def whole(self, event: Final) -> Frame:
        request = self.native.request
        choice = replies.oai_completion_choice(
            text=event.content + event.held_back,
            index=self.native.index,
            logprobs=replies.logprobs(content=probabilities(event.probs, request))
            if event.probs
            else None,
            finish_reason=finish_reason(event),
        )
        return replies.oai_completion(
            choices=[choice],
            created=now(),
            model=self.native.model,
            system_fingerprint=BUILD_INFO,
            usage=usage(event),
            id=self.id,
            verbose=self.native.whole(event) if request.verbose else ABSENT,
            timings=timings(event.timings),
        )


class ChatWriter:
    """OpenAI's chat completion; the text goes through the chat format's parser."""

    def __init__(self, native: NativeWriter, id: str, output: ChatOutput) -> None:
        self.native = native
        self.id = id
        self.output = output

    def partial(self, event: Token | Progress) -> list[Frame]:
        token = event if isinstance(event, Token) else None
        deltas = [_delta(d) for d in (self.output.add(token.text) if token else [])]
        if token is None or token.n_decoded == 1:
            deltas.insert(0, replies.chat_delta(role="assistant", content=None))
        choices = [self._choice(delta) for delta in deltas]
        if choices and token and token.probs and token.probs.top:
            choices[-1]["logprobs"] = replies.logprobs(
                content=probabilities([token.probs], self.native.request)
            )
        frames = [self._chunk([choice]) for choice in choices]
        if frames:
            _add(frames[-1], "timings", timings(event.timings))
            if isinstance(event, Progress):
                _add(frames[-1], "prompt_progress", progress(event))
        return frames

    def last(self, event: Final) -> list[Frame]:
        deltas = self.output.finish(event.held_back)
        frames = [self._chunk([self._choice(_delta(delta))]) for delta in deltas]
        reason = finish_reason(event, tool_calls=self.output.has_tool_calls)
        frames.append(self._chunk([self._choice({}, reason)]))
        if self.native.request.include_usage:
            frames.append(self._chunk([], usage=usage(event)))
        _add(frames[-1], "timings", timings(event.timings))
        if self.native.request.verbose:
            frames[0]["__verbose"] = self.native.whole(event)
        return frames

    def whole(self, event: Final) -> Frame:
        self.output.finish(event.content)
        request = self.native.request
        choice = replies.chat_choice(
            finish_reason=finish_reason(event, tool_calls=self.output.has_tool_calls),
            index=self.native.index,
            message=self.output.message(),
            logprobs=replies.logprobs(content=probabilities(event.probs, request))
            if event.probs
            else ABSENT,
        )
        return replies.chat_completion(
            choices=[choice],
            created=now(),
            model=self.native.model,
            system_fingerprint=BUILD_INFO,
            usage=usage(event),
            id=self.id,
            verbose=self.native.whole(event) if request.verbose else ABSENT,
            timings=timings(event.timings),
        )

    def _choice(self, delta: Frame, reason: str | None = None) -> Frame:
        return replies.chat_choice_chunk(finish_reason=reason, index=self.native.index, delta=delta)

    def _chunk(self, choices: list[Frame], *, usage: Any = ABSENT) -> Frame:
        return replies.chat_completion_chunk(
            choices=choices,
            created=now(),
            id=self.id,
            model=self.native.model,
            system_fingerprint=BUILD_INFO,
            usage=usage,
        )


def now() -> int:
    """Seconds since 1970, as `created` has them."""
    return int(time.time())


def n_prompt_tokens(event: Token | Progress) -> int:
    """Tokens of the whole prompt."""
    return event.n_prompt_tokens if isinstance(event, Token) else event.total


def timings(figures: Timings | None) -> Any:
    """The `timings` object, or the mark of an absent key."""
    if figures is None:
        return ABSENT
    return replies.timings(
        cache_n=figures.cache_n,
        prompt_n=figures.prompt_n,
        prompt_ms=figures.prompt_ms,
        prompt_per_token_ms=figures.prompt_per_token_ms,
        prompt_per_second=figures.prompt_per_second,
        predicted_n=figures.predicted_n,
        predicted_ms=figures.predicted_ms,
        predicted_per_token_ms=figures.predicted_per_token_ms,
        predicted_per_second=figures.predicted_per_second,
        draft_n=ABSENT if figures.draft_n is None else figures.draft_n,
        draft_n_accepted=ABSENT if figures.draft_n_accepted is None else figures.draft_n_accepted,
    )


def progress(event: Progress) -> Frame:
    """The `prompt_progress` object."""
    return replies.prompt_progress(
        total=event.total, cache=event.cache, processed=event.processed, time_ms=event.time_ms
    )


def usage(event: Final) -> Frame:
    """The `usage` object of the OpenAI replies."""
    return replies.usage(
        completion_tokens=event.n_decoded,
        prompt_tokens=event.n_prompt_tokens,
        total_tokens=event.n_decoded + event.n_prompt_tokens,
        prompt_tokens_details=replies.prompt_tokens_details(
            cached_tokens=event.n_prompt_tokens_cache
        ),
    )


def finish_reason(event: Final, *, tool_calls: bool = False) -> str:
    """OpenAI's word for how it ended."""
    if event.stop_type not in _STOPPED:
        return "length"
    return "tool_calls" if tool_calls else "stop"


def probabilities(tokens: Iterable[TokenProbs], request: CompletionRequest) -> list[Frame]:
    """`completion_probabilities`, which `logprobs.content` shares."""
    after = request.post_sampling_probs
    return [
        replies.token_probability(
            id=token.id,
            token=_valid_text(token.piece),
            bytes=list(token.piece),
            logprob=ABSENT if after else token.logprob,
            prob=token.prob if after else ABSENT,
            top_logprobs=ABSENT if after else _top(token, after),
            top_probs=_top(token, after) if after else ABSENT,
        )
        for token in tokens
    ]


def _top(token: TokenProbs, after: bool) -> list[Frame]:
    return [
        replies.top_token(
            id=candidate.id,
            token=_valid_text(candidate.piece),
            bytes=list(candidate.piece),
            logprob=ABSENT if after else candidate.logprob,
            prob=candidate.prob if after else ABSENT,
        )
        for candidate in token.top
    ]


def _valid_text(piece: bytes) -> str:
    """The text without a character that is cut off at the end; other wrong bytes are replaced."""
    for there, byte in enumerate(reversed(piece[-3:]), start=1):
        if _character_length(byte) > there:
            return piece[:-there].decode("utf-8", "replace")
    return piece.decode("utf-8", "replace")


def _character_length(lead: int) -> int:
    """How many bytes a character has that begins so, 0 for a byte that begins none."""
    for length, bits in ((2, 0b110), (3, 0b1110), (4, 0b11110)):
        if lead >> (7 - length) == bits:
            return length
    return 0


def _logprobs(event: Token | Progress, request: CompletionRequest) -> Frame | None:
    if isinstance(event, Token) and event.probs and event.probs.top:
        return replies.logprobs(content=probabilities([event.probs], request))
    return None


def _delta(delta: Delta) -> Frame:
    return replies.chat_delta(
        reasoning_content=delta.reasoning_content or ABSENT, content=delta.content or ABSENT
    )


def _add(frame: Frame, key: str, value: Any) -> None:
    if value is not ABSENT:
        frame[key] = value


def _selected(reply: Frame, paths: Iterable[str]) -> Frame:
    """The values at slash-separated paths, each under the path itself; unknown ones left out."""
    chosen: Frame = {}
    for path in paths:
        value: Any = reply
        for key in path.split("/"):
            if not isinstance(value, dict) or key not in value:
                break
            value = value[key]
        else:
            chosen[path] = value
    return chosen
