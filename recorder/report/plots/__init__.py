"""Plots as SVG that stands in a page: Vega-Lite by altair, drawn without a browser by vl-convert.

    shapes.py     what a plot shows, as values, and its colours: needs none of these packages
    log_axis.py   where logarithmic axes begin and end, and their labels; needs none either
    drawn.py      shapes -> drawings, for wide and for narrow screens
    style.py      letters and sizes of all plots; foreign labels
    drawing.py    a specification -> markup; equal marks in a row become one
    dumbbells.py  two values a row: recorded and replayed
    over_time.py  values along the capture's timeline: lines, stacked bars, cells of a heat map
    lanes.py      rows that stand below each other under their names: bars, groups along time, partitions as a map

A shape becomes a specification, which tests read as data, and `svg` draws it. Colours are the page's CSS variables, so
that one drawing suits light, dark and paper.
"""
