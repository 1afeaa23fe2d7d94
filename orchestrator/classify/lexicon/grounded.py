"""Phrases of `grounded`: the answer repeats its input (summary, RAG, editing)."""

from __future__ import annotations

from orchestrator.classify.evidence import Phrase
from orchestrator.classify.lexicon.terms import TEXT, TEXT_ZH, THIS

GROUNDED = (
    Phrase(
        "grounded",
        3.5,
        "summarise",
        "summarize|summarise|summarizing|summarising|summarized|tl;dr|tldr|résume"
        "|fasse zusammen|resume el|recap|sum up",
    ),
    Phrase(
        "grounded",
        2.0,
        "summary",
        "summary|synopsis|gist|takeaways",
    ),
    Phrase(
        "grounded",
        2.5,
        "main points",
        "main|key|important|central",
        " (?:points?|takeaways?|ideas?|arguments?|findings|facts|messages?)",
    ),
    Phrase(
        "grounded",
        2.0,
        "highlights",
        "highlights|bullet points|bullets",
    ),
    Phrase(
        "grounded",
        3.0,
        "rewrite",
        "paraphrase|rephrase|reword|rewrite|proofread|copyedit|copy-edit|condense"
        "|shorten|abridge|reformulate|restate|spell-check|spellcheck|redact",
    ),
    Phrase(
        "grounded",
        3.0,
        "edit a text",
        "edit|improve|polish|simplify|revise|correct|fix|expand|clean up|tidy up|check"
        "|enhance|refine|format",
        rf" (?:{THIS} )*(?:[\w-]+ ){{0,2}}?(?:{TEXT}|grammar|grammatical|mistakes"
        rf"|errors|spelling|typos"
        "|wording|tone|writing|punctuation|draft|minutes)",
    ),
    Phrase(
        "grounded",
        3.0,
        "make it",
        "make",
        rf" {THIS} (?:[\w-]+ ){{0,3}}?(?:more|less|sound|shorter|longer|concise|formal"
        "|simpler|clearer|polite|professional|friendlier|readable)",
    ),
    Phrase(
        "grounded",
        3.5,
        "based on a text",
        "based|according|using|per|only|refer|relying|by reading|read|reading|use",
        r" (?:only )?(?:on |to |use )?(?:only )?(?:solely )?(?:the |this |these "
        r"|those )?(?:following|above|below|provided|given|attached|retrieved|supplied"
        r"|\w+)? ?"
        rf"{TEXT}(?: (?:below|above|provided|given))?\b",
    ),
    Phrase(
        "grounded",
        2.0,
        "a text given",
        "following|above|below|this|these|here is|here's|here are|from the|in the"
        "|given the",
        rf" (?:an? |the |my |our |following |above |provided )?(?:\w+ )?{TEXT}\b",
    ),
    Phrase(
        "grounded",
        2.0,
        "answer from the text",
        "answer|respond|reply",
        r"[^\n.]{0,60}?\b(?:using|based on|from|with|according to) (?:only )?(?:the"
        r"|this|these)",
    ),
    Phrase(
        "grounded",
        2.5,
        "about the text",
        "what does|what is|what did|what do|how does|why does|who does|does|which",
        r" the (?:author|passage|text|article|document|paragraph|writer|report"
        r"|speaker)",
    ),
    Phrase(
        "grounded",
        2.5,
        "turn notes into",
        "turn|convert|transform|reorganize|reorganise",
        rf" {THIS} (?:[\w-]+ ){{0,3}}?(?:notes|bullets?|points|draft|outline"
        rf"|transcript)",
    ),
    Phrase(
        "grounded",
        3.0,
        "use the context",
        "context|documents|passages|sources",
        " (?:to|below|above|provided|given|information|only)\\b",
    ),
    Phrase(
        "grounded",
        1.5,
        "overview of a text",
        "overview of|rundown of|tighten|trim",
    ),
    Phrase(
        "grounded",
        1.5,
        "in plain words",
        "in plain|in simple|in simpler|in layman's",
        r" (?:english|terms|words|language)\b",
    ),
    Phrase(
        "grounded",
        2.0,
        "not in the text",
        "if the answer is not|if it is not in",
    ),
    # Chinese
    Phrase(
        "grounded",
        3.5,
        "总结",
        "总结|摘要|概括|概述|归纳|提炼|缩写|浓缩|简述一下这|综述|概要|總結|梳理",
    ),
    Phrase(
        "grounded",
        2.5,
        "要点",
        "要点|讲了什么|说了什么|讲的是什么|主旨|中心思想|大意|核心观点|主要内容"
        "|主要观点|核心内容|关键信息|重点内容|关键点",
    ),
    Phrase(
        "grounded",
        3.5,
        "润色改写",
        "润色|改写|修改|重写|改错|校对|扩写|精简|简化|纠正|订正|修正|压缩|降重|仿写"
        "|错别字|病句|语病|改得|改成更|改一下|改改|帮我改|改短|改进|检查|润饰"
        "|换一种说法|换种说法|优化",
        f"[^。\\n]{{0,14}}?(?:{TEXT_ZH}|下|以|一|这|语|句|通顺|段|：|:|错|病|，|,)",
    ),
    Phrase(
        "grounded",
        3.5,
        "根据材料",
        "根据|依据|基于|按照|结合|参考|参照|阅读|利用|通过|仅凭|仅根据",
        f"[^。\\n]{{0,12}}?{TEXT_ZH}",
    ),
    Phrase(
        "grounded",
        2.0,
        "给定材料",
        "以下|下面|下列|上述|上面|给定|已知|参考|检索",
        f"[^。\\n]{{0,6}}?{TEXT_ZH}[^。\\n]{{0,6}}?[:：\\n，,中里]",
    ),
    Phrase(
        "grounded",
        1.5,
        "这段",
        "这段|这封|这篇|这份|这则|这条|这几段|下面这|以下这",
        "(?!代码|程序|函数|sql|查询)",
    ),
    Phrase(
        "grounded",
        2.0,
        "不要编造",
        "不要编造|无法回答|不得编造|如果材料|如果资料|没有提到|已知信息",
    ),
    Phrase(
        "grounded",
        2.0,
        "文中",
        "文中|文章中|材料中|资料中|作者|这篇文章|本文|上文|该文",
    ),
)
