"""The functions behind ``import tilewright as tw``, one module for each thing that a user holds."""
