"""The one tree of exceptions; each knows its HTTP status and says what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


class OrchestratorError(Exception):
    """Base of all errors that this project raises on purpose.

    `str(error)` is fit to be shown to a user. Every error survives pickling, since
    Ray carries them between processes.
    """

    #: Status of the HTTP response that this error becomes.
    status = 500
    #: OpenAI's `error.type`.
    type = "internal_error"
    #: Exit code of a command that ends with this error.
    exit_code = 1

    def __init__(
        self, message: str, *, param: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code

    def __reduce__(self) -> Any:
        """Pickle without calling `__init__`, whose arguments differ by class."""
        return _rebuild, (type(self), self.args, self.__dict__)

    def body(self) -> dict[str, Any]:
        """The response body in OpenAI's shape."""
        return {
            "error": {
                "message": self.message,
                "type": self.type,
                "param": self.param,
                "code": self.code,
            }
        }


def _rebuild(
    cls: type[OrchestratorError], args: tuple[Any, ...], state: dict[str, Any]
) -> OrchestratorError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class RequestError(OrchestratorError):
    """The request's own fault."""

    status = 400
    type = "invalid_request_error"


class InfeasibleError(RequestError):
    """No pool of the fleet can serve this request, whatever the policy says."""


class QuarantinedError(RequestError):
    """An equal request was in flight when two engines died."""

    status = 422

    def __init__(self, seconds: float) -> None:
        super().__init__(
            "Two engines died while a request with this very body was in flight. It is"
            f" refused for another {seconds:.0f} s.",
            code="quarantined",
        )


class UnavailableError(OrchestratorError):
    """All pools that could serve the request are full or down; try again later."""

    status = 503
    type = "server_error"


class UnknownModelError(RequestError):
    """The fleet serves another model."""

    status = 404


class PoolForbiddenError(RequestError):
    """`x-spec-pool` names a pool where neither policy nor API key allows it."""

    status = 403
    type = "permission_error"


class UnauthorizedError(RequestError):
    """The request has no API key, or one that is not in the keys file."""

    status = 401

    def __init__(self, message: str) -> None:
        super().__init__(message, code="invalid_api_key")


class AdminRequiredError(RequestError):
    """The request would change the router, and its key may not."""

    status = 403
    type = "permission_error"


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a file: where it stands, what is wrong, what to write instead."""

    message: str
    #: Path of the field, such as `rules[2].when.temperature`.
    field: str = ""
    line: int | None = None
    column: int | None = None
    #: Allowed values, or the likely spelling.
    hint: str = ""

    def __str__(self) -> str:
        """`LINE:COLUMN: field: message (hint)`."""
        place = "" if self.line is None else f"{self.line}:{self.column or 1}: "
        name = f"{self.field}: " if self.field else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{place}{name}{self.message}{hint}"


class ConfigError(OrchestratorError):
    """A file or a configuration that people wrote has mistakes; all are listed."""

    status = 422
    type = "invalid_config"
    exit_code = 2

    def __init__(self, source: str, problems: list[Problem]) -> None:
        self.source = source
        self.problems = problems
        lines = "\n".join(f"  {source}:{p}" for p in problems)
        super().__init__(f"{len(problems)} problem(s) in {source}\n{lines}")


class ModelBuildError(OrchestratorError):
    """The demo model could not be built."""


class FleetError(OrchestratorError):
    """The fleet could not be started or reached; the message names the cause."""
