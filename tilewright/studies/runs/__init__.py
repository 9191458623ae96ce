"""Whole computations on simulated accelerators, each compared with its golden model.

Every module has one function that runs it and returns a frozen result object:

- :func:`~tilewright.studies.runs.bench.bench_block`: the bench of any block
- :func:`~tilewright.studies.runs.deca_gemm.gemm_on_deca`: a GEMM with compressed weights on DECA
- :func:`~tilewright.studies.runs.deca_tiles.measure_cycles`: the cycles per tile of DECA
- :func:`~tilewright.studies.runs.deca_rates.measure_streams`: tiles with core and memory
- :func:`~tilewright.studies.runs.deca_tiles.cover_tiles`: the functional coverage of DECA
- :func:`~tilewright.studies.runs.deca_gemm.layer_on_deca`: the weights of a decoder layer on DECA
- :func:`~tilewright.studies.runs.program.program_on_machine`: a program on Anda or Harmonia
- :func:`~tilewright.studies.runs.machine_layer.layer_on_machine`: steps of a decoder layer

``tilewright simulate`` calls them; a bench that fails raises
:class:`~tilewright.base.errors.CheckError`.
"""
