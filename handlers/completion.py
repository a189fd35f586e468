"""Completes prompts for every completion route: body in, tasks to the engine, reply out."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, replace

from starlette.requests import Request
from starlette.responses import Response

from engine.events import Begin, Event, Failed, Final, Progress, Token
from engine.grammar import pieces_of
from engine.sampling import SamplingParams
from engine.task import CompletionTask
from generated import errors, wire
from generated.api_error import ApiError
from generated.http import EventStream, JsonResponse, while_connected
from generated.jsontext import Json, dumps
from generated.requests.completion import CompletionRequest, read_completion
from generated.requests.completion_task import read_completion_task
from handlers.grammars import begins_in_prompt, engine_triggers
from handlers.message_starts import user_starts
from handlers.prompts import tokenize_prompts
from handlers.reading import CompletionReading
from handlers.results import Frame, NativeWriter, Writer
from handlers.run import Run
from handlers.server import Server
from handlers.speculation import speculative_types

_RANDOM_SEED = 0xFFFFFFFF
_DONE = "data: [DONE]\n\n"
_PING = ":\n\n"
_BEGUN = "data: null\n\n"
"""What upstream sends when it begins with one more prompt of a request."""


@dataclass(frozen=True)
class Api:
    """What tells one completion API from another."""

    writer: Callable[[NativeWriter], Writer]
    ends_with_done: bool
    joins_choices: bool
    """Several results become the choices of one reply, instead of a list of replies."""
    completion_id: str = ""
    """The id that the client is told, by which the completion can be acted on."""


def native_writer(native: NativeWriter) -> Writer:
    return native


NATIVE = Api(writer=native_writer, ends_with_done=False, joins_choices=False)


@dataclass(frozen=True)
class _Job:
    """One task and who writes its events."""

    task: CompletionTask
    writer: Writer


async def complete(server: Server, request: Request, body: Json, api: Api) -> Response:
    """Answer a completion body. Every error found while reading is a 400, as upstream has it."""
    try:
        jobs, read = await asyncio.to_thread(_jobs, server, body, api)
    except ApiError:
        raise
    except ValueError as error:
        raise ApiError(errors.INVALID_REQUEST, str(error)) from None
    run = Run(server.engine, server.mailbox, [job.task for job in jobs], read.n_cmpl)
    if wire.value_or(body, "stream", False):
        return await _streamed(request, run, jobs, api, read.sse_ping_interval)
    return await while_connected(request.receive, _plain(run, jobs, api))


def sampling_params(
    request: CompletionRequest, *, grammar_begins_in_prompt: bool
) -> SamplingParams:
    """The engine's sampling parameters of a request that was read."""
    return SamplingParams(
        seed=request.seed,
        temperature=request.temperature,
        dynatemp_range=request.dynatemp_range,
        dynatemp_exponent=request.dynatemp_exponent,
        top_k=request.top_k,
        top_p=request.top_p,
        min_p=request.min_p,
        top_n_sigma=request.top_n_sigma,
        xtc_probability=request.xtc_probability,
        xtc_threshold=request.xtc_threshold,
        typical_p=request.typical_p,
        repeat_last_n=request.repeat_last_n,
        repeat_penalty=request.repeat_penalty,
        presence_penalty=request.presence_penalty,
        frequency_penalty=request.frequency_penalty,
        dry_multiplier=request.dry_multiplier,
        dry_base=request.dry_base,
        dry_allowed_length=request.dry_allowed_length,
        dry_penalty_last_n=request.dry_penalty_last_n,
        dry_sequence_breakers=request.dry_sequence_breakers,
        mirostat=request.mirostat,
        mirostat_tau=request.mirostat_tau,
        mirostat_eta=request.mirostat_eta,
        adaptive_target=request.adaptive_target,
        adaptive_decay=request.adaptive_decay,
        logit_bias=request.logit_bias,
        ignore_eos=request.ignore_eos,
        n_probs=request.n_probs,
        min_keep=request.min_keep,
        grammar=request.grammar or None,
        grammar_lazy=request.grammar_lazy,
        samplers=request.samplers,
        post_sampling_probs=request.post_sampling_probs,
        backend_sampling=request.backend_sampling,
        grammar_triggers=engine_triggers(request.grammar_triggers),
        grammar_begins_in_prompt=grammar_begins_in_prompt,
        generation_prompt=request.generation_prompt,
        reasoning_budget_tokens=request.reasoning_budget_tokens,
        reasoning_start=request.reasoning_budget_start_tag,
        reasoning_ends=request.reasoning_budget_end_tags,
        reasoning_forced=request.reasoning_budget_message,
        reasoning_control=request.reasoning_control,
    )


def _jobs(server: Server, body: Json, api: Api) -> tuple[list[_Job], CompletionRequest]:
    """Read the body into tasks: one for each prompt, times the completions asked for."""
    tokenizer = server.tokenizer
    prompts = tokenize_prompts(tokenizer, wire.at(body, "prompt"))
    read = read_completion(body, server.settings, CompletionReading(tokenizer, server.settings))
    read = replace(read, logit_bias=_logit_bias(server, body, read))
    begins = begins_in_prompt(body, by_default=bool(server.settings.json_schema))
    if read.grammar:
        # Made here, so that the engine's thread finds it ready: that takes too long in a stream.
        pieces_of(tokenizer, tokenizer.n_tokens)
    own = read_completion_task(body)
    jobs: list[_Job] = []
    for prompt in prompts:
        for child in range(read.n_cmpl):
            seed = read.seed if read.seed == _RANDOM_SEED else (read.seed + child) & 0xFFFFFFFF
            request = replace(read, seed=seed)
            native = NativeWriter(
                request,
                index=len(jobs),
                model=server.model_name,
                prompt_text=server.text,
                speculative_types=speculative_types(server.settings),
            )
            slot = own.id_slot if child == 0 else -1
            sampling = sampling_params(request, grammar_begins_in_prompt=begins)
            task = _task(request, sampling, prompt, slot, api.completion_id)
            task.user_starts = user_starts(tokenizer, prompt, own.message_delimiters)
            jobs.append(_Job(task, api.writer(native)))
    return jobs, read


def _logit_bias(
    server: Server, body: Json, read: CompletionRequest
) -> tuple[tuple[int, float], ...]:
    """The biases, and a ban on ending: upstream adds it to whatever asks for `ignore_eos`.

    On the command line that is the default bias, which a body's own replaces; in a body its own.
    """
    banned = tuple((token, float("-inf")) for token in sorted(server.tokenizer.eog))
    asked = wire.value_or(body, "ignore_eos", False)
    default = server.settings.ignore_eos and not wire.has(body, "logit_bias")
    return (*read.logit_bias, *(banned if default else ()), *(banned if asked else ()))


def _task(
    read: CompletionRequest,
    sampling: SamplingParams,
    prompt: list[int],
    id_slot: int,
    completion_id: str,
) -> CompletionTask:
    return CompletionTask(
        prompt=prompt,
        sampling=sampling,
        n_predict=read.n_predict,
        n_keep=read.n_keep,
        n_discard=read.n_discard,
        n_indent=read.n_indent,
        n_cache_reuse=read.n_cache_reuse,
        cache_prompt=read.cache_prompt,
        id_slot=id_slot,
        stop=read.stop,
        t_max_predict_ms=read.t_max_predict_ms,
        stream=read.stream,
        return_tokens=read.return_tokens,
        return_progress=read.return_progress,
        timings_per_token=read.timings_per_token,
        preserved_tokens=frozenset(read.preserved_tokens),
        completion_id=completion_id,
        carried=read,
    )


async def _plain(run: Run, jobs: Sequence[_Job], api: Api) -> Response:
    """Wait for all results; the first failure is the answer."""
    replies: dict[int, Frame] = {}
    try:
        while run.unfinished:
            number, event = await run.next()
            if isinstance(event, Failed):
                raise failure(event)
            if isinstance(event, Final):
                replies[number] = jobs[number].writer.whole(event)
    finally:
        run.close()
    ordered = [replies[number] for number in range(len(jobs))]
    if len(ordered) == 1 or api.joins_choices:
        for other in ordered[1:]:
            ordered[0]["choices"] += other["choices"]
        return JsonResponse(ordered[0])
    return JsonResponse(ordered)


async def _streamed(
    request: Request, run: Run, jobs: Sequence[_Job], api: Api, ping_interval: int
) -> Response:
    """A stream, unless the first event is a failure: that is answered plainly."""
    try:
        first = await while_connected(request.receive, run.next())
        if isinstance(first[1], Failed):
            raise failure(first[1])
    except BaseException:
        run.close()
        raise
    return EventStream(_frames(run, first, jobs, api, ping_interval))


async def _frames(
    run: Run,
    first: tuple[int, Event],
    jobs: Sequence[_Job],
    api: Api,
    ping_interval: int,
) -> AsyncGenerator[str, None]:
    """The text of the stream, a comment line wherever it stays silent for too long.

    Events that are there already are sent together, so that a slow moment is caught up with.
    """
    silence = ping_interval if ping_interval > 0 else None
    text = ""
    try:
        number, event = first
        while True:
            if isinstance(event, Begin) and number != first[0]:
                text += _BEGUN
            try:
                if isinstance(event, Failed):
                    raise failure(event)
                text += sse(written(jobs[number].writer, event))
            except ApiError as error:  # or what was written doesn't fit the chat format
                yield text + sse([{"error": error.error}])
                return
            if not run.unfinished:
                break
            if text and not run.has_next:
                yield text
                text = ""
            while True:
                try:
                    number, event = await run.next(silence)
                    break
                except TimeoutError:
                    yield _PING
        yield text + _DONE if api.ends_with_done else text
    finally:
        run.close()


def written(writer: Writer, event: Event) -> list[Frame]:
    """The frames that an event becomes."""
    if isinstance(event, (Token, Progress)):
        return writer.partial(event)
    if isinstance(event, Final):
        return writer.last(event)
    return []


def sse(frames: Sequence[Frame]) -> str:
    """Frames as server-sent events."""
    return "".join(f"data: {dumps(frame)}\n\n" for frame in frames)


def failure(event: Failed) -> ApiError:
    """The error that a failed task is answered with."""
    if event.kind == "exceed_context_size":
        return ApiError(
            errors.EXCEED_CONTEXT_SIZE,
            event.message,
            n_prompt_tokens=event.n_prompt_tokens,
            n_ctx=event.n_ctx,
        )
    if event.kind == "out_of_memory":
        return errors.out_of_memory()
    kinds = {
        "invalid_request": errors.INVALID_REQUEST,
        "unavailable": errors.UNAVAILABLE,
        "server": errors.SERVER,
    }
    return ApiError(kinds[event.kind], event.message)
