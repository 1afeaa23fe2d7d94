"""Routes every LLM request to the vLLM pool whose speculative mode suits it."""
