"""Phrases of `structured`: JSON, tables, fixed fields, extraction, classification."""

from __future__ import annotations

from orchestrator.classify.evidence import Phrase
from orchestrator.classify.lexicon.terms import TEXT_ZH

STRUCTURED = (
    Phrase(
        "structured",
        1.5,
        "a data format",
        "json|csv|xml|yaml|jsonl|toml|tsv",
    ),
    Phrase(
        "structured",
        3.5,
        "as a data format",
        "as|in|into|to|valid|output|return|returns|respond|reply|format|formatted|only"
        "|produce|following",
        r"(?: [^\s.!?]+){0,5}? (?:json|csv|xml|yaml|jsonl|toml|tsv|(?:markdown )?table"
        r"|tabular|key-value|comma[- ]separated)\b",
    ),
    Phrase(
        "structured",
        2.0,
        "the answer as data",
        "answer|answers|result|results|output|response",
        r"(?: [^\s.!?]+){0,4}? (?:json|csv|xml|yaml|table|array|list of)\b",
    ),
    Phrase(
        "structured",
        2.0,
        "a table",
        "markdown table|table with|table of|a table|columns|spreadsheet|tabular"
        "|with keys|with the keys|with fields|with the fields"
        "|with the following fields|schema",
    ),
    Phrase(
        "structured",
        3.0,
        "extract",
        "extract|extracting|extraction|slot filling",
    ),
    Phrase(
        "structured",
        2.5,
        "pull out",
        "name|pull|pick|identify|list|find|get|collect|output|report|note|give",
        r" (?:out )?(?:all|every|each|any|the named)\b[^\n.?]{0,80}?\b(?:names?"
        r"|entities|dates?|numbers?|emails?|addresses|in the|from|mentioned"
        r"|for (?:each|every)|error|of the following|below)\b",
    ),
    Phrase(
        "structured",
        2.5,
        "parse",
        "parse|split",
        r"[^\n.]{0,40}? into\b",
    ),
    Phrase(
        "structured",
        2.5,
        "entities",
        "named entities|named entity|entities",
    ),
    Phrase(
        "structured",
        3.0,
        "classify",
        "classify|categorize|categorise|label|tag|annotate|assign|sort|group|mark"
        "|divide|arrange|decide|judge",
        r"(?: [^\s.!?]+){0,3}? (?:each|the|these|this|following|every|them|sentiment"
        r"|as|into|to one)\b",
    ),
    Phrase(
        "structured",
        1.5,
        "labels",
        "sentiment|categories|category|labels|one label|intent|topic of each",
    ),
    Phrase(
        "structured",
        2.0,
        "fields",
        "fields|columns|attributes|with keys|the keys|an array of|a list of integers"
        "|pairs|array",
        r"(?: ?[:(,.]|\.| (?:name|id|of|for|and|with|are|such|like|should))",
    ),
    Phrase(
        "structured",
        1.5,
        "for each",
        "for each|for every|each of the|of each",
    ),
    Phrase(
        "structured",
        2.0,
        "fixed lines",
        "per line|one per line|per line|separate line|separate lines|each line"
        "|line by line|line-by-line|one line|separated by|comma-separated"
        "|comma separated|semicolon-separated|in the format|in this format"
        "|following format|this format|the format|as a list of|key-value",
    ),
    Phrase(
        "structured",
        2.0,
        "nothing else",
        "reply with just|answer with just|just the|reply with only|return only"
        "|output only|only output|only return|respond only|answer only|reply only"
        "|no other text|no extra text|nothing else|no explanation|without explanation",
    ),
    Phrase(
        "structured",
        1.5,
        "rate",
        "rate|score|rank|scale of|a scale",
        r"[^\n.]{0,60}?\b(?:\d|each|scale|from)",
    ),
    Phrase(
        "structured",
        2.5,
        "fill in",
        "fill in|fill out|populate|fill the",
    ),
    Phrase(
        "structured",
        2.0,
        "count occurrences",
        "count|number of times|how many times|how often",
        r"[^\n?]{0,60}?\b(?:appears?|occurs?|occurrences|words?|mentioned)",
    ),
    Phrase(
        "structured",
        3.0,
        "given data",
        "following|below|these|given the|given this",
        r" (?:following |above )?(?:\w+ )?(?:data|records|log|logs|entries|rows|table"
        r"|categories|dataset)\b",
    ),
    # Chinese
    Phrase(
        "structured",
        3.0,
        "某格式",
        "以|用|为|成|出|返回|按|转|表格|键值对|结构化|json|csv|xml|yaml|markdown",
        "(?:(?<=[以用为成出回按转])[^。\\n]{0,8}?(?:json|csv|xml|yaml|表格|markdown)"
        "|(?<=[格对化])|[的]?(?:格式|数组|对象|形式|表))",
    ),
    Phrase(
        "structured",
        3.0,
        "提取",
        "提取|抽取|识别|找出|列出|摘录|筛选|解析",
        f"[^。\\n]{{0,20}}?(?:{TEXT_ZH}|中|里|所有|姓名|名|时间|日期|实体|地点|关键词"
        f"|字段|金额|电话|公司|信息|人物|数据|类型)",
    ),
    Phrase(
        "structured",
        2.5,
        "抽取",
        "提取|抽取|信息抽取|实体|命名实体|槽位|三元组|关键词",
    ),
    Phrase(
        "structured",
        3.0,
        "分类",
        "分类|归类|标注|打标签|判断情感|情感分析|情感倾向|判断以下|判断下列|分为|划分"
        "|情感分类|意图|类别",
    ),
    Phrase(
        "structured",
        2.0,
        "固定格式",
        "每行|逐行|字段|格式返回|格式输出|格式如下|格式给出|按照格式|按如下格式"
        "|以如下格式|以列表|列表形式|用逗号|逗号分隔|输出格式|分号分隔|用分号|一行一个"
        "|的格式|的形式|格式为|填写|填入",
    ),
    Phrase(
        "structured",
        1.5,
        "只输出",
        "只输出|仅输出|只返回|仅返回|不要输出|不要解释|不要有多余|只需输出|直接输出"
        "|只回答",
    ),
    Phrase(
        "structured",
        2.5,
        "对比表",
        "表格|列表对比|对比表|统计表|课程表|时间表|制表",
    ),
    Phrase(
        "structured",
        1.0,
        "打分",
        "打分|评分|排序|排名|分别统计|统计",
    ),
)
