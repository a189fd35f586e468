"""Uses the package that the small spec becomes: routes, readers, replies, errors, metrics, options.

Runs in a folder with that package, and fails with an AssertionError.
"""

from types import SimpleNamespace

from fastapi import FastAPI
from fastapi.testclient import TestClient

from generated import build, errors, metrics, options, replies
from generated.api_error import ApiError
from generated.http import JsonResponse
from generated.models import bodies
from generated.requests.completion import CompletionRequest, read_completion
from generated.requests.count import CountRequest
from generated.routes import PUBLIC_PATHS, BindError, bind
from generated.wire import FieldError, f32


class Customs:
    def stop(self, body, name):
        stop = body[name]
        return (stop,) if isinstance(stop, str) else tuple(stop)


def read(body, argv=()):
    return read_completion(body, options.parse(argv, {}), Customs())


def refused(body):
    try:
        read(body)
    except FieldError as error:
        return str(error)


# A body's defaults, aliases, nested fields, clamps and refusals.
assert read({}) == CompletionRequest(
    stream=False, include_usage=False, n_predict=-1, temperature=f32(0.8), seed=7, stop=()
)
assert read({}, ["-n", "5"]).n_predict == 5
assert read({"max_tokens": 2, "max_completion_tokens": 3}).n_predict == 3
assert read({"n_predict": 1, "max_tokens": 2}).n_predict == 1
assert read({"include_usage": True, "stream_options": {}}).include_usage is False
assert read({"stream_options": {"include_usage": True}}).include_usage is True
assert read({"temperature": -2}).temperature == 0.0
assert read({"stop": "a"}).stop == ("a",)
assert refused({"max_tokens": -2}) == (
    "Field 'max_tokens': Value must be between -1 <= value <= 2147483647, but got -2"
), refused({"max_tokens": -2})
# The first wrong field in the spec's order, not in the body's.
assert "'stream'" in refused({"n_predict": "1", "stream": 1})


async def get_metrics(server, request):
    return JsonResponse(metrics.render(SimpleNamespace(n_predicted=1234567)))


async def post_completions(server, request, body):
    return JsonResponse(replies.completion(content="x", tokens=[body], stop=True))


async def post_count(server, request, body):
    assert isinstance(body, CountRequest)
    return JsonResponse(replies.count(n_tokens=len(body.content) + body.add_special))


async def answer(request, error):
    return JsonResponse(error.body, error.status)


# The handler table: all problems at once, each missing handler as a stub to paste.
table = {"get_metrics": get_metrics, "post_completions": post_completions}
try:
    bind({**table, "get_weather": get_metrics}, None)
except BindError as error:
    assert str(error) == (
        "missing handler:\n"
        "async def post_count(server: Server, request: Request, body: CountRequest)"
        " -> Response: ...\n"
        "no route calls the handler 'get_weather'"
    ), str(error)
else:
    raise AssertionError("bind() took a table that doesn't match the routes")
table["post_count"] = post_count


def client(*argv):
    app = FastAPI()
    app.include_router(bind(table, SimpleNamespace(settings=options.parse(argv, {}))))
    app.add_exception_handler(ApiError, answer)
    return TestClient(app)


# Routes: with a body read for them or not, guarded, and not there yet.
count = {"content": "abc", "add_special": True}
assert client().post("/count", json=count).text == '{"n_tokens":4}'
assert client().post("/completion", json=7).text == (
    '{"object":"completion","content":"x","tokens":[7],"stop":true}'
)
assert client().get("/metrics").json() == {
    "error": {"code": 501, "message": 'There are no "metrics" here', "type": "not_supported_error"}
}
assert client("--metrics").get("/metrics").json() == (
    "# HELP small:tokens_predicted_total Tokens generated.\n"
    "# TYPE small:tokens_predicted_total counter\n"
    "small:tokens_predicted_total 1.23457e+06\n"
)
deferred = client().delete("/cache/3")
assert (deferred.status_code, deferred.json()["error"]["message"]) == (
    501,
    "/cache/3 isn't there yet",
)

# Errors, replies, models and the build.
assert errors.context_exceeded(n_prompt_tokens=9, model="m", n_ctx=8).error == {
    "code": 400,
    "message": "request (9 tokens) exceeds the context of 'm', try increasing it",
    "type": "invalid_request_error",
    "n_prompt_tokens": 9,
    "n_ctx": 8,
}
assert list(replies.completion(content="", tokens=[], stop=False, logprob=None)) == [
    "object",
    "content",
    "tokens",
    "logprob",
    "stop",
]
assert bodies.Completion(stop="a", more=1).model_dump(exclude_none=True) == {"stop": "a", "more": 1}
assert frozenset({"/metrics"}) == PUBLIC_PATHS
assert build.BUILD_INFO == "b7-abc1234"
