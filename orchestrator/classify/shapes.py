"""Evidence in the form of a text: code, formulas, numbers, passages, labels.

The patterns begin with a literal or a small set of characters (not with `^`, `\\b` or a
lookbehind), which keeps the scan of some thousand characters in the tens of
microseconds. So that "\\n" can begin every line, a text gets one put in front.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from orchestrator.classify.evidence import Hit

#: A line that only source code begins with. "\n" first, for speed.
_CODE_LINE = re.compile(
    r"\n[ \t]*(?:def \w+ ?\(|async def |class \w+ ?[:({]|import [\w.]+[;\n]"
    r"|import [{*\"']|import \w+ (?:as|from) |from [\w.]+ import |#include"
    r"|using (?:namespace|System)|package [\w.]+;?\n|func |fn \w+|pub fn|impl "
    r"|(?:public|private|protected|static) [\w<>\[\], ]+(?:\w\(|[{=;])"
    r"|(?:void|int|double|float|char|bool|string|long|auto) \w+ ?[(=;]"
    r"|function \w*\(|(?:const|let|var) \w+ ?[=:]|(?<=[ \t])return\b|return .*;\n"
    r"|(?:if|while|for) ?\(.*\) ?\{|(?:for \w+ in|if|while) .+:\n|elif |else:|try:"
    r"|except.*:\n|\}|\{\n|SELECT |CREATE TABLE|INSERT |WHERE |print\(|assert "
    r"|@\w+(?:\(.*\))?\n|<\?php|<html|<div|</\w+>|>>> |//|\w+\.\w+\(.*\);?\n"
    r"|\w+ = .*[\w)\]]\n|self\.)"
)


def code_lines(text: str) -> int:
    """How many lines of `text` look like source code."""
    return len(_CODE_LINE.findall(f"\n{text}\n"))


@dataclass(frozen=True, slots=True)
class Shape:
    """One row: so many matches of a pattern speak for a class."""

    cls: str
    weight: float
    name: str
    pattern: re.Pattern[str]
    at_least: int = 1


_LANG = (
    r"(?:english|french|german|spanish|italian|portuguese|russian|japanese|korean|chinese"
    r"|source|target|translation|译文|原文|英文|中文|英语|汉语|日语|法语|德语)"
)
#: Begins any line but the first.
_LATER_LINE = r"\n(?<=[\s\S]\n)"
_NUMBER_WORD = (
    r"\b(?:one|two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|hundred|dozen"
    r"|half|twice|thrice|double|triple|third|quarter|times|each|older|younger|more|fewer"
    r"|less|taller|shorter|heavier|faster|fourth|fifth|per)\b"
)

SHAPES = (
    Shape(
        "translation",
        4.0,
        "a language and a colon",
        re.compile(rf"\n *{_LANG} ?[:：]"),
    ),
    Shape(
        "reasoning",
        1.0,
        "options to choose from",
        re.compile(rf"{_LATER_LINE} *\(?[a-d1-5][).:、．] ?"),
        at_least=3,
    ),
    Shape(
        "grounded",
        3.5,
        "a passage with a label",
        re.compile(
            r"\n *(?:#+ ?)?(?:\[?(?:context|passage|article|documents?|source"
            r"|text|background|references?|reference text|search results?|report"
            r"|material) ?\d*\]? ?[:：]|\[1\]|\[doc"
            r"|【?(?:材料|资料|参考资料|已知信息|背景|上下文|文章|原文|文档|新闻"
            r"|内容|阅读材料|知识)\d*】? ?[:：\n])"
        ),
    ),
    Shape(
        "structured",
        1.5,
        "names of fields",
        re.compile(r"[(（](?:\w[\w -]{0,20}[,，、] ?){2,}\w[\w -]{0,20}[)）]"),
    ),
    Shape(
        "structured",
        1.0,
        "what to fill in",
        re.compile(r"[:：] ?(?:[a-z][\w ]{2,24}, ){2,}[a-z][\w ]{2,24}[.\n]"),
    ),
    Shape(
        "code",
        2.0,
        "a programming exercise",
        re.compile(
            r"(?:\n|\. ?|。 ?)(?:constraints?|sample input|sample output|输入格式"
            r"|输出格式) ?[:：]"
        ),
    ),
    Shape(
        "grounded",
        1.5,
        "a question with a label",
        re.compile(
            rf"{_LATER_LINE} *(?:user )?(?:question|q|用户问题|问题|提问) ?[:：]"
        ),
    ),
)

NUMBER = re.compile(
    # No years: they stand in questions of any kind.
    r"(?=\d)(?<![\d.:/-])(?!(?:1[5-9]|20)\d\d\b)\d+(?:\.\d+)?(?![.)、] )"
    rf"|{_NUMBER_WORD}"
    r"|[一两二三四五六七八九十百千半](?:个|只|名|位|元|支|本|岁|条|颗|辆|天|小时|倍|米|千米|公里|斤|人|次|层|道"
    r"|分|棵|张|袋|箱|瓶|件|块|班|组|头|数|种|扇|枚|匹|间|座|轮|步|页|杯|筐|桶|厘米|升|克|千克|点|场)"
)
#: For short texts only: longer ones hold numbers of any kind.
NUMBERS = (
    Shape("reasoning", 1.0, "numbers", NUMBER, at_least=2),
    Shape(
        "reasoning",
        2.0,
        "a formula",
        re.compile(
            # The lookahead spares most letters of a prose text the four attempts.
            r"[a-z](?=[ =^(+-])(?: ?= ?-?\d|\^|\(x\)| ?[+-] ?[a-z] ?=)"
            r"|\d(?: ?[+*/^×÷] ?[\d(a-z]|[xyzabnk] ?[+-] ?[\da-z])"
            r"|\\frac|\\sqrt|\$[\\a-z]|[√∫∠△≤≥≡]"
        ),
    ),
)


def shape_hits(text: str, shapes: tuple[Shape, ...], factor: float = 1.0) -> list[Hit]:
    """Evidence of these shapes in a lower-case `text`; `factor` scales the weights."""
    text = f"\n{text}"
    return [
        Hit(s.cls, s.weight * factor, f"form: {s.name}")
        for s in shapes
        if (
            s.pattern.search(text)
            if s.at_least == 1
            else len(s.pattern.findall(text)) >= s.at_least
        )
    ]
