import doctest
import subprocess
import sys

from proxy.wire import records

CODEC_LIBRARIES = ("snappy", "lz4", "zstandard", "cramjam", "crc32c", "google_crc32c", "crcmod")


def test_the_example_of_the_front_page_works() -> None:
    failed, tried = doctest.testmod(records)
    assert (failed, tried) == (0, 4)


def test_codec_libraries_are_imported_when_their_codec_is_met() -> None:
    program = f"""if True:
        import sys
        import proxy.wire
        assert "proxy.wire.records" not in sys.modules
        from proxy.wire import records
        assert not set(sys.modules) & set({CODEC_LIBRARIES})
        data = records.write_batch([records.Record(0)], codec=records.Compression.LZ4)
        assert set(sys.modules) & set({CODEC_LIBRARIES}) == {{"lz4", "crc32c"}}
    """
    subprocess.run([sys.executable, "-c", program], check=True)
