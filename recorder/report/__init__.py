"""Reports as one HTML file that needs nothing else: no font, no picture, no script from anywhere.

    page.py           Jinja2: a template and values -> the page, with all foreign text escaped
    figure.py         a number at the head of a page
    plots/            values -> SVG; alone imports altair
    replay.py         the sections of a replay's report
    files.py          the file of a replay's report: JSON or HTML, by its name; what is missing to write it
    capture.py        the report of a capture: as a page, as Markdown
    sections/         its sections in words and tables, for both
    listings.py       tables as values: columns, words, what they are sorted by
    capture_plots.py  its plots: a question, an answer, drawings
    markdown.py       findings and small tables for a pull request or a chat
    templates/        page.html (style and frame of every report), replay.html, capture.html; sort.js sorts tables

The extra `report` brings what HTML takes. Text stands beside plots: what a plot shows is said by a table, too.
"""
