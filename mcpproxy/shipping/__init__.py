"""Shipping: closed captures as a Parquet data set in a directory or an object store that many machines share.

Every capture is shipped separately: its files first, then its manifest, which names them. A kill at any step leaves
either the old manifest or the new one, and the next run writes the same names again, so nothing is lost or counted
twice.
"""
