"""Phrases of `open`: weak on purpose, since everything else falls there anyway."""

from __future__ import annotations

from orchestrator.classify.evidence import Phrase

OPEN = (
    Phrase(
        "open",
        1.0,
        "explain",
        "explain|describe|discuss|tell me about|talk about|what do you think"
        "|pros and cons|advantages|difference between|differences between|recommend"
        "|suggest|advice|tips|should i|what is meant|how does|how do|how can i|why"
        "|compare|lesson plan|what happens|what will happen|what causes|list",
    ),
    Phrase(
        "open",
        1.0,
        "advice",
        "should i|should we|recommend|any advice|any tips|tips|suggestions|best way"
        "|is it safe|is it ok|is it better|help me understand|what do you think"
        "|your opinion|healthy",
    ),
    Phrase(
        "open",
        0.5,
        "asks a question",
        "who|whom|whose|when|where|which|what|what's|who's|is there|are there|is|are",
    ),
    # Chinese
    Phrase(
        "open",
        1.0,
        "解释",
        "为什么|什么是|是什么|怎么样|如何|怎样|怎么|介绍|解释|推荐|建议|谈谈|区别|哪些"
        "|优缺点|是谁|哪里|在哪|注意什么|有什么|什么时候|哪一年|哪个|哪年|何时|应该"
        "|可以吗|合适|看法|原因|影响|聊聊|吗|谁|讲讲|说说|简述",
    ),
)
