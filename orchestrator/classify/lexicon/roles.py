"""Phrases that count only in a system prompt: the assistant's trade."""

from __future__ import annotations

from orchestrator.classify.evidence import Phrase

ROLES = (
    Phrase(
        "translation",
        3.0,
        "translator",
        "translator|translators|interpreter",
    ),
    Phrase(
        "code",
        2.5,
        "programmer",
        "programmer|developer|software engineer|coding assistant|code assistant|coder"
        "|pair programmer|code reviewer|answer with code",
    ),
    Phrase(
        "creative",
        2.5,
        "writer",
        "storyteller|novelist|poet|copywriter|screenwriter|creative writer"
        "|stay in character|songwriter|ghostwriter|game master|dungeon master"
        "|character",
    ),
    Phrase(
        "reasoning",
        2.5,
        "mathematician",
        "math tutor|maths tutor|mathematician|math|maths|mathematics|logician|boxed",
    ),
    Phrase(
        "structured",
        2.5,
        "extractor",
        "extractor|parser|information extraction|classifier|annotator|data entry",
    ),
    Phrase(
        "grounded",
        2.5,
        "editor",
        "editor|proofreader|summarizer|summariser|documents|retrieved|knowledge base"
        "|context below|provided context",
    ),
    Phrase(
        "translation",
        3.0,
        "译者",
        "翻译|译员|译者|译文",
    ),
    Phrase(
        "code",
        2.5,
        "程序员",
        "程序员|编程|工程师|代码助手|代码",
    ),
    Phrase(
        "creative",
        2.5,
        "作者",
        "作家|诗人|编剧|文案|小说家|角色|扮演",
    ),
    Phrase(
        "reasoning",
        2.5,
        "数学老师",
        "数学|解题|逻辑",
    ),
    Phrase(
        "structured",
        2.5,
        "抽取助手",
        "抽取|提取|槽位|解析成|标注|分类器|json",
    ),
    Phrase(
        "grounded",
        2.5,
        "依据资料",
        "参考资料|根据资料|知识库|检索到|编辑|校对|已知信息|上下文",
    ),
)
