"""Vocabulary that phrases of several classes share: alternatives of a pattern."""

from __future__ import annotations

LANGS = (
    "english|french|german|spanish|italian|portuguese|russian|japanese|korean|chinese"
    "|mandarin|cantonese|arabic|hindi|turkish|polish|dutch|swedish|norwegian|danish"
    "|finnish|greek|hebrew|czech|hungarian|romanian|ukrainian|vietnamese|thai|latin"
    "|indonesian|malay|persian|bengali|urdu|swahili|catalan"
)
CODE_LANGS = (
    "python|java|javascript|typescript|kotlin|scala|haskell|golang|php|perl|bash"
    "|powershell|fortran|cobol|matlab|sql|html|css|react|django|pytorch|tensorflow"
    "|pandas|numpy|mysql|postgres|postgresql|mongodb|sqlite|node.js|nodejs|dockerfile"
    "|kubernetes|terraform|opengl|cuda|verilog|vue|angular|fastapi|spring boot|regex"
)
TEXT = (
    "(?:text|passage|context|article|documents?|paragraphs?|information|excerpts?"
    "|report|sources?|notes|transcript|conversation|materials?|references?|snippets?"
    "|story|search results|facts|sentences?|letter|email|post|review|chapter|abstract"
    "|essay|paper|speech|contract|news|clause|quote|section|page|faq|manual|agreement"
    "|reviews?|comments?|memo)"
)
THIS = "(?:this|these|the|my|our|following|above|below|attached|provided|given|that|it)"
LANGS_ZH = (
    "英语|英文|中文|汉语|日语|日文|法语|法文|德语|德文|韩语|韩文|俄语|俄文|西班牙语"
    "|西班牙文|葡萄牙语|意大利语|阿拉伯语|泰语|越南语|文言文|白话文|粤语|拉丁语"
    "|简体中文|繁体中文|中|英"
)
TEXT_ZH = (
    "(?:文章|文字|文本|段落|内容|材料|资料|信息|段话|句子|句话|新闻|报道|邮件|文档"
    "|文献|上下文|对话|论文|作文|片段|记录|纪要|背景|知识|语段|短文|原文|通知|文案"
    "|报告|稿子|语句|回答|描述)"
)
