"""How failures arrive from pools, and what is made of them."""

import json

import pytest
from ray.exceptions import ActorDiedError, ActorUnavailableError, RayTaskError
from vllm.v1.engine.exceptions import EngineDeadError

from orchestrator.errors import OrchestratorError
from orchestrator.serving import hooks
from orchestrator.serving.failures import (
    PoolFailedError,
    PoolFullError,
    failure_of,
    raise_failure,
    read_error,
)


def task_error(cause: Exception) -> Exception:
    """As Ray raises what a replica raised: with the remote traceback as its text."""
    trace = f"Traceback:\n{type(cause).__name__}: {cause}"
    raised: Exception = RayTaskError("chat", trace, cause).as_instanceof_cause()
    return raised


def event(**error: object) -> str:
    return f"data: {json.dumps({'error': error})}\n\n"


def test_vllm_says_so_when_its_engine_has_died() -> None:
    assert hooks.ENGINE_DEAD in str(EngineDeadError())


@pytest.mark.parametrize(
    ("error", "died"),
    [
        (ActorDiedError(), True),
        (ActorUnavailableError("gone", None), True),
        (task_error(EngineDeadError()), True),
        (task_error(KeyError("x")), False),
        (RuntimeError("secret"), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_deaths_are_told_from_other_failures(error: Exception, died: bool) -> None:
    failure = failure_of(error)
    assert failure.died is died
    assert failure.status == (503 if died else 500)
    assert "secret" not in failure.message
    assert failure_of(failure) is failure


@pytest.mark.parametrize(
    ("code", "raised"),
    [(400, None), (404, None), (501, None), (503, PoolFullError)]
    + [(code, PoolFailedError) for code in (500, 502, 599)],
)
def test_an_engines_errors(code: int, raised: type[OrchestratorError] | None) -> None:
    error = read_error(event(message="told", code=code, type="SomeError"))
    assert (error.error.message, error.error.code) == ("told", code)
    if raised is None:
        raise_failure(error)
    else:
        with pytest.raises(raised):
            raise_failure(error)


def test_a_dead_engine_in_a_stream() -> None:
    error = read_error(event(message=str(EngineDeadError()), code=500))
    with pytest.raises(PoolFailedError) as caught:
        raise_failure(error)
    assert caught.value.died


@pytest.mark.parametrize(
    "text", ['data: {"error"', 'data: {"error": 5}', 'data: {"error": {"code": "x"}}']
)
def test_an_unreadable_error_is_a_failure(text: str) -> None:
    with pytest.raises(PoolFailedError):
        read_error(text)
