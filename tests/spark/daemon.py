"""The process that Spark forks its Python workers from, with the modules loaded that each would load otherwise."""

import gc

import pyarrow as pa  # noqa: F401 - for the workers
from pyspark.daemon import manager

import analysis.store  # noqa: F401 - for the workers
import mcpproxy.spark.source  # noqa: F401 - for the workers

if __name__ == "__main__":
    gc.freeze()
    manager()
