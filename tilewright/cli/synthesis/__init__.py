"""The verbs of ``tilewright synth``, a module each: it reads its options, calls and prints."""
