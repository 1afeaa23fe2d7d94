"""Phrases of `translation`: from one language into another."""

from __future__ import annotations

from orchestrator.classify.evidence import Phrase
from orchestrator.classify.lexicon.terms import LANGS, LANGS_ZH

TRANSLATION = (
    Phrase(
        "translation",
        3.0,
        "translate",
        "translate|translating|translated",
    ),
    Phrase(
        "translation",
        1.5,
        "translation",
        "translation|translator|interpreter",
    ),
    Phrase(
        "translation",
        2.5,
        "into a language",
        "translate|translation|render|put|say|express|convert|turn|version",
        rf"[^\n]{{0,80}}?\b(?:in|into|to) (?:\w+ )?(?:{LANGS})\b",
    ),
    Phrase(
        "translation",
        3.5,
        "language pair",
        f"{LANGS}|from {'|from '.join(LANGS.split('|'))}",
        rf" ?(?:to|into|->|→|[-–/])[ -]?(?:{LANGS})\b",
    ),
    Phrase(
        "translation",
        3.0,
        "how to say",
        "how do|how would|how can|how to|what is|what's|what are|what does",
        rf"[^\n?]{{0,90}}?\b(?:say|mean|called|word|words|phrase|equivalent"
        rf"|translation)\b[^\n?]{{0,60}}?\b(?:in|for) (?:{LANGS})\b",
    ),
    Phrase(
        "translation",
        3.0,
        "a language's word",
        LANGS,
        " (?:translation|version|word|term|phrase|expression|equivalent|name|for)\\b",
    ),
    Phrase(
        "translation",
        3.0,
        "into a language",
        "into",
        rf" (?:\w+ )?(?:{LANGS})\b",
    ),
    Phrase(
        "translation",
        3.0,
        "this in a language",
        "this in|it in|that in|be in|sounds in|say in",
        rf" (?:{LANGS})\b",
    ),
    Phrase(
        "translation",
        2.0,
        "localise",
        "localize|localise|localization|localisation",
    ),
    Phrase(
        "translation",
        4.0,
        "translate",
        "übersetze|übersetzen|übersetz|übersetzung|traduce|traducir|traduzca|traduzcan"
        "|traducción|traduis|traduisez|traduire|traduction|traduza|traduz|traduzir"
        "|traduci|traduca|tradurre|переведи|переведите|перевести|перевод|vertaal"
        "|översätt|przetłumacz|çevir|terjemahkan|dịch|翻訳|번역|ترجم|अनुवाद",
    ),
    # Chinese
    Phrase(
        "translation",
        3.5,
        "翻译",
        "翻译|译成|译为|译作|翻成|翻為|译出|中译|英译|汉译|互译|直译|意译|翻譯",
    ),
    Phrase(
        "translation",
        3.0,
        "译成某语言",
        "翻译|译|翻|转|换|改写",
        f"[^。\\n]{{0,12}}?(?:成|为|到|作)(?:{LANGS_ZH})",
    ),
    Phrase(
        "translation",
        3.5,
        "用某语言说",
        "用|在",
        f"(?:{LANGS_ZH})(?:里|中)?[^。\\n]{{0,8}}?(?:说|讲|表达|怎么|如何|翻)",
    ),
    Phrase(
        "translation",
        3.0,
        "怎么说",
        LANGS_ZH,
        "[^。\\n]{0,4}(?:怎么说|怎么讲|如何说|怎么写|如何表达|是什么意思)",
    ),
    Phrase(
        "translation",
        2.5,
        "某语言的意思",
        "用中文|中文|的中文",
        "(?:是什么)?意思",
    ),
)
