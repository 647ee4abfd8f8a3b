from proxy.config import LogSettings


def test_a_log_is_for_people_unless_said_otherwise():
    assert (LogSettings().level, LogSettings().format) == ("info", "text")
