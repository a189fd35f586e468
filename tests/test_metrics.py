"""GET /metrics: upstream's series, in its order, with help texts of our own."""

import re

import httpx

from tests.server import StartServer

# The reference's series, as its answer lists them.
SERIES = [
    ("prompt_tokens_total", "counter"),
    ("prompt_tokens_cached_total", "counter"),
    ("prompt_seconds_total", "counter"),
    ("tokens_predicted_total", "counter"),
    ("tokens_predicted_seconds_total", "counter"),
    ("n_decode_total", "counter"),
    ("n_tokens_max", "counter"),
    ("spec_decode_num_draft_tokens_total", "counter"),
    ("spec_decode_num_accepted_tokens_total", "counter"),
    ("spec_decode_num_drafts_total", "counter"),
    ("prompt_tokens_seconds", "gauge"),
    ("predicted_tokens_seconds", "gauge"),
    ("requests_processing", "gauge"),
    ("requests_deferred", "gauge"),
    ("n_busy_slots_per_decode", "gauge"),
]


def test_names_kinds_and_order_are_upstreams(start_server: StartServer) -> None:
    server = start_server("--metrics")
    text = httpx.get(f"{server.url}/metrics").text
    assert re.findall(r"^# TYPE llamacpp:(\S+) (\S+)$", text, re.MULTILINE) == SERIES
    assert [name for name, _ in SERIES] == re.findall(
        r"^# HELP llamacpp:(\S+) \S.*$", text, re.MULTILINE
    )


def test_counts_follow_what_was_served(start_server: StartServer) -> None:
    server = start_server("--metrics", "-np", "1")
    body = {"prompt": "the cat", "n_predict": 6, "temperature": 0, "ignore_eos": True}
    for _ in range(2):
        httpx.post(f"{server.url}/completion", json=body)
    figures = dict(
        re.findall(r"^llamacpp:(\S+) (\S+)$", httpx.get(f"{server.url}/metrics").text, re.MULTILINE)
    )
    assert figures["prompt_tokens_total"] == "6"  # 5 at first, then only the last one again
    assert figures["prompt_tokens_cached_total"] == "4"
    assert figures["tokens_predicted_total"] == "12"
    assert figures["n_tokens_max"] == "10"
    assert (figures["requests_processing"], figures["requests_deferred"]) == ("0", "0")


def test_drafts_are_counted_and_their_tokens_by_place(start_server: StartServer) -> None:
    guesses = ("--spec-type", "ngram-map-k", "--spec-ngram-map-k-size-n", "2")
    server = start_server("--metrics", "-np", "1", *guesses, "--spec-ngram-map-k-size-m", "3")
    before = httpx.get(f"{server.url}/metrics").text
    body = {"prompt": "in an " * 6, "n_predict": 60, "temperature": 0, "ignore_eos": True}
    timings = httpx.post(f"{server.url}/completion", json=body).json()["timings"]
    after = httpx.get(f"{server.url}/metrics").text
    series = "llamacpp:spec_decode_num_accepted_tokens_per_pos_total"
    assert series not in before
    places = re.findall(rf'^{series}{{position="(\d)"}} (\d+)$', after, re.MULTILINE)
    assert [place for place, _ in places] == ["0", "1", "2"]
    assert sum(int(count) for _, count in places) == timings["draft_n_accepted"] > 0
    assert f"\nllamacpp:spec_decode_num_draft_tokens_total {timings['draft_n']}\n" in after
