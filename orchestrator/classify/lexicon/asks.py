"""Requests to make something: the noun says of which class it is.

The English noun comes first ("a function that counts the words of a story" is code),
the Chinese one last in its clause (写一个关于小狗的故事).
"""

from __future__ import annotations

from orchestrator.classify.evidence import Phrase

_MAKE = (
    "write|create|generate|make|draft|compose|craft|design|build|develop|produce|pen"
    "|implement|construct|prepare|give me|help me write|come up with|provide|invent"
    "|think of|tell me|tell|show me|need|want"
)
_OBJECTS = (
    r"(?:[ ,]+(?!this|these|following)[^\s.!?;:,]+){0,7}?,?[ -]['\"*]?(?:"
    "(?P<code>functions?|programs?|code|class|method|algorithms?|query|queries|regex"
    "|regexp|regular expression|api|endpoint|unit tests?|test cases|apps?|application"
    "|website|web ?page|html|css|component|parser|compiler|makefile|dockerfile|macro"
    "|one-liner|decorator|crawler|scraper|implementation|navbar|subroutine|unit-tests?"
    "|(?:python|bash|shell|powershell|perl|lua|sql|build|deployment) script"
    "|linked list|binary tree|data structure|stored procedure|command[- ]line tool)"
    "|(?P<grounded>summary|summaries|abstract of|tl;dr|minutes|highlights|paraphrase)"
    "|(?P<structured>json|csv|xml|yaml|table|spreadsheet|jsonl|key-value pairs)"
    "|(?P<reasoning>proof|derivation)"
    "|(?P<translation>translations?)"
    "|(?P<creative>story|stories|tale|fable|fairy tale|poems?|poetry|haiku|sonnet"
    "|ballad|limerick|lyrics|song|rap|verses?|novel|fiction|screenplay|script|dialogue"
    "|play|monologue|scene|jokes?|pun|riddle|essay|article|blog|e-?mails?|letter"
    "|speech|toast|eulogy|vows|slogans?|taglines?|captions?|tweets?|ads?|advert"
    "|advertisement|commercial|pitch|press release|product description|headlines?"
    "|newsletter|memo|invitation|announcement|biography|bio|resume|review|vlog|podcast"
    "|postcard|diary|journal entry|(?:descriptive|persuasive|opening|short"
    "|engaging) paragraph|prologue|love letter|motto|campaign|landing page copy|copy"
    "|greeting|message|obituary|testimonial|script for|character|post|brand names?"
    "|nicknames?|puns|paragraph (?:describing|about|on)|names? for"
    "|titles? for))(?![a-z])"
)
_MAKE_ZH = (
    "写|编|创作|撰|拟|起草|生成|设计|作一|作诗|做一|做个|制作|开发|实现|讲|来一|来个"
    "|想|构思|给出|列|取|起|造|赋|吟|搭建|创建|建立|准备|策划"
)
_OBJECTS_ZH = (
    r"[^。！？\n；;，,]{0,30}(?:"
    "(?P<code>函数|代码|程序|脚本|算法|一个类|工具类|接口|查询|语句|正则|正则表达式"
    "|网页|页面|爬虫|组件|单元测试|建表语句|装饰器|工作流|配置文件|sql|html|css"
    "|单例模式|装饰器|缓存|链表|二叉树|排序|命令|小程序|网站|api|测试用例|数据结构)"
    "|(?P<grounded>摘要|概要|纪要|提要)"
    "|(?P<structured>表格|json|csv|xml|yaml"
    "|(?<!链)(?<!列)(?<!代)表(?![结语达示现演扬面情白])|字段)"
    "|(?P<translation>译文|翻译)"
    "|(?P<creative>诗|诗歌|宋词|一首词|歌词|科幻|短篇|悬疑|祝福|文字|赏析稿|故事|小说"
    "|文案|散文|作文|文章|剧本|对白|对话|台词|广告语|广告词|广告|标语|口号|情书"
    "|信(?!息|号|用|念|任)|邮件|工作总结|年终总结|辞职信|求职信|感谢信|道歉信|演讲稿"
    "|发言稿|主持稿|致辞|讲话稿|推文|朋友圈|童话|寓言|笑话|段子|相声|小品|贺词|祝福语"
    "|标题|名字|名称|日记|游记|影评|书评|绝句|律诗|对联|春联|谜语|简介|通知|稿|软文"
    "|策划案|海报|议论文|记叙文|小红书|评论|独白|短文|颁奖词|自我介绍|祝词|检讨书"
    "|倡议书|申请书|遗书|寄语|词牌))"
)

ASKS = (
    Phrase("", 3.0, "asks for", _MAKE, _OBJECTS),
    Phrase("", 3.0, "asks for", _MAKE_ZH, _OBJECTS_ZH),
)
