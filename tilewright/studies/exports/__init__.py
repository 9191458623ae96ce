"""Our systems in the forms of other tools: LLMServingSim, ZigZag and accelforge."""
