"""``python benchmarks/genz_peer.py BITS BATCH CONTEXT FLOPS BANDWIDTH``: a token of GenZ, in ms.

Llama 3 8B decodes on a system of so many operations and bytes a second. Run by
``benchmarks.whole_model_bench`` with a Python that has GenZ (``pip install genz-llm``); nothing of
Tilewright is needed there.
"""

import contextlib
import io
import sys

from GenZ import System, decode_moddeling


def main() -> None:
    """Print the latency that GenZ gives."""
    bits, batch, context, flops, bandwidth = sys.argv[1:]
    system = System(
        flops=float(flops) / 1e12,
        offchip_mem_bw=float(bandwidth) / 1e9,
        off_chip_mem_size=1e6,  # megabytes: enough
        bits=bits,
    )
    with contextlib.redirect_stdout(io.StringIO()):
        found = decode_moddeling(
            model="llama3_8b",
            batch_size=int(batch),
            input_tokens=int(context),
            output_tokens=0,
            Bb=1,
            system_name=system,
            bits=bits,
        )
    print(found["Latency"] if isinstance(found, dict) else found.Latency)


if __name__ == "__main__":
    main()
