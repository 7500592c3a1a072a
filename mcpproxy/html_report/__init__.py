"""The HTML report: captures as one self-contained file, which any browser can show without a network.

`report.HtmlReport` reads the captures, and its `pieces` are the text of the file. `comparison.ComparisonPage` is the
same for a comparison. The sources of both pages are in `page/`: a skeleton, style sheets and plain scripts, which are
copied into the file unchanged.
"""
