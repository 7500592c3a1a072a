"""The HTML report: captures as one file that explains itself in any browser, without a network.

`report.Report` reads the captures, and its `pieces` are the text of the file. The page's own sources are in `page/`: a
skeleton, a style sheet and plain scripts, which are put into the file as they are.
"""
