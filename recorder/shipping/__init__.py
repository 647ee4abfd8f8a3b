"""Ships a capture to an S3 bucket: a process beside the proxy, and the command `ship`.

    store     one bucket: puts a file, and asks what the bucket holds; the SDK's errors become causes
    shipper   a capture, oldest file first: put, checked, recorded (`recorder.capture.shipped`), tried again
    process   what the proxy starts and keeps running
    beside_proxy   its command line, and its numbers for the metrics
    command   `kafka-wiretap ship`

What is to be shipped is found by `recorder.capture.unshipped`, because retention asks for it, too.
"""
