"""Phrases of `creative`: stories, poems, role play, marketing, letters and essays."""

from __future__ import annotations

from orchestrator.classify.evidence import Phrase

CREATIVE = (
    Phrase(
        "creative",
        4.0,
        "role play",
        "act as|acting as|pretend|roleplay|role-play|role play|role-playing"
        "|play the role|take on the role|assume the role|embrace the role"
        "|take the role|the role of|persona|in character|impersonate|imagine yourself"
        "|imagine you are|imagine you're|imagine that you|imagine being"
        "|picture yourself|put yourself|now you are|you are now|from now on you"
        "|i want you to be|suppose you are|you will play|speak as|talk like"
        "|talk to me as|answer as if|respond as if|as if you were|embody"
        "|step into the shoes|in the shoes of",
    ),
    Phrase(
        "creative",
        2.0,
        "point of view",
        "point of view of|perspective of|eyes of|tone of|warm tone|funny tone|playful",
    ),
    Phrase(
        "creative",
        2.0,
        "style",
        "in the style of|in the voice of|once upon a time|short story|bedtime story"
        "|fictional|fantasy|sensory details|imagery|vivid|vividly|rhyme|rhyming|rhymes"
        "|stanza|plot twist|protagonist|narrator|humorous|witty|catchy|playful tone"
        "|marketing|social media|instagram|tiktok|linkedin|campaign|copywriter"
        "|copywriting|poet|novelist|screenwriter|storyteller|comedian|birthday"
        "|heartfelt|wedding",
    ),
    Phrase(
        "creative",
        3.0,
        "continue a story",
        "continue|finish|rewrite|write|complete",
        r" (?:this|the|my|an?) (?:\w+ )?(?:story|tale|poem|scene|ending|chapter|verse"
        r"|plot)",
    ),
    Phrase(
        "creative",
        1.5,
        "a text of its own",
        "story|poem|haiku|sonnet|limerick|lyrics|slogan|tagline|toast|essay"
        "|cover letter|blog post|speech|monologue|screenplay|eulogy|love letter"
        "|short film|fan fiction",
    ),
    Phrase(
        "creative",
        1.5,
        "write",
        "compose|craft|pen|draft|write me|write a|write an|come up with|brainstorm"
        "|invent|dream up",
    ),
    # Chinese
    Phrase(
        "creative",
        3.5,
        "工作总结",
        "工作总结|年终总结|述职",
    ),
    Phrase(
        "creative",
        4.0,
        "角色扮演",
        "扮演|角色扮演|假装|假设你是|想象你是|假如你是|设想你是|你现在是|现在你是"
        "|你是一只|你是一位诗人|的口吻|的语气|的身份|模仿|仿照|的风格|的文风|化身"
        "|的视角|用生动|你是一只|如果你是|你来当|的角色",
    ),
    Phrase(
        "creative",
        2.5,
        "体裁",
        "诗|故事|小说|文案|散文|歌词|剧本|台词|广告语|口号|情书|演讲稿|童话|寓言|笑话"
        "|段子|作文|绝句|律诗|对联|宋词|小红书|朋友圈|标语|辞职信|求职信|感谢信|邀请函"
        "|道歉信|祝福语|贺词|致辞|发言稿|主持稿|主持词|脱口秀|推文|藏头诗|七言|五言"
        "|slogan|微小说|营销|公众号|自我介绍",
    ),
    Phrase(
        "creative",
        3.0,
        "续写",
        "续写|接着写|续编|写下去|编一个|编个|讲个|讲一个|给我讲|写一首|写首|写一篇"
        "|写篇|写一封|写封",
    ),
    Phrase(
        "creative",
        1.5,
        "写",
        "写一|写段|写个|帮我写|请写|创作|构思|撰写|起草|取名|起名|想几个|想一个",
    ),
)

#: Only in a user's message: every system prompt begins like this.
PERSONAS = (
    Phrase(
        "creative",
        2.5,
        "you are somebody",
        "you are a|you're a|you are an|you're an|you are the|you're the|let's play"
        "|you play",
        r"(?! (?:helpful|ai\b|assistant|expert|language model|professional tr|best"
        r"|one\b))",
    ),
    Phrase(
        "creative",
        2.5,
        "你是某人",
        "你是一名|你是一位|你是一个|你是一只|你是个",
        "(?!.{0,6}(?:助手|翻译|专家))",
    ),
)
