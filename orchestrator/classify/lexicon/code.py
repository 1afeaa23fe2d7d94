"""Phrases of `code`: programs, queries, configuration, and talk about them."""

from __future__ import annotations

from orchestrator.classify.evidence import Phrase
from orchestrator.classify.lexicon.terms import CODE_LANGS

CODE = (
    Phrase(
        "code",
        3.0,
        "a programming language",
        CODE_LANGS,
    ),
    Phrase(
        "code",
        2.0,
        "a programming language",
        "c++|c#|f#|asp.net",
    ),
    Phrase(
        "code",
        2.0,
        "in a programming language",
        "in|using|with|a",
        r" (?:go|rust|ruby|swift|c|r|julia|lua|assembly|shell|node|dart|elixir"
        r"|clojure)(?: (?:code|program|function|script|app|command)|[.,?:]|$| (?:that"
        r"|to|how)\b)",
    ),
    Phrase(
        "code",
        4.0,
        "port code",
        "translate|convert|port|rewrite|migrate|turn",
        rf"[^\n.]{{0,60}}?\b(?:to|into|in|from) (?:{CODE_LANGS}|go|rust|ruby|swift"
        rf"|c)\b",
    ),
    Phrase(
        "code",
        2.5,
        "this code",
        "this|my|following|given|above|below|some|the",
        r" (?:following )?(?!(?:area|zip|postal|dress|country|building"
        r"|promo) code)(?:\w+ )?(?:code|function(?! of)|snippet|codebase|pull request"
        r"|stack trace|unit test|script below|query below|sql query|program below)\b",
    ),
    Phrase(
        "code",
        2.5,
        "programming",
        "github|gitlab|ci pipeline|workflow file|commit|rebase|tuple|tuples|useeffect"
        "|usestate|middleware|orm|localhost|nginx|redis|graphql|websocket"
        "|terminal command|stack overflow|runtime error|syntax error|typeerror"
        "|valueerror|keyerror|indexerror|undefined|type hints|docstring|constructor"
        "|inheritance|polymorphism|object-oriented|multithreading|mutex|pointer"
        "|pointers|big-o|big o|any language|debug|debugging|compile|compiles|compiler"
        "|traceback|stack trace|refactor|leetcode|time complexity|space complexity"
        "|recursion|recursively|linked list|binary search|hash map|hashmap"
        "|dictionary comprehension|list comprehension|data structure|data structures"
        "|unit test|unit tests|source code|code that|code to|code for|coding"
        "|programming|segfault|segmentation fault|null pointer|nullpointerexception"
        "|race condition|deadlock|memory leak|async|await|api endpoint|rest api"
        "|regular expression|command line|command-line|cli|one-liner|git|docker|npm"
        "|pip|webpack|pytest|junit|binary tree|sorted array|sorted arrays|two arrays"
        "|integer array|stdin|stdout|pull request|merge conflict|backend|frontend"
        "|programmer|software engineer|developer|return true|returns true|subarray"
        "|substring|singly|heap|o(n",
    ),
    Phrase(
        "code",
        2.0,
        "implement",
        "implement|implementing",
        " (?:a|an|the|this|your)\\b",
    ),
    Phrase(
        "code",
        2.5,
        "implement data structures",
        "implement|implementing|reverse|merge|traverse|sort",
        r"(?: [^\s.!?]+){0,5}? (?:strings?|arrays?|matching|trees?|queue|stack|lists?"
        r"|cache|graph|matrix|sort|search|integers)\b",
    ),
    Phrase(
        "code",
        1.5,
        "a bug",
        "bug|bugs|throws|exception|error message|crash|crashes",
    ),
    Phrase(
        "code",
        2.5,
        "tests to pass",
        "assert|pass these tests|passes these tests|should pass",
    ),
    Phrase(
        "code",
        3.0,
        "a statement",
        "select",
        r" [\w*(][^\n]{0,80}?\bfrom\b",
    ),
    # Chinese
    Phrase(
        "code",
        2.5,
        "代码",
        "代码|函数|编程|程序|脚本|算法|报错|调试|编译|时间复杂度|空间复杂度|递归|链表"
        "|二叉树|数据库|正则|爬虫|接口|单元测试|重构|bug|前端|后端|线程|指针|数组|源码"
        "|伪代码|命令行|重载|泛型|多线程|死锁|框架|部署|动态规划|哈希|栈|异常|编写"
        "|语法错误|内存泄漏|组件|索引|登录页面",
    ),
    Phrase(
        "code",
        2.0,
        "用某语言写",
        "用|使用|基于",
        "(?:python|java|c\\+\\+|c语言|c#|go|rust|js|javascript|php|sql|r语言|shell"
        "|matlab|vue|react|html|typescript|swift|kotlin|pandas|numpy|pytorch|flask"
        "|django|spring|bash|linux|node)",
    ),
    Phrase(
        "code",
        2.0,
        "c语言",
        "c|go|r",
        "语言",
    ),
    Phrase(
        "code",
        2.5,
        "这段代码",
        "这段|下面|以下|下列|这个|上述|该",
        "[^。\\n]{0,8}?(?:代码|函数|程序|脚本|sql|查询语句)",
    ),
    Phrase(
        "code",
        2.0,
        "实现",
        "实现一个|请实现|编写|实现",
    ),
)
