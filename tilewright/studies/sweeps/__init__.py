"""Many variants of a block through synthesis and simulation, here or on a Dask cluster."""
