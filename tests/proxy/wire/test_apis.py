from proxy.wire import apis
from tests.tables import each_row


def test_all_keys_from_0_to_94_are_known() -> None:
    assert apis.api_keys() == tuple(range(95))


def test_names_and_keys_lead_to_each_other() -> None:
    for key in apis.api_keys():
        name = apis.api_name(key)
        assert name is not None
        assert apis.api_key(name) == key
    assert apis.api_name(3) == "Metadata"
    assert apis.api_key("FindCoordinator") == 10


def test_an_unknown_api_is_none_or_empty() -> None:
    assert apis.api(95) is None
    assert apis.api_name(-1) is None
    assert apis.api_key("metadata") is None
    assert apis.message("request", 95) is None
    assert apis.versions(95) == range(0)
    assert not apis.known(95, 0)


@each_row(
    ("key", "versions"), [(0, range(14)), (1, range(19)), (3, range(14)), (7, range(4)), (78, range(3)), (94, range(1))]
)
def test_versions_are_the_union_of_all_releases(key: int, versions: range) -> None:
    assert apis.versions(key) == versions
    assert apis.known(key, versions[-1])
    assert not apis.known(key, versions[-1] + 1)


def test_request_and_response_agree_on_key_name_versions_and_flexibility() -> None:
    for key in apis.api_keys():
        found = apis.api(key)
        assert found is not None
        request, response = found
        assert (request.kind, response.kind) == ("request", "response")
        assert request.key == response.key == key
        assert request.api == response.api
        assert request.versions == response.versions
        assert request.flexible == response.flexible


def test_versions_newer_than_the_catalog_are_flexible_where_the_newest_is() -> None:
    assert apis.is_flexible(3, 9)
    assert not apis.is_flexible(3, 8)
    assert apis.is_flexible(3, 99)
    assert not apis.is_flexible(17, 99)
    assert not apis.is_flexible(1000, 99)
