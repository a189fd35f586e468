"""Fast products with quantised weights on a Linux CPU, which MLX itself computes slowly.

A weight matrix is kept in panels of 16 rows, in as many bits as its file has, and multiplied by
functions compiled at start for the processor at hand. They stand in for BLAS below MLX: where
MLX asks for a product with a matrix that stands for panels, they compute it. A row's product is
the same to the last bit whatever rows are multiplied with it, so sequences that are decoded
together come out as they would alone.
"""
