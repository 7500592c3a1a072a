"""The HTML report: captures as one self-contained file, which any browser can show without a network.

`report.Report` reads the captures, and its `pieces` are the text of the file. The page's own sources are in `page/`: a
skeleton, a style sheet and plain scripts, which are copied into the file unchanged.
"""
