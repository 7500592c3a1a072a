"""The process from which Spark forks its Python workers, with the modules loaded that each worker would load itself."""

import gc

import pyarrow as pa  # noqa: F401 - for the workers
from pyspark.daemon import manager

import analysis.store  # noqa: F401 - for the workers
import mcpproxy.spark.source  # noqa: F401 - for the workers

if __name__ == "__main__":
    gc.freeze()
    manager()
