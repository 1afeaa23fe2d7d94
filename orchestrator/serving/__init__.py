"""All that touches Ray Serve and vLLM."""
