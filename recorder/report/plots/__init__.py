"""Plots as SVG that stands in a page: Vega-Lite by altair, drawn without a browser by vl-convert.

    style.py      colours, letters and sizes of all plots; foreign labels
    drawing.py    a specification -> markup; equal marks in a row become one
    dumbbells.py  two values a row: recorded and replayed
    over_time.py  values along the capture's timeline: lines, stacked bars, cells of a heat map
    lanes.py      rows that stand below each other under their names: bars, groups along time, partitions as a map

A plot is a specification, which tests read as data, and `svg` draws it. Its colours are the page's CSS variables, so
that one drawing suits light, dark and paper.
"""
