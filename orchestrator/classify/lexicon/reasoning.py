"""Phrases of `reasoning`: mathematics, logic, riddles."""

from __future__ import annotations

from orchestrator.classify.evidence import Phrase

REASONING = (
    Phrase(
        "reasoning",
        3.0,
        "mathematics",
        "solve|compute|calculate|evaluate|integrate|differentiate|factorize|factorise"
        "|simplify the expression|simplify the following expression|prove|disprove"
        "|find the value|find the sum|find the area|find the probability"
        "|find the roots|find the derivative|find the limit|find the number of"
        "|find the minimum|find the maximum|find the smallest|find the largest"
        "|find the radius|find x|find all|determine the number|determine the value"
        "|determine whether|show that|what is the value|what is the sum"
        "|what is the remainder|find the equation",
    ),
    Phrase(
        "reasoning",
        2.0,
        "terms of mathematics",
        "probability|remainder|integral|derivative|equation|equations|polynomial"
        "|matrix|determinant|theorem|perimeter|hypotenuse|irrational|integer solutions"
        "|divisible|prime factors|quadratic|logarithm|trigonometric|eigenvalue"
        "|eigenvalues|modulo|permutations|combinations|geometric series|inscribed"
        "|circumference|radius|positive integers|positive integer|prime number"
        "|real numbers|expected value|odd numbers|even numbers|multiple of|divisor"
        "|divisors|factorial|arithmetic|geometry|algebra",
    ),
    Phrase(
        "reasoning",
        2.0,
        "step by step",
        "step by step|step-by-step|show your work|show your reasoning|chain of thought"
        "|explain your reasoning|explain your answer|explain how you|reason through"
        "|think carefully|let's think|logically|deduce|infer|logic puzzle|riddle"
        "|puzzle|syllogism|brain teaser|brainteaser|final answer",
    ),
    Phrase(
        "reasoning",
        2.5,
        "logic",
        "must be true|true, false|true or false|could be true|statements"
        "|which statement|what can we conclude|what can be concluded|does it follow"
        "|can we conclude|is it possible that|does not belong|doesn't belong"
        "|odd one out|knights and|tells the truth|always lies|is lying|next number"
        "|next in the sequence|comes next|missing number|what is the relationship"
        "|how is|related to",
    ),
    Phrase(
        "reasoning",
        2.5,
        "premises",
        "if all|all|no|some|every|if no|if some|if every",
        r" \w+ (?:are|is) [^\n]{1,60}?\b(?:all|some|no|every|every|are) ?\w* (?:are"
        r"|is)\b",
    ),
    Phrase(
        "reasoning",
        1.5,
        "compares",
        "taller|older|younger|shorter|heavier|lighter|faster|slower|richer|more|less"
        "|fewer|higher|lower|bigger|larger|smaller|beats|finishes|sits|left of"
        "|right of|north of",
        r"(?: \w+)? (?:than|behind|before|after|but|next)\b",
    ),
    Phrase(
        "reasoning",
        1.5,
        "terms of riddles",
        "the mother of|the father of|the sister of|the brother of|the son of"
        "|the daughter of|the wife of|the husband of|the uncle of|has one brother"
        "|anagram|rearrange|if today is|if yesterday|if tomorrow|days after"
        "|the day before|days from|the letters|coded as|stands for|is written as"
        "|north of|south of|east of|west of|facing|clockwise|sunrise|sunset|dealt",
    ),
    Phrase(
        "reasoning",
        1.5,
        "puzzle's end",
        "who is|who was|where is|which|in which|what is|what's|in what|what position"
        "|what direction",
        r"(?: \w+){0,3}? (?:tallest|oldest|youngest|heaviest|fastest|shortest|first"
        r"|last|direction|position|relationship|order|facing|overtake|relation"
        r"|reasons?)\b",
    ),
    Phrase(
        "reasoning",
        1.0,
        "asks for a quantity",
        "how many|how much|how long|how far|how old|how fast|how tall|how big|how high"
        "|how heavy|what percent|what percentage|what fraction|what is the total"
        "|what's the total|what was the total|what is the average|what will be"
        "|in total|altogether|combined|what is the difference|how often|what time"
        "|calculate the",
    ),
    # Chinese
    Phrase(
        "reasoning",
        2.5,
        "求解",
        "计算|求|解方程|解不等式|证明|求证|化简|因式分解|求导|求解|推导|解答|算一算"
        "|算算|口算|解下列|列方程|推断",
        "(?<!要求)(?<!请求)(?<!需求)(?<!追求)(?!机|器|职|助|救|婚|学|医|生|租|购|推荐"
        "|你|您|教|和)",
    ),
    Phrase(
        "reasoning",
        1.0,
        "问数量",
        "多少|几个|几只|几种|几名|几人|几天|几小时|几元|几支|几本|几岁|几条|几颗|几辆"
        "|多大|多长|多久|多远|百分之几|几分之几|几次|几位|几棵|几米|几千米|第几|几点"
        "|等于几",
    ),
    Phrase(
        "reasoning",
        2.0,
        "合计",
        "还剩|一共|总共|剩下|平均|共有|各有|各是|星期几|增加了|减少了|是原来的|相差"
        "|两队|合作|至少有",
    ),
    Phrase(
        "reasoning",
        2.0,
        "比较",
        "比",
        "[^，。？\\n]{1,6}?(?:高|矮|大|小|重|轻|快|慢|多|少|早|晚|贵|便宜|强|长"
        "|短)(?:[，。；0-9一两]|的)",
    ),
    Phrase(
        "reasoning",
        2.0,
        "数学用语",
        "概率|方程|面积|周长|体积|函数f|极值|导数|积分|极限|矩阵|数列|等差|等比|质数"
        "|整除|余数|不等式|三角形|长方形|正方形|圆柱|圆的|半径|直径|直角|抛物线"
        "|鸡兔同笼|排列组合|最大值|最小值|公约数|公倍数|利率|速度|时速|千米|平方|立方"
        "|分数|小数|应用题|数学题|奇数|偶数|向量|行列式|原价|打折|利润|相遇|工程队"
        "|质因数|平方根|圆周|浓度|一项工程",
    ),
    Phrase(
        "reasoning",
        2.5,
        "逻辑",
        "逻辑|推理|一步一步|一步步|逐步|谁说|说谎|撒谎|说真话|真话|假话|谜题"
        "|脑筋急转弯|规律填|下一个数|找规律|猜谜|以下哪项|下列哪项|哪项|能推出"
        "|必然为真|一定为真|谁最|如果所有|所有的|凶手|得出什么结论|结论是否|前提"
        "|只有一人|只有一个人|真假|智力题|说明理由|推理过程|填什么|填几|括号里|大于"
        "|小于",
    ),
)
