import asyncio
import json
import os
from collections.abc import AsyncIterator
from dataclasses import replace

import aiohttp
import pytest
from aiohttp import web

from orchestrator.bench.load import PACE, Load, Target, check, run
from orchestrator.classify.classifier import classify
from orchestrator.classify.features import extract
from orchestrator.config.document import Document
from orchestrator.config.policy import parse_policy
from orchestrator.config.shipped import find_policy
from orchestrator.errors import FleetError
from orchestrator.records import PoolTraits
from orchestrator.routing.router import Router

LOAD = Load(pace_ms=1, tokens=3, stream=True, concurrency=4, requests=10)
STREAM = b'data: {"choices":[]}\n\n' * 4 + b"data: [DONE]\n\n"
WHOLE = b'{"usage": {"completion_tokens": 3}}'


class Server:
    """Answers as it is told to, and notes what it was asked."""

    def __init__(self) -> None:
        self.answer = STREAM
        self.bodies: list[dict[str, object]] = []
        self.at_once = self.most_at_once = 0
        self.target = Target("", os.getpid())

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.bodies.append(await request.json())
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        await asyncio.sleep(0.02)
        self.at_once -= 1
        return web.Response(body=self.answer)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    app = web.Application()
    app.router.add_post("/chat", server.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    server.target = Target(f"http://{host}:{port}/chat", os.getpid())
    yield server
    await runner.cleanup()


async def send(server: Server, load: Load) -> tuple[float, ...]:
    async with aiohttp.ClientSession() as session:
        return (await run(session, server.target, load)).latencies_s


async def test_so_many_requests_are_sent_and_so_many_at_once(server: Server) -> None:
    latencies = await send(server, LOAD)
    assert len(latencies) == len(server.bodies) == LOAD.requests
    assert server.most_at_once == LOAD.concurrency
    assert min(latencies) >= 0.02
    body = server.bodies[0]
    assert (body["max_tokens"], body["stream"]) == (3, True)
    assert body["vllm_xargs"] == {PACE: 1}


async def test_clients_of_a_slow_engine_do_not_come_at_one_moment(
    server: Server,
) -> None:
    await send(server, replace(LOAD, pace_ms=400))
    assert server.most_at_once < LOAD.concurrency


async def test_a_refused_request_ends_the_run_with_what_was_said(
    server: Server,
) -> None:
    server.answer = b'data: {"error": "no"}\n\ndata: [DONE]\n\n'
    with pytest.raises(FleetError, match=r"not with 3 tokens.*\"no\""):
        await send(server, LOAD)
    gone = replace(server.target, url=server.target.url.replace("/chat", "/none"))
    server.target = gone
    with pytest.raises(FleetError, match="/none answered with status 404"):
        await send(server, LOAD)


async def test_a_server_that_is_not_there_is_told(server: Server) -> None:
    server.target = replace(server.target, url="http://127.0.0.1:9/chat")
    with pytest.raises(FleetError, match=r"127\.0\.0\.1:9/chat failed"):
        await send(server, LOAD)


def test_only_whole_answers_pass() -> None:
    whole = replace(LOAD, stream=False)
    check(LOAD, "url", 200, STREAM)
    check(whole, "url", 200, WHOLE)
    for load, status, answer in (
        (LOAD, 200, STREAM.removesuffix(b"data: [DONE]\n\n")),
        (LOAD, 200, b"data: x\n\n" + STREAM),
        (LOAD, 500, STREAM),
        (replace(whole, tokens=4), 200, WHOLE),
    ):
        with pytest.raises(FleetError):
            check(load, "url", status, answer)


def test_the_default_policy_sends_the_request_to_the_plain_pool() -> None:
    """Of the two that the fleet of `bench overhead` has."""
    policy = parse_policy(Document.of_file(find_policy("default")))
    pools = {
        "plain": PoolTraits("plain", "none"),
        "ngram": PoolTraits("ngram", "ngram"),
    }
    features = extract(json.loads(LOAD.body()))
    assert Router(policy, pools).decide(features, classify(features)).pool == "plain"
