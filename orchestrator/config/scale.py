"""How many replicas a deployment has: Ray Serve's names, checked before Serve does."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from orchestrator.config.base import (
    Count,
    Mistake,
    Mistakes,
    Number,
    Positive,
    StrictModel,
    Whole,
)

_Seconds = Annotated[Number, Field(ge=0)]


class Autoscaling(StrictModel):
    """Ray Serve's `autoscaling_config`; what is left out is Serve's default."""

    #: At least 1: the router sends nothing to a pool that has no running replica, so
    #: one scaled to zero would never wake.
    min_replicas: Count = 1
    max_replicas: Count
    initial_replicas: Annotated[Whole, Field(ge=0)] | None = None
    #: No default: Ray Serve LLM's own is so large that nothing would ever scale.
    target_ongoing_requests: Positive
    upscale_delay_s: _Seconds | None = None
    downscale_delay_s: _Seconds | None = None
    upscaling_factor: Positive | None = None
    downscaling_factor: Positive | None = None
    look_back_period_s: Positive | None = None

    @model_validator(mode="after")
    def _ordered(self) -> Autoscaling:
        if self.min_replicas > self.max_replicas:
            text = f"must be at most max_replicas ({self.max_replicas})"
            raise Mistakes(Mistake(text, ("min_replicas",)))
        initial = self.initial_replicas
        if initial is not None and not (
            self.min_replicas <= initial <= self.max_replicas
        ):
            text = f"must lie in {self.min_replicas} to {self.max_replicas}"
            raise Mistakes(Mistake(text, ("initial_replicas",)))
        return self


class Scaled(StrictModel):
    """A deployment's size: fixed `replicas`, or `autoscaling`."""

    replicas: Count | None = None
    autoscaling: Autoscaling | None = None
    #: Requests that one replica works on at a time.
    max_ongoing_requests: Count = 64

    @model_validator(mode="after")
    def _one_size(self) -> Scaled:
        if self.replicas is not None and self.autoscaling is not None:
            text = "`replicas` and `autoscaling` exclude each other"
            raise Mistakes(Mistake(text, ("replicas",), "keep one", name=True))
        return self

    @property
    def start_replicas(self) -> int:
        """How many replicas the deployment has at its start."""
        if self.autoscaling is None:
            return self.replicas or 1
        initial = self.autoscaling.initial_replicas
        return self.autoscaling.min_replicas if initial is None else initial

    def serve_options(self) -> dict[str, Any]:
        """The deployment's options in Ray Serve's names."""
        options: dict[str, Any] = {"max_ongoing_requests": self.max_ongoing_requests}
        if self.autoscaling is None:
            options["num_replicas"] = self.replicas or 1
        else:
            options["autoscaling_config"] = self.autoscaling.model_dump(
                exclude_none=True
            )
        return options
