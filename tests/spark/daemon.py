"""What Spark forks its Python workers from, with all loaded that they load otherwise, again and again."""

import gc

import pyarrow as pa  # noqa: F401 - for the workers
from pyspark.daemon import manager

import analysis.store  # noqa: F401 - for the workers
import mcpproxy.spark.source  # noqa: F401 - for the workers

if __name__ == "__main__":
    gc.freeze()
    manager()
