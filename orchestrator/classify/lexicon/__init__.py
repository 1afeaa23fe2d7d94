"""What the words of a request say about its class, in English and in Chinese.

One module for each class. Rows are general ways to ask for something, not sentences of
any data set; texts are matched in lower case.
"""

from __future__ import annotations

from orchestrator.classify.evidence import Lexicon
from orchestrator.classify.lexicon.asks import ASKS
from orchestrator.classify.lexicon.code import CODE
from orchestrator.classify.lexicon.creative import CREATIVE, PERSONAS
from orchestrator.classify.lexicon.grounded import GROUNDED
from orchestrator.classify.lexicon.open import OPEN
from orchestrator.classify.lexicon.reasoning import REASONING
from orchestrator.classify.lexicon.roles import ROLES
from orchestrator.classify.lexicon.structured import STRUCTURED
from orchestrator.classify.lexicon.translation import TRANSLATION

_ALL = (
    *ASKS,
    *STRUCTURED,
    *CODE,
    *TRANSLATION,
    *GROUNDED,
    *REASONING,
    *CREATIVE,
    *OPEN,
)

#: For a user's message.
MESSAGE = Lexicon((*_ALL, *PERSONAS))
#: For a system prompt.
SYSTEM = Lexicon((*_ALL, *ROLES))

__all__ = ["MESSAGE", "SYSTEM"]
