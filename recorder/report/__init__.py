"""Reports as one HTML file that needs nothing else: no script, no font, no picture from anywhere.

    page.py     Jinja2: a template and values -> the page, with all foreign text escaped
    plots.py    values -> SVG; alone imports altair
    replay.py   the sections of a replay's report
    files.py    the file of a report: JSON or HTML, by its name; what is missing to write it
    templates/  page.html (style and frame of every report), replay.html

The extra `report` brings what HTML takes. Text stands beside plots: what a plot shows is said by a table, too.
"""
