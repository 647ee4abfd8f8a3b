"""Reports as one HTML file that loads nothing else: no font, no picture, no script. Captures also as Markdown.

    page.py             Jinja2: a template and values -> the page, with all foreign text escaped
    figure.py           a number at the head of a page
    plots/              plots as values, and as SVG; alone imports altair
    replay.py           the sections of a replay's report
    files.py            writes the file of a report; checks before if it can be written
    capture.py          the report of a capture: as a page, as Markdown
    sections/           its sections in words, tables and plots, a file for each; section.py: a section as a value
    every_section.py    all of them in their order
    listings.py         tables as values: columns, words, sort values
    series.py           series along time: in a sentence, and as plots
    changes.py          two captures side by side: as a page, as Markdown
    change_sections.py  their sections in words and tables; change_plots.py: their plots
    markdown.py         findings and small tables for a pull request or a chat
    templates/          page.html (style and frame of every report), a template for each report; sort.js sorts tables

The extra `report` installs the packages for HTML. A table or text beside each plot gives the same facts.
"""
