"""The functions of ``import tilewright as tw``, one module for each thing that a user holds."""
