"""Fails when Ray changes what `serving/hooks.py` relies on; says what to look at."""

import hashlib
import inspect
import re

import pytest
from ray.llm._internal.serve.core.ingress import ingress, utils
from ray.llm._internal.serve.core.protocol import RawRequestInfo
from ray.llm._internal.serve.engines.vllm.vllm_engine import VLLMEngine
from ray.serve._private.replica import UserCallableWrapper
from ray.serve._private.request_router.request_router import RequestRouter
from ray.serve._private.router import AsyncioRouter, SingletonThreadRouter
from ray.serve.handle import (
    DeploymentBroadcastResponse,
    DeploymentHandle,
    DeploymentResponseGenerator,
)
from ray.serve.llm.ingress import OpenAiIngress

from orchestrator.serving import hooks
from orchestrator.serving.ingress import RouterIngress


def fingerprint(thing: object) -> str:
    source = re.sub(r"\s+", " ", inspect.getsource(thing))
    return hashlib.sha256(source.encode()).hexdigest()[:12]


@pytest.mark.parametrize(
    ("thing", "seen"),
    [
        (OpenAiIngress._get_response, "7a9a1b442d56"),
        (OpenAiIngress._process_llm_request, "083745ea354a"),
        (utils._sanitize_chat_completion_request, "44d9e11c91e8"),
        (utils._peek_at_generator, "dd3cf08e3883"),
        (utils._openai_json_wrapper, "1c3baefb9c55"),
        (ingress.init, "93579200cee0"),
        (RawRequestInfo, "8b49d0bddc77"),
        (DeploymentBroadcastResponse._fetch_replica_results_async, "f63edab00fd9"),
        (DeploymentBroadcastResponse.results_async, "837055fe84de"),
    ],
)
def test_rays_private_code_is_as_it_was(thing: object, seen: str) -> None:
    assert fingerprint(thing) == seen, (
        f"{thing} changed in Ray. Read it, see whether orchestrator/serving/hooks.py "
        "still does the same, and put the new fingerprint here."
    )


def test_the_handle_knows_its_replicas_where_we_look() -> None:
    """`has_replica` itself runs in tests/serve; this names what it leans on."""
    update = inspect.getsource(AsyncioRouter.update_deployment_targets)
    assert "self._running_replicas = running_replicas" in update
    assert hasattr(RequestRouter, "curr_replicas")
    assert "self._asyncio_router" in inspect.getsource(SingletonThreadRouter)
    assert "self._router" in inspect.getsource(DeploymentHandle)


def test_a_call_has_a_future_that_is_done_once_a_replica_has_it() -> None:
    """What `is_assigned` looks at."""
    cancel = inspect.getsource(DeploymentResponseGenerator.cancel)
    assert "self._replica_result_future.cancel()" in cancel


def test_serve_hands_over_a_user_config_that_is_null_to_who_asks_for_the_rank() -> None:
    """`RouterIngress.reconfigure` has the parameter `rank` for this alone."""
    call = inspect.getsource(UserCallableWrapper.call_reconfigure)
    assert "if user_config is not None or user_subscribed_to_rank:" in call
    assert "rank" in inspect.signature(RouterIngress.reconfigure).parameters


def test_ray_still_looks_for_vllms_old_name_of_the_tokenizer() -> None:
    source = inspect.getsource(VLLMEngine.start)
    assert 'state, "openai_serving_tokenization"' in source, (
        "Ray may have mended /tokenize: try it without hooks.join_tokenization, and "
        "remove that function and its call if it works."
    )


def test_the_override_is_where_ray_calls_it() -> None:
    assert "self._get_response(" in inspect.getsource(
        OpenAiIngress._process_llm_request
    )
    ours = inspect.signature(hooks.PoolCallIngress._get_response).parameters
    rays = inspect.signature(OpenAiIngress._get_response).parameters
    assert list(ours) == list(rays)
