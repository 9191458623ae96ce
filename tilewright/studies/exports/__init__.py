"""Our systems in the forms of other tools: LLMServingSim and ZigZag."""
