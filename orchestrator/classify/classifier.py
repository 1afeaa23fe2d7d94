"""Features -> RequestClass: evidence is collected, weighed and compared; rules only.

Each piece of evidence speaks for one class with a weight in log-odds. The class with
the largest sum wins; its confidence is the softmax of the sums, so close sums say
"unsure".
"""

from __future__ import annotations

import math

from orchestrator.classify.evidence import Hit
from orchestrator.classify.lexicon import MESSAGE, SYSTEM
from orchestrator.classify.shapes import NUMBERS, SHAPES, shape_hits
from orchestrator.classify.traits import FIELDS, FORM, View, trait_hits, zone
from orchestrator.records import CLASSES, Features, RequestClass

#: What a request without any evidence is.
_PRIOR = Hit("open", 1.0, "nothing more specific")
#: No rule is ever surer than this.
_CERTAIN = 0.99
#: Characters: a shorter message may lean on the one before.
_FOLLOW_UP = 200
#: Characters: a longer system prompt mentions everything.
_LONG_SYSTEM = 1500


def classify(features: Features, hint: str | None = None) -> RequestClass:
    """The class of a request; `hint` is what the caller says (`x-spec-class`).

    A hint that is none of `CLASSES` is ignored: a policy may know what to do with it.
    """
    if hint in CLASSES:
        return RequestClass(hint, 1.0, ("hint: header",))
    hits = evidence(features)
    scores = dict.fromkeys(CLASSES, 0.0)
    for hit in hits:
        scores[hit.cls] += hit.weight
    best = max(scores, key=scores.__getitem__)
    top = scores[best]
    total = sum(math.exp(score - top) for score in scores.values())
    own = [hit for hit in hits if hit.cls == best and hit.weight > 0]
    own.sort(key=lambda hit: -hit.weight)
    signals = tuple(hit.signal for hit in own)
    return RequestClass(best, min(_CERTAIN, 1 / total), signals)


def evidence(features: Features) -> list[Hit]:
    """All evidence in a request, for every class."""
    view = View(features)
    fields = trait_hits(view, FIELDS)
    # Where the request's fields speak, its texts count half.
    factor = 0.5 if fields else 1.0
    return [
        _PRIOR,
        *fields,
        *_message(view, factor),
        *_system(features, factor),
        *_earlier(features, factor),
    ]


def _message(view: View, factor: float) -> list[Hit]:
    # Numbers and formulas in code are no mathematics, nor are its comments requests.
    words = MESSAGE.scan(view.lower, "words", factor / 2 if view.has_code else factor)
    form = trait_hits(view, FORM, factor)
    if not view.has_code:
        form += shape_hits(view.lower, SHAPES, factor)
        if view.size < 900:
            form += shape_hits(view.lower, NUMBERS, factor)
    return words + form


def _system(features: Features, factor: float) -> list[Hit]:
    prompt = features.system_prompt
    if len(prompt) > _LONG_SYSTEM:
        factor /= 2
    text = zone(prompt, "en").lower()
    return [h for h in SYSTEM.scan(text, "system", factor) if h.cls != "open"]


def _earlier(features: Features, factor: float) -> list[Hit]:
    if features.message_chars >= _FOLLOW_UP:
        return []
    text = zone(features.previous_message, features.language).lower()
    return [h for h in MESSAGE.scan(text, "earlier", factor / 2) if h.cls != "open"]
