import pytest

from tests.dashboards.promql import Selector, groupings, selectors, stray_names


def test_selectors_are_found_with_their_labels() -> None:
    expression = 'sum by (le, api) (rate(a_bucket{api=~"$api",version!="3"}[5m])) / max(b{})'
    assert list(selectors(expression)) == [
        Selector("a_bucket", frozenset({"api", "version"}), ranged=True),
        Selector("b", frozenset(), ranged=False),
    ]


def test_an_offset_belongs_to_its_selector() -> None:
    expression = "a{} unless a{} offset $__rate_interval or increase(a{}[5m] offset 1h)"
    assert [selector.ranged for selector in selectors(expression)] == [False, False, True]
    assert stray_names(expression) == set()


def test_matchers_that_are_not_understood_are_refused() -> None:
    with pytest.raises(AssertionError, match="not understood"):
        list(selectors("a{api~'x'}"))


def test_groupings_are_found_with_their_labels() -> None:
    assert groupings("sum by (le, api) (x{}) / sum by(api) (y{})") == [{"le", "api"}, {"api"}]


def test_a_series_without_a_matcher_is_found() -> None:
    assert stray_names('rate(a{x="1"}[5m]) or vector(0) / forgotten') == {"forgotten"}
    assert stray_names("sum by (api) (rate(a{}[5m])) > 0") == set()
