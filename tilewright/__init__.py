"""Open hardware for compressed-LLM inference, one package from parameters to report.

``golden`` holds the parameter objects and the bit-exact models, ``hw`` the RTL, ``sim`` the
performance model, ``synth`` netlists in open cell libraries, ``kernels`` the sparse kernels for
CPUs, ``torch`` the number formats in PyTorch models. On these build ``base``, ``verify`` (benches),
``studies`` (experiments), ``report`` and ``cli``.
"""

__version__ = "0.3.0"  # here and not in the package's metadata: a checkout alone has none
