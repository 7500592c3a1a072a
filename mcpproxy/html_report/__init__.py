"""The HTML report: captures as one file that explains itself in any browser, without a network.

`report.write_report` reads the captures and writes the file. The page's own sources are in `page/`: a skeleton, a style
sheet and plain scripts, which are put into the file as they are.
"""
