"""The Anda accelerator's golden side: vector arithmetic, programs, their results and cycles."""
