"""The dozen requests of `make demo`: every class, two languages, streamed and whole."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

_CODE = """\
class Account:
    def __init__(self, owner, balance=0):
        self.owner = owner
        self.balance = balance

    def deposit(self, amount):
        self.balance = self.balance + amount
        return self.balance

    def withdraw(self, amount):
        self.balance = self.balance - amount
        return self.balance
"""

_PASSAGE = (
    "The library of the harbour town opened in 1887 and burned down twice. After the "
    "second fire the fishermen rebuilt it with the timber of three old boats, and the "
    "reading room still smells of tar when the sun is on the roof. It lends books, "
    "nautical charts and, since last spring, musical instruments. The town council "
    "wants to close it on Mondays to save money; the readers have collected two "
    "thousand signatures against the plan."
)

_WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city on a day.",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
            },
            "required": ["city", "unit"],
        },
    },
}


@dataclass(frozen=True, slots=True)
class DemoRequest:
    """One chat request of the demo, without the model's name."""

    name: str
    content: str
    temperature: float = 0.0
    max_tokens: int = 96
    stream: bool = False
    more: dict[str, Any] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        """The request's body as keyword arguments of the `openai` client."""
        return {
            "messages": [{"role": "user", "content": self.content}],
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            **self.more,
        }


REQUESTS = (
    DemoRequest(
        "JSON records",
        "Return a JSON array of 6 users with the fields id, name, email and active.",
        max_tokens=160,
        stream=True,
    ),
    DemoRequest(
        "tool call",
        "What is the weather like in Lisbon today, in celsius?",
        more={
            "tools": [_WEATHER],
            "tool_choice": {"type": "function", "function": {"name": "get_weather"}},
        },
    ),
    DemoRequest(
        "code to edit",
        f"Add a docstring to every method of this class:\n```python\n{_CODE}```",
        max_tokens=160,
        stream=True,
    ),
    DemoRequest(
        "code to write",
        "Write a Python function that returns the n-th Fibonacci number, with a test.",
        max_tokens=128,
    ),
    DemoRequest(
        "translation",
        "Translate into French: The ship leaves the harbour at nine in the morning. "
        "The captain reads the weather report, and the crew checks the sails. The "
        "ship returns to the harbour at six in the evening.",
        stream=True,
    ),
    DemoRequest(
        "summary",
        f"Summarise this passage in two sentences:\n\n{_PASSAGE}",
        stream=True,
    ),
    DemoRequest(
        "poem, T=1.0",
        "Write a poem about the first snow of the year.",
        temperature=1.0,
        stream=True,
    ),
    DemoRequest("open", "Why do cats purr?"),
    DemoRequest("open, T=0.9", "What makes a city lively?", temperature=0.9),
    DemoRequest(
        "word problem",
        "A shop sells pencils at 3 for 2 dollars. How much do 12 pencils cost? "
        "Think step by step.",
        stream=True,
    ),
    DemoRequest("中文开放问题", "为什么天空是蓝色的？"),
    DemoRequest(
        "中文翻译",
        "把下面的句子翻译成英文：今天天气很好，我们去公园散步。",
        stream=True,
    ),
    DemoRequest("中文写诗, T=1.0", "写一首关于秋天的短诗。", temperature=1.0),
)
